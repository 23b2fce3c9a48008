"""Which values of a matrix are recomputed, and which differences are too large."""

from contextlib import contextmanager
from itertools import combinations

import numpy as np
import pytest
from unifrac_cases import compute, random_case

from aam.config.metrics import METRICS
from aam.distances import check
from aam.distances.check import TOLERANCE, check_values, draw_checked
from aam.distances.engines import ScikitBio, Sparse


@pytest.mark.parametrize("samples", [2, 3, 6])
def test_every_pair_is_drawn_once_where_as_many_are_asked_for(samples):
    pairs = zip(*draw_checked(samples, 1000, "unweighted"), strict=True)
    assert list(pairs) == list(combinations(range(samples), 2))


@pytest.mark.parametrize("samples", [2, 3, 6])
def test_every_sample_is_drawn_once_where_as_many_are_asked_for(samples):
    (values,) = draw_checked(samples, 1000, "faith_pd")
    assert values.tolist() == list(range(samples))


def test_some_pairs_are_drawn_which_differ_between_metrics():
    first, second = draw_checked(50, 7, "unweighted")
    assert len(first) == len(second) == 7
    assert ((0 <= first) & (first < second) & (second < 50)).all()
    others = draw_checked(50, 7, "generalized")
    assert not (np.array_equal(first, others[0]) and np.array_equal(second, others[1]))


def test_some_samples_are_drawn_once_each():
    (values,) = draw_checked(50, 7, "faith_pd")
    assert len(set(values.tolist())) == 7
    assert (np.diff(values) > 0).all()


def values_to_check(metric: str, *, by_engine: bool) -> tuple[np.ndarray, dict]:
    """Return the values of a metric for seven samples, and arguments that check all of them."""
    table, tree = random_case(3, 7)
    facts = METRICS[metric]
    engine = ScikitBio() if facts.phylogenetic else Sparse()
    arguments = {
        "table": table,
        "tree": tree if facts.phylogenetic else None,
        "metric": metric,
        "parameters": facts.parameters_in({"alpha": 0.5}),
        "count": 1000,
        "other": engine if by_engine else None,
    }
    return compute(engine, table, tree, metric), arguments


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("by_engine", [False, True])
def test_right_values_pass_and_the_log_says_how_many(metric, by_engine, caplog):
    values, arguments = values_to_check(metric, by_engine=by_engine)
    with caplog.at_level("INFO"):
        check_values(values, **arguments)
    # Seven samples are 21 pairs.
    number = 7 if METRICS[metric].per_sample else 21
    assert f"{metric}: {number} values recomputed, largest difference" in caplog.text


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("by_engine", [False, True])
def test_one_wrong_value_is_an_error_that_names_its_samples(metric, by_engine):
    values, arguments = values_to_check(metric, by_engine=by_engine)
    place = (4,) if METRICS[metric].per_sample else (2, 5)
    wrong = values.copy()
    wrong[place] += 100 * TOLERANCE * max(1.0, values[place])
    names = " and ".join(arguments["table"].sample_ids[row] for row in place)
    message = f"{metric} of {names} is .*, but .* when recomputed by other means"
    with pytest.raises(RuntimeError, match=message):
        check_values(wrong, **arguments)


def test_samples_that_are_checked_are_recomputed_without_the_others():
    table, tree = random_case(3, 40)
    recomputed = []

    class RecordingEngine:
        name = "recording"

        @contextmanager
        def compute(self, table, tree, metric, parameters):
            recomputed.append(table.sample_ids)
            assert {tip.name for tip in tree.tips()} == {*table.feature_ids}
            with ScikitBio().compute(table, tree, metric, parameters) as found:
                yield found

    values = compute(ScikitBio(), table, tree, "unweighted")
    check_values(values, table, tree, "unweighted", {}, count=3, other=RecordingEngine())
    first, second = draw_checked(40, 3, "unweighted")
    drawn = sorted({*first.tolist(), *second.tolist()})
    assert recomputed == [[table.sample_ids[row] for row in drawn]]


def test_differences_are_relative_to_values_above_one(caplog):
    # Each differs by nine tenths of the tolerance, the second one relative to 100.
    given = np.array([0.5 + 9e-6, 100.0009])
    with caplog.at_level("INFO"):
        check._compare(given, np.array([0.5, 100.0]), ["x", "y"], "m")
    assert "m: 2 values recomputed, largest difference 9.0e-04" in caplog.text


@pytest.mark.parametrize(
    ("given", "expected", "message"),
    [
        ([0.500011], [0.5], r"m of x is 0.500011, but 0.5 when .*tolerance 1e-05"),
        # Relative to the expected values, the differences are 0.1, 1 and 0.03.
        ([1.1, 200.0, 3.1], [1.0, 100.0, 3.0], "m of y is 200"),
        ([9.0, np.nan], [1.0, 1.0], "m of y is nan"),
        ([1.0], [np.nan], "m of x is 1, but nan"),
    ],
)
def test_the_largest_difference_above_the_tolerance_is_named(given, expected, message):
    with pytest.raises(RuntimeError, match=message):
        check._compare(np.array(given), np.array(expected), ["x", "y", "z"], "m")


@pytest.mark.parametrize(("samples", "count"), [(1, 5), (4, 0)])
def test_without_a_pair_nothing_is_checked(samples, count):
    table, tree = random_case(3, samples)
    wrong = np.full((samples, samples), 9.0)
    check_values(wrong, table, tree, "unweighted", {}, count=count, other=None)
