"""How each form of a kept method predicts, from arrays of a few numbers.

Whole baselines are compared with refits in `test_fitted_arrays.py`.
"""

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.learners.baselines import arrays as module
from aam.learners.baselines.arrays import (
    HALF_EDGE,
    ComparedSamples,
    FittedMethod,
    log_ratios,
    read_methods,
    write_methods,
)

READS = [[0, 4, 1], [9, 0, 1], [2, 2, 0]]
KEPT = [[1, 1, 1], [5, 0, 3]]
DISTANCES = [[1.0, 2.0, 4.0], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25]]
ABOVE = [[1, 0], [1, 1], [0, 1]]
LENGTHS = np.array([4.0, 9.0])

# Two trees on the columns 2 and 0 of the reads. The first asks for at most 3 of the column 0, then
# for at most 0 of the column 2; the second for at most 1 of the column 0.
TREES = {
    "columns": np.array([2, 0]),
    "roots": np.array([0, 5]),
    "left": np.array([1, 3, -1, -1, -1, 6, -1, -1]),
    "right": np.array([2, 4, -1, -1, -1, 7, -1, -1]),
    "features": np.array([1, 0, 0, 0, 0, 1, 0, 0]),
    "thresholds": np.array([3.0, 0.5, 0, 0, 0, 1.0, 0, 0]),
}
LEAVES = [[4, 6], [2, 7], [3, 7]]
"""Node in which each sample of `READS` ends, of either tree."""
NUMBERS = {"unit": 1.0, "bounds": [None, None]}
"""Facts of every method that predicts numbers."""


def samples() -> ComparedSamples:
    return ComparedSamples(
        counts=csr_array(np.array(READS, np.float64)),
        above=csr_array(np.array(ABOVE, np.float64)),
        lengths=LENGTHS,
        kept=csr_array(np.array(KEPT, np.float64)),
        distances=np.array(DISTANCES, np.float32),
    )


def predict(facts: dict, arrays: dict) -> np.ndarray:
    return FittedMethod(facts, arrays).predict(samples())


def features(reads: list[int], pairs: str) -> np.ndarray:
    """Return centred log-ratios of the columns 2 and 0, or log-reads of both branches."""
    if pairs == "log-ratios":
        logs = np.log([reads[2] + 0.5, reads[0] + 0.5])
        return logs - logs.mean()
    return np.array([2 * np.log(reads[0] + reads[1] + 0.5), 3 * np.log(reads[1] + reads[2] + 0.5)])


@pytest.fixture(params=[1024, 2])
def rows_at_once(request, monkeypatch):
    """Predict all rows together, or some at a time."""
    monkeypatch.setattr(module, "ROWS_AT_ONCE", request.param)
    monkeypatch.setattr(module, "NODES_AT_ONCE", 4 if request.param == 2 else 1_000_000)


def test_a_constant_is_the_same_for_every_row():
    shares = {"values": np.array([0.25, 0.75])}
    assert predict({"form": "constant"}, shares).tolist() == [[0.25, 0.75]] * 3


@pytest.mark.parametrize(
    ("bounds", "expected"), [([None, None], 12.0), ([None, 10.0], 10.0), ([13.0, None], 13.0)]
)
def test_numbers_have_their_unit_and_do_not_pass_their_bounds(bounds, expected):
    facts = {"form": "constant", "unit": 4.0, "bounds": bounds}
    assert predict(facts, {"values": np.array([3.0])}).tolist() == [[expected]] * 3


def test_rows_go_left_where_reads_are_at_most_the_threshold():
    # A sample has as many reads of the column 0 as the threshold, one has fewer and one has more.
    tree = {
        "columns": np.array([0]),
        "roots": np.array([0]),
        "left": np.array([1, -1, -1]),
        "right": np.array([2, -1, -1]),
        "features": np.array([0, 0, 0]),
        "thresholds": np.array([2.0, 0, 0]),
        "values": np.array([[-1.0], [10.0], [20.0]]),
    }
    assert predict({"form": "mean of trees"}, tree).tolist() == [[10.0], [20.0], [10.0]]


