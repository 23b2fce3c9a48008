"""Baselines, and the parts of the training samples that their settings are chosen on."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from problems import problem_of

from aam.config.baselines import BASELINES
from aam.learners.baselines import decision_trees, log_ratios_and_pairs
from aam.learners.baselines.log_ratios_and_pairs import laplacian
from aam.learners.baselines.problem import Problem, frequent_reads, leave_parts_out, prevalent_reads
from aam.learners.baselines.registry import (
    PREDICTORS,
    predict_baselines,
    predict_nested,
    suitable_baselines,
)

ON_READS = [
    *("random_forest", "random_forest_median", "extra_trees", "gradient_boosting"),
    *("elastic_net", "svm_clr", "svm_clades"),
]
ON_DISTANCES = ["knn_unifrac", "svm_unifrac"]
SAMPLES, FEATURES = 48, 20
KINDS = ["regression", "classification"]

pytestmark = pytest.mark.usefixtures("few_trees")


def problem(kind: str, test: int = 0) -> Problem:
    """Samples along a gradient, which counts, distances and target follow."""
    rng = np.random.default_rng(0)
    # Off the grid: neighbours at the same distance would be told apart by their row.
    gradient = (rng.permutation(SAMPLES) + 0.3 * rng.random(SAMPLES)) / SAMPLES
    rates = 40 * np.exp(-8 * (gradient[:, None] - np.linspace(0, 1, FEATURES)) ** 2)
    target = 100 * gradient
    fold = np.arange(SAMPLES) % 3
    fold[:test] = -1
    classes = {"regression": [], "classification": list("abc"), "ordinal": ["c", "never", *"ba"]}
    if kind != "regression":
        target = np.array(["a", "b", "c"])[(target // 34).astype(int)]
    distances = np.abs(gradient[:, None] - gradient)
    counts = rng.poisson(rates)
    return problem_of(target, counts, distances, fold, classes[kind], kind=kind, seed=1)


def part(task: Problem, rows: np.ndarray) -> Problem:
    return dataclasses.replace(
        task,
        target=task.target[rows],
        fold=task.fold[rows],
        group=task.group[rows],
        counts=task.counts[rows],
        distances=task.distances[np.ix_(rows, rows)],
    )


def select(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    return table[table["baseline"] == baseline]


def error(table: pd.DataFrame) -> pd.Series:
    return (table["observed"] - table["predicted"]).abs().groupby(table["baseline"]).mean()


@pytest.mark.parametrize("kind", [*KINDS, "ordinal"])
def test_every_sample_is_predicted_once_and_what_there_is_to_find_is_found(kind):
    task = problem(kind, test=6)
    table = predict_baselines(task, threads=1)
    names = list(suitable_baselines(task))
    assert table["baseline"].unique().tolist() == names
    for name in names:
        assert select(table, name)["row"].tolist() == list(range(SAMPLES))
        assert select(table, name)["fold"].tolist() == task.fold.tolist()
    shares = table.filter(like="probability:")
    assert shares.columns.tolist() == [f"probability:{name}" for name in task.classes]
    if kind == "regression":
        assert names[0] == "median"
        assert (error(table)[ON_DISTANCES] < 5).all()
        assert (error(table)[ON_READS] < 12).all()
        is_scored = task.fold >= 0
        expected = [np.median(task.target[is_scored & (task.fold != fold)]) for fold in task.fold]
        assert select(table, "median")["predicted"].tolist() == pytest.approx(expected)
        return
    assert names[0] == "majority"
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * len(table))
    assert (table["predicted"] == np.array(task.classes)[shares.to_numpy().argmax(1)]).all()
    right = (table["observed"] == table["predicted"]).groupby(table["baseline"]).mean()
    assert (right[names[1:]] > 0.8).all()
    assert right["majority"] < 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_held_out_samples_change_none_of_their_predictions(kind):
    task = problem(kind, test=9)
    first = predict_baselines(task, threads=1)
    columns = [name for name in first if name != "observed"]
    for fold in (0, -1):
        changed = task.target.copy()
        is_in_fold = task.fold == fold
        moved = np.roll(changed[is_in_fold], 1)
        changed[is_in_fold] = 1000.0 if kind == "regression" else moved
        second = predict_baselines(dataclasses.replace(task, target=changed), threads=1)
        held_out = first["fold"] == fold
        pd.testing.assert_frame_equal(first.loc[held_out, columns], second.loc[held_out, columns])
        # Every other fold learns from fold 0, and none from the samples to test.
        others = first.loc[~held_out, columns].equals(second.loc[~held_out, columns])
        assert others == (fold == -1)


@pytest.mark.parametrize("kind", KINDS)
def test_processes_change_nothing(kind, monkeypatch):
    # In other processes forests have all their trees.
    monkeypatch.undo()
    one, two = (predict_baselines(problem(kind), threads, folds=[0, 1]) for threads in (1, 2))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_test_samples_nor_the_order_change_anything(kind):
    task = problem(kind, test=6)
    table = predict_baselines(task, threads=1)
    rest = np.flatnonzero(task.fold >= 0)
    within = table[table["fold"] >= 0].reset_index(drop=True)
    fewer = predict_baselines(part(task, rest), threads=1)
    fewer["row"] = rest[fewer["row"]]
    pd.testing.assert_frame_equal(within, fewer)
    order = np.random.default_rng(5).permutation(rest)
    second = predict_baselines(part(task, order), threads=1)
    second["row"] = order[second["row"]]
    numbers = ["predicted"] if kind == "regression" else second.filter(like="probab").columns
    # A forest draws the rows of its trees by their places.
    for name in set(suitable_baselines(task)) - {"random_forest", "random_forest_median"}:
        one, two = (select(rows, name).set_index("row")[numbers] for rows in (within, second))
        np.testing.assert_allclose(one, two.loc[one.index], rtol=0.02, atol=0.02, err_msg=name)


@pytest.mark.parametrize(
    ("where", "finds", "misses"),
    [("feature", ON_READS, ON_DISTANCES), ("distances", ON_DISTANCES, ON_READS)],
)
def test_each_baseline_finds_the_signal_in_what_it_looks_at_and_no_other(where, finds, misses):
    rng = np.random.default_rng(2)
    target, noise = rng.random(90), rng.random(90)
    counts = rng.poisson(20, (90, 10))
    position = target if where == "distances" else noise
    if where == "feature":
        counts[:, 3] = np.exp(4 * target).astype(int)
    distances = np.abs(position[:, None] - position)
    task = problem_of(target, counts, distances, np.arange(90) % 3, seed=1)
    errors = error(predict_baselines(task, threads=1))
    assert (errors[finds] < 0.75 * errors["median"]).all()
    assert (errors[misses] > 0.8 * errors["median"]).all()


WORDS = {
    "0 and 1": ["0", "1", "2"],
    "years": ["2019", "2020", "2021"],
    "leading zeros": ["01", "02", "10"],
    "more digits": ["1", "2", "10"],
    "decimals": ["1.0", "1.5", "2.0"],
    "truth": ["False", "True", "maybe"],
    "missing": ["NA", "None", "nan"],
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_what_classes_are_called_changes_no_prediction(words):
    # The methods that weight classes by their names, and one that does not.
    asked = ["extra_trees", "svm_unifrac", "knn_unifrac"]
    plain = dataclasses.replace(problem("ordinal"), asked=asked)
    last = "1e5" if words[0].isdigit() or words[0] == "1.0" else "~"
    word_of = dict(zip("abc", words, strict=True)) | {"never": last}
    named = dataclasses.replace(
        plain,
        target=np.array([word_of[name] for name in plain.target]),
        classes=[word_of[name] for name in plain.classes],
    )
    for predict in predict_baselines, predict_nested:
        expected = predict(plain, threads=1).rename(
            columns={f"probability:{name}": f"probability:{word_of[name]}" for name in word_of}
        )
        for column in ("observed", "predicted"):
            if column in expected:
                expected[column] = expected[column].map(word_of)
        result = predict(named, threads=1)
        pd.testing.assert_frame_equal(result, expected, check_dtype=False)


@pytest.mark.parametrize("unit", [1e-12, 1e4, 1e12])
def test_numbers_are_predicted_alike_in_any_unit(unit):
    task = dataclasses.replace(problem("regression"), asked=["elastic_net", "extra_trees"])
    scaled = dataclasses.replace(task, target=task.target * unit)
    result = predict_baselines(scaled, threads=1)["predicted"] / unit
    expected = predict_baselines(task, threads=1)["predicted"]
    assert np.abs(result - expected).mean() < 0.02 * np.ptp(task.target)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", ["", "one"])
def test_one_class_in_the_training_folds_is_what_all_predict(kind, group):
    """A fold of `a` alone, and one of `a` and `b` that nothing within can be chosen by."""
    values = {"regression": (1.0, 2.0), "classification": ("a", "b")}[kind]
    task = dataclasses.replace(
        part(problem(kind), np.arange(12)),
        target=np.where(np.arange(12) == 11, *values[::-1]),
        classes=[] if kind == "regression" else ["a", "b"],
        fold=np.repeat([0, 1], 6),
        group=np.full(12, group),
    )
    table = predict_baselines(task, threads=1)
    assert len(table) == 12 * len(suitable_baselines(task))
    assert (table.loc[table["fold"] == 1, "predicted"] == values[0]).all()


def twins(fold: np.ndarray) -> Problem:
    """Twins share target and place, so one neighbour looks best wherever twins are split."""
    rng = np.random.default_rng(3)
    pairs = len(fold)
    position = np.repeat(rng.random(pairs), 2)
    target = np.repeat(rng.normal(size=pairs), 2)
    group = np.repeat(np.arange(pairs), 2).astype(str)
    is_other_pair = position[:, None] != position
    distances = np.abs(position[:, None] - position) + 1e-3 * is_other_pair
    same_reads = np.ones((2 * pairs, 2), dtype=np.int64)
    return problem_of(target, same_reads, distances, np.repeat(fold, 2), group=group, seed=1)


def test_neighbours_are_chosen_without_looking_within_a_group():
    task = twins(np.arange(60) % 2)
    table = select(predict_baselines(task, threads=1), "knn_unifrac")
    assert not np.isin(table["predicted"].round(6), task.target.round(6)).any()


def test_rare_features_are_told_by_the_training_samples_alone():
    counts = np.zeros((300, 4), dtype=np.int64)
    counts[:, 0] = 5
    counts[:2, 1] = 1
    counts[:1, 2] = 1
    counts[200:, 3] = 1
    fold = np.where(np.arange(300) < 200, 1, 0)
    task = dataclasses.replace(
        problem("regression"), counts=scipy.sparse.csr_array(counts), fold=fold, held_out=0
    )
    assert prevalent_reads(task).toarray().tolist() == counts[:, :2].tolist()
    # Where all features are rare, the most frequent stay.
    rare = dataclasses.replace(task, counts=task.counts[:, [2]])
    assert prevalent_reads(rare).shape == (300, 1)


@pytest.mark.parametrize(
    ("samples", "least"), [(20, 1), (100, 5), (180, 9), (400, 10), (1000, 10), (3000, 30)]
)
def test_frequent_features_are_in_ten_samples_or_in_a_twentieth_of_few(samples, least):
    has_read = np.arange(samples)[:, None] < np.arange(1, 41)
    task = dataclasses.replace(
        problem("regression"),
        counts=scipy.sparse.csr_array(has_read.astype(np.int64)),
        fold=np.zeros(samples, np.int64),
        held_out=1,
    )
    assert frequent_reads(task).shape == (samples, 40 - least + 1)


def test_the_kernel_is_scaled_by_the_training_pairs():
    distances = problem("regression").distances[:12, :12]
    train = np.arange(9)
    kernel = laplacian(distances, train, train)
    training_pairs = distances[:9, :9][np.tril_indices(9, -1)]
    expected = np.exp(-float(distances[2, 11]) / np.median(training_pairs))
    rows = kernel(np.array([0, 2]))
    assert rows[1, 11] == pytest.approx(expected)


def test_the_kernel_of_samples_without_differences_is_one():
    every = np.arange(3)
    kernel = laplacian(np.zeros((3, 3), np.float32), every, every)
    assert (kernel(every) == 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_landmarks_are_learned_from_as_if_they_were_all(kind, monkeypatch):
    monkeypatch.setattr(log_ratios_and_pairs, "ROWS_AT_ONCE", 5)
    methods = ["elastic_net", "svm_clr", "svm_clades", *ON_DISTANCES]
    task = dataclasses.replace(problem(kind), asked=methods)
    landmarks = np.flatnonzero(np.arange(SAMPLES) % 5)
    columns = task.distances[:, landmarks]
    few = dataclasses.replace(task, landmarks=landmarks, distances=columns)
    rows = np.union1d(landmarks, np.flatnonzero(task.fold == 0))
    results = predict_baselines(few, 1, folds=[0]).set_index(["baseline", "row"])
    expected = predict_baselines(part(task, rows), 1, folds=[0])
    expected["row"] = rows[expected["row"]]
    for name in methods:
        given, wanted = results.loc[name], expected.set_index(["baseline", "row"]).loc[name]
        assert given.index.tolist() == np.flatnonzero(task.fold == 0).tolist()
        pd.testing.assert_frame_equal(given, wanted, rtol=1e-2, atol=1e-3)


def test_trees_of_a_study_with_landmarks_draw_as_many_samples_of_all(monkeypatch):
    monkeypatch.setattr(decision_trees, "LANDMARKS", 12)
    forests = []
    leaf_medians = decision_trees.leaf_medians

    def noting(forest, *arguments):
        forests.append(forest)
        return leaf_medians(forest, *arguments)

    monkeypatch.setattr(decision_trees, "leaf_medians", noting)
    task = dataclasses.replace(
        problem("regression"), asked=["random_forest_median", "extra_trees"], held_out=0
    )
    few = dataclasses.replace(task, landmarks=np.arange(0, SAMPLES, 4))
    table = predict_baselines(few, threads=1, folds=[0])
    assert len(forests) == 2
    for forest in forests:
        drawn = [tree.tree_.weighted_n_node_samples[0] for tree in forest.estimators_]
        assert drawn == [12] * len(drawn)
    learned_from = forests[0].estimators_samples_
    assert len(np.unique(np.concatenate(learned_from))) > 12
    assert (error(table)[["random_forest_median", "extra_trees"]] < 20).all()
    predict_baselines(task, threads=1, folds=[0])
    # Without landmarks extra trees see every training sample once.
    assert forests[-1].estimators_[0].tree_.n_node_samples[0] == len(task.train)


def test_every_baseline_of_the_configuration_has_a_predictor():
    assert list(PREDICTORS) == list(BASELINES)


def test_the_median_of_a_forest_is_that_of_the_samples_in_its_leaves(monkeypatch):
    monkeypatch.setattr(decision_trees, "ROWS_AT_ONCE", 3)
    rng = np.random.default_rng(11)
    train, rows, target = rng.random((40, 5)), rng.random((7, 5)), rng.normal(size=40)
    forest = decision_trees.RandomForestRegressor(8, min_samples_leaf=2, random_state=1)
    forest.fit(train, target)
    results = decision_trees.leaf_medians(forest, train, target, rows)
    for row, value in zip(rows, results, strict=True):
        weight = np.zeros(40)
        for tree in forest.estimators_:
            leaves, row_leaf = (
                tree.apply(values.astype(np.float32)) for values in (train, row[None])
            )
            inside = leaves == row_leaf
            weight[inside] += 1 / inside.sum()
        assert weight[target < value].sum() / weight.sum() < 0.5 + 1e-9
        assert weight[target <= value].sum() / weight.sum() >= 0.5 - 1e-9


def test_nested_predictions_without_a_fold_know_none_of_its_labels():
    rng = np.random.default_rng(0)
    target = rng.random(40)
    reads = rng.poisson(5 + 40 * target[:, None] * np.array([1, 0, 0]), (40, 3))
    distances = np.abs(target[:, None] - target)
    fold = np.arange(40) % 5 - 1
    asked = ["elastic_net", "knn_unifrac", "gradient_boosting"]
    task = problem_of(target, reads, distances, fold, asked=asked)
    first = predict_nested(task, threads=1)
    changed = dataclasses.replace(task, target=np.where(fold == 1, 9.0, target))
    second = predict_nested(changed, threads=1)
    is_without = first["without"] == 1
    pd.testing.assert_frame_equal(first[is_without], second[is_without])
    assert not first["predicted"].equals(second["predicted"])
    assert set(first["baseline"]) == set(asked)
    for _, part in first.groupby(["baseline", "without"]):
        without = part["without"].iloc[0]
        assert part["row"].tolist() == np.flatnonzero((fold >= 0) & (fold != without)).tolist()
    # A sample is predicted without its own label, too: each part tells it by what it is like.
    error = np.abs(first["predicted"] - target[first["row"]])
    assert 1e-4 < error[first["baseline"] == "elastic_net"].mean() < 0.2


@pytest.mark.parametrize(
    ("folds", "group", "parts"),
    [
        # Whole training folds, whatever the groups are.
        (3, lambda number: f"fold {number % 3}", 2),
        # One training fold of several groups.
        (2, lambda number: f"host {number % 8}", 4),
        # Two folds that are the groups: the one training fold is of one group.
        (2, lambda number: f"fold {number % 2}", 5),
    ],
)
def test_parts_are_folds_then_groups_then_samples(folds, group, parts):
    number = np.arange(40)
    distances = np.abs(number[:, None] - number).astype(float)
    target = number.astype(float)
    task = problem_of(
        target,
        np.ones((40, 3)),
        distances,
        number % folds,
        [],
        kind="regression",
        group=np.array([group(one) for one in number]),
        held_out=0,
    )
    splits = leave_parts_out(task)
    assert len(splits) == parts
    left_out = np.concatenate([left for _, left in splits])
    assert sorted(left_out) == list(range(len(task.train))), "each sample is left out once"