def test_a_tree_of_a_single_leaf_says_the_same_of_every_row():
    root = {name: np.array([-1]) for name in ("left", "right")}
    root |= {name: np.zeros(1, int) for name in ("columns", "roots", "features", "thresholds")}
    root["values"] = np.array([[7.0]])
    assert predict({"form": "mean of trees"}, root).tolist() == [[7.0]] * 3


@pytest.mark.usefixtures("rows_at_once")
def test_the_mean_of_trees_weighs_trees_alike():
    arrays = TREES | {"values": np.arange(8.0)[:, None] * [1.0, 10.0]}
    # The value of a node is its number: 4 and 6, 2 and 7, 3 and 7.
    expected = [[5.0, 50.0], [4.5, 45.0], [5.0, 50.0]]
    assert predict({"form": "mean of trees"}, arrays).tolist() == expected


def label_arrays(weights: np.ndarray) -> dict:
    """Return the arrays of the labels 10, 20 and 30, whose weights every node has."""
    sparse = csr_array(weights)
    return TREES | {
        "labels": np.array([10.0, 20.0, 30.0]),
        "label_offsets": sparse.indptr,
        "label_numbers": sparse.indices,
        "label_weights": sparse.data,
    }


MEDIANS = {"form": "median of leaves", "middle": 0} | NUMBERS
LABEL_WEIGHTS = np.zeros((8, 3))
LABEL_WEIGHTS[2] = [0.9, 0.1, 0]
LABEL_WEIGHTS[3] = [0, 1 / 3, 2 / 3]
LABEL_WEIGHTS[4] = [0.5, 0.5, 0]
LABEL_WEIGHTS[6] = [0, 0, 1]
LABEL_WEIGHTS[7] = [0.2, 0.2, 0.6]


@pytest.mark.usefixtures("rows_at_once")
def test_the_median_of_leaves_is_the_label_at_which_half_of_the_weight_is_reached():
    # Sums of the weights of labels: 0.5, 1, 2; 1.1, 1.4, 2; 0.2, 0.733, 2. Half of them is 1.
    found = predict(MEDIANS, label_arrays(LABEL_WEIGHTS))
    assert found.tolist() == [[20.0], [10.0], [30.0]]


@pytest.mark.usefixtures("rows_at_once")
def test_a_row_whose_leaves_have_no_label_gets_the_median_of_training():
    # The first row ends in the nodes 4 and 6.
    weights = LABEL_WEIGHTS * np.isin(np.arange(8), [2, 3])[:, None]
    found = predict(MEDIANS | {"middle": 2}, label_arrays(weights))
    assert found.tolist() == [[30.0], [10.0], [30.0]]


@pytest.mark.parametrize(("missing", "median"), [(1e-3 * HALF_EDGE, 10.0), (1e3 * HALF_EDGE, 20.0)])
def test_half_of_the_weight_may_be_missed_by_rounding_alone(missing, median):
    weights = np.tile([0.5 - missing, 0.5 + missing, 0.0], (8, 1))
    assert predict(MEDIANS, label_arrays(weights)).tolist() == [[median]] * 3


BOOSTED = TREES | {"values": np.arange(8.0)[:, None]}
"""Boosted trees, in which the value of a node is its number."""


@pytest.mark.usefixtures("rows_at_once")
def test_boosted_trees_are_added_to_their_start():
    arrays = BOOSTED | {"start": np.array([100.0])}
    found = predict({"form": "sum of trees"} | NUMBERS, arrays)
    assert found.tolist() == [[110.0], [109.0], [110.0]]


@pytest.mark.usefixtures("rows_at_once")
def test_boosted_trees_of_two_classes_sum_to_the_logit_of_the_second_one():
    # The second class is the first of three columns; the sums are 0, -1 and 0.
    arrays = BOOSTED | {"start": np.array([-10.0]), "codes": np.array([2, 0])}
    shares = predict({"form": "sum of trees", "classes": 3}, arrays)
    second = 1 / (1 + np.exp(1.0))
    expected = [[0.5, 0, 0.5], [second, 0, 1 - second], [0.5, 0, 0.5]]
    np.testing.assert_allclose(shares, expected)


@pytest.mark.usefixtures("rows_at_once")
def test_boosted_trees_of_a_round_belong_to_one_class_each():
    arrays = BOOSTED | {"start": np.array([2.0, 1.0]), "codes": np.array([0, 1])}
    shares = predict({"form": "sum of trees", "classes": 2}, arrays)
    raw = np.array(LEAVES) + [2.0, 1.0]
    np.testing.assert_allclose(shares, np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True))


@pytest.mark.usefixtures("rows_at_once")
def test_a_linear_method_weighs_standardized_log_ratios():
    arrays = {
        "columns": np.array([2, 0]),
        "mean": np.array([0.5, -0.5]),
        "scale": np.array([2.0, 4.0]),
        "coefficients": np.array([[1.0, 3.0]]),
        "intercept": np.array([0.25]),
    }
    facts = {"form": "linear", "added": 0.5}
    raw = [
        (ratio[0] - 0.5) / 2 + 3 * (ratio[1] + 0.5) / 4 + 0.25
        for ratio in (features(reads, "log-ratios") for reads in READS)
    ]
    found = predict(facts | {"unit": 2.0, "bounds": [None, None]}, arrays)
    assert found[:, 0].tolist() == pytest.approx([2 * value for value in raw])
    shares = predict(facts | {"classes": 2}, arrays | {"codes": np.array([0, 1])})
    assert shares[:, 1].tolist() == pytest.approx([1 / (1 + np.exp(-value)) for value in raw])


@pytest.mark.usefixtures("rows_at_once")
def test_a_kernel_of_distances_falls_with_them():
    arrays = {
        "columns": np.zeros(0, int),
        "rows": np.array([2, 0]),
        "duals": np.array([[1.0], [-2.0]]),
        "intercept": np.array([5.0]),
    }
    facts = {"form": "kernel", "pairs": "distances", "kernel": "linear", "scale": 2.0, "added": 0.0}
    method = FittedMethod(facts, arrays)
    assert (method.needs_samples, method.needs_distances, method.needs_reads) == (True, True, False)
    expected = [np.exp(-row[2] / 2) - 2 * np.exp(-row[0] / 2) + 5 for row in DISTANCES]
    assert method.predict(samples())[:, 0].tolist() == pytest.approx(expected)


@pytest.mark.usefixtures("rows_at_once")
@pytest.mark.parametrize("pairs", ["log-ratios", "clades"])
@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
@pytest.mark.parametrize("projected", [False, True])
def test_a_kernel_of_features_compares_with_training_samples(pairs, kernel, projected):
    center = np.array([0.25, -0.5])
    axes = np.array([[0.6], [0.8]])
    arrays = {
        "columns": np.array([2, 0] if pairs == "log-ratios" else [0, 1]),
        "rows": np.array([1, 0]),
        "duals": np.array([[1.0], [-2.0]]),
        "intercept": np.array([0.5]),
        "center": center,
    }
    if projected:
        arrays["axes"] = axes
    facts = {"form": "kernel", "pairs": pairs, "kernel": kernel, "scale": 3.0, "added": 0.5}
    method = FittedMethod(facts, arrays)
    assert (method.needs_distances, method.needs_reads) == (False, True)
    known = [features(KEPT[row], pairs) - center for row in (1, 0)]
    expected = []
    for reads in READS:
        own = features(reads, pairs) - center
        values = []
        for other in known:
            product = (own @ axes) @ (other @ axes) if projected else own @ other
            # Lengths are those of all features, projected or not.
            half_squares = (own @ own + other @ other) / 2
            gaussian = np.exp((product - half_squares) / 3)
            values.append(product / 3 if kernel == "linear" else gaussian)
        expected.append(values[0] - 2 * values[1] + 0.5)
    assert method.predict(samples())[:, 0].tolist() == pytest.approx(expected)


CLADE_WEIGHTS = {
    "form": "kernel",
    "pairs": "clades",
    "kernel": "linear",
    "scale": 3.0,
    "added": 0.5,
}
WEIGHTS = {
    "columns": np.array([0, 1]),
    "weights": np.array([[2.0, -1.0], [0.5, 1.0]]),
    "center": np.array([0.25, -0.5]),
    "intercept": np.array([0.5, -0.5]),
    "is_missing": np.array([False, False]),
    "codes": np.array([1, 0]),
}


def decision_values() -> np.ndarray:
    """Return what the weights say of the reads of each sample."""
    centred = np.array([features(reads, "clades") for reads in READS]) - WEIGHTS["center"]
    return centred @ WEIGHTS["weights"] + WEIGHTS["intercept"]


@pytest.mark.usefixtures("rows_at_once")
def test_a_linear_kernel_is_a_weight_for_each_feature_and_needs_no_sample():
    assert not FittedMethod(CLADE_WEIGHTS, WEIGHTS).needs_samples
    assert predict(CLADE_WEIGHTS, WEIGHTS) == pytest.approx(decision_values())


def test_decision_values_are_divided_by_a_temperature():
    exponential = np.exp(decision_values() / 4)
    expected = exponential / exponential.sum(axis=1, keepdims=True)
    shares = predict(CLADE_WEIGHTS | {"temperature": 4.0, "classes": 2}, WEIGHTS)
    # The codes turn the order of both classes round.
    np.testing.assert_allclose(shares, expected[:, ::-1])


def test_a_class_that_training_lacked_is_never_predicted():
    missing = WEIGHTS | {"is_missing": np.array([True, False])}
    shares = predict(CLADE_WEIGHTS | {"temperature": 4.0, "classes": 3}, missing)
    assert shares.tolist() == [[1.0, 0.0, 0.0]] * 3


@pytest.mark.parametrize(
    ("neighbours", "expected"),
    [
        (1, [10.0, None, None]),
        # Weights 1 and 1/2; two copies, which count alone; 4 and 4.
        (2, [(10 + 10) / 1.5, 25.0, (80 + 160) / 8]),
        # Weights 1, 1/2 and 1/4; two copies; 2, 4 and 4.
        (3, [(10 + 10 + 10) / 1.75, 25.0, (20 + 80 + 160) / 10]),
    ],
)
def test_neighbours_count_by_the_inverse_of_their_distance_and_copies_alone(neighbours, expected):
    arrays = {"rows": np.array([0, 1, 2]), "targets": np.array([[10.0], [20.0], [40.0]])}
    found = predict({"form": "neighbours", "neighbours": neighbours} | NUMBERS, arrays)
    for value, wanted in zip(found[:, 0], expected, strict=True):
        # With one neighbour, either of two that are as near may be taken.
        assert wanted is None or value == pytest.approx(wanted)


def test_neighbours_share_the_probability_of_classes_by_the_inverse_of_their_distance():
    arrays = {"rows": np.array([2, 1]), "targets": np.array([[1.0, 0.0], [0.0, 1.0]])}
    shares = predict({"form": "neighbours", "neighbours": 2, "classes": 2}, arrays)
    np.testing.assert_allclose(shares, [[1 / 3, 2 / 3], [1.0, 0.0], [0.5, 0.5]])


def test_log_ratios_are_centred_within_a_sample():
    found = log_ratios(csr_array(np.array([[0.0, 3.0], [1.0, 1.0]])), 1.0)
    half = np.log(4) / 2
    assert found == pytest.approx(np.array([[-half, half], [0.0, 0.0]]))


def test_what_is_written_of_methods_is_read_again():
    methods = {
        "kernel": FittedMethod({"form": "kernel"}, {"a": np.arange(4.0)[::2], "b": np.ones(1)}),
        "constant": FittedMethod({"form": "constant"}, {"a": np.zeros(3)}),
    }
    facts, arrays = write_methods(methods)
    assert facts == {"kernel": {"form": "kernel"}, "constant": {"form": "constant"}}
    assert sorted(arrays) == ["constant/a", "kernel/a", "kernel/b"]
    assert arrays["kernel/a"].flags.c_contiguous
    read = read_methods(facts, arrays)
    assert list(read) == ["kernel", "constant"]
    assert read["kernel"].arrays["a"].tolist() == [0.0, 2.0]
    assert sorted(read["constant"].arrays) == ["a"]
