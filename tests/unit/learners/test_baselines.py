"""Baselines, and the parts of the training samples that their settings are chosen on."""

import dataclasses
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from problems import problem_of

from aam.config.baselines import BASELINES
from aam.learners.baselines import decision_trees, kernel_ridge, linear_and_nearest
from aam.learners.baselines.problem import Problem, frequent_reads, leave_parts_out, prevalent_reads
from aam.learners.baselines.registry import (
    JOINT_PREDICTORS,
    PREDICTORS,
    cross_validate,
    predict_others,
    suitable_baselines,
)
from aam.learners.nested_predictions import CrossValidated

ON_READS = [
    *("random_forest", "random_forest_median", "extra_trees", "gradient_boosting"),
    *("elastic_net", "kernel_clr", "kernel_clades"),
]
ON_DISTANCES = ["knn_unifrac", "kernel_unifrac"]
SAMPLES, FEATURES = 48, 20
ITERATIONS = decision_trees.ITERATIONS
AXES = 12
"""Axes of projected features."""
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
    return problem_of(
        target, counts, distances, fold, classes[kind], kind=kind, seed=1, asked=[*BASELINES]
    )


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
    table = cross_validate(task, threads=1).predictions
    names = suitable_baselines(task)
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
    first = cross_validate(task, threads=1).predictions
    columns = [name for name in first if name != "observed"]
    for fold in (0, -1):
        changed = task.target.copy()
        is_in_fold = task.fold == fold
        moved = np.roll(changed[is_in_fold], 1)
        changed[is_in_fold] = 1000.0 if kind == "regression" else moved
        second = cross_validate(dataclasses.replace(task, target=changed), threads=1).predictions
        held_out = first["fold"] == fold
        pd.testing.assert_frame_equal(first.loc[held_out, columns], second.loc[held_out, columns])
        # Every other fold learns from fold 0, and none from the samples to test.
        others = first.loc[~held_out, columns].equals(second.loc[~held_out, columns])
        assert others == (fold == -1)


def test_processes_change_nothing(monkeypatch):
    """Numbers: see the test of the stage."""
    # In other processes boosting has all its trees.
    monkeypatch.setattr(decision_trees, "ITERATIONS", ITERATIONS)
    one, two = (cross_validate(problem("classification"), threads) for threads in (1, 2))
    pd.testing.assert_frame_equal(one.predictions, two.predictions, check_exact=True)
    pd.testing.assert_frame_equal(one.nested, two.nested, check_exact=True)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_test_samples_nor_the_order_change_anything(kind):
    task = problem(kind, test=6)
    # Of fewer than four folds, the inner parts follow the order of the samples.
    task = dataclasses.replace(task, fold=np.where(task.fold < 0, -1, np.arange(SAMPLES) % 5))
    table = cross_validate(task, threads=1).predictions
    rest = np.flatnonzero(task.fold >= 0)
    within = table[table["fold"] >= 0].reset_index(drop=True)
    fewer = cross_validate(part(task, rest), threads=1).predictions
    fewer["row"] = rest[fewer["row"]]
    pd.testing.assert_frame_equal(within, fewer)
    order = np.random.default_rng(5).permutation(rest)
    second = cross_validate(part(task, order), threads=1).predictions
    second["row"] = order[second["row"]]
    numbers = ["predicted"] if kind == "regression" else second.filter(like="probab").columns
    # Of equally good splits, a random forest takes one by the rounding of sums over rows.
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
    task = problem_of(target, counts, distances, np.arange(90) % 3, seed=1, asked=[*BASELINES])
    errors = error(cross_validate(task, threads=1).predictions)
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


@cache
def predictions_of_letters() -> tuple[Problem, CrossValidated]:
    """Return a task by methods that weight classes by their names and one that does not."""
    asked = ["extra_trees", "kernel_unifrac", "knn_unifrac"]
    task = dataclasses.replace(problem("ordinal"), asked=asked)
    return task, cross_validate(task, threads=1)


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_what_classes_are_called_changes_no_prediction(words):
    plain, of_letters = predictions_of_letters()
    last = "1e5" if words[0].isdigit() or words[0] == "1.0" else "~"
    word_of = dict(zip("abc", words, strict=True)) | {"never": last}
    named = dataclasses.replace(
        plain,
        target=np.array([word_of[name] for name in plain.target]),
        classes=[word_of[name] for name in plain.classes],
    )
    of_words = cross_validate(named, threads=1)
    for table in "predictions", "nested":
        expected = getattr(of_letters, table).rename(
            columns={f"probability:{name}": f"probability:{word_of[name]}" for name in word_of}
        )
        for column in ("observed", "predicted"):
            if column in expected:
                expected[column] = expected[column].map(word_of)
        result = getattr(of_words, table)
        pd.testing.assert_frame_equal(result, expected, check_dtype=False)


@pytest.mark.parametrize("unit", [1e-12, 1e4, 1e12])
def test_numbers_are_predicted_alike_in_any_unit(unit):
    task = dataclasses.replace(problem("regression"), asked=["elastic_net", "extra_trees"])
    scaled = dataclasses.replace(task, target=task.target * unit)
    result = cross_validate(scaled, threads=1).predictions["predicted"] / unit
    expected = cross_validate(task, threads=1).predictions["predicted"]
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
    table = cross_validate(task, threads=1).predictions
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
    asked = ["knn_unifrac"]
    fold = np.repeat(fold, 2)
    return problem_of(target, same_reads, distances, fold, group=group, seed=1, asked=asked)


def test_neighbours_are_chosen_without_looking_within_a_group():
    task = twins(np.arange(60) % 2)
    table = select(cross_validate(task, threads=1).predictions, "knn_unifrac")
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


def kernels_of(task: Problem, name: str) -> list[kernel_ridge.Kernel]:
    """Return the kernels of a baseline, which are asked for nothing."""
    kept = []

    class Spy:
        def __init__(self, _task, kernels):
            kept.extend(kernels)

        def __call__(self, splits):
            return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_ridge, "KernelRidge", Spy)
        JOINT_PREDICTORS[name](task, [])
    return kept


def kernel_of(kernel: kernel_ridge.Kernel, rows: np.ndarray, train: np.ndarray) -> np.ndarray:
    scale = kernel.measure(kernel.pairs(train, train))
    return kernel.value(kernel.pairs(rows, train), rows, train, scale)


def test_the_kernel_of_samples_without_differences_is_one():
    task = dataclasses.replace(
        problem("regression"), distances=np.zeros((SAMPLES, SAMPLES), np.float32)
    )
    (kernel,) = kernels_of(task.encode(), "kernel_unifrac")
    every = np.arange(SAMPLES)
    assert (kernel_of(kernel, every, every) == 1).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["kernel_clr", "kernel_clades", "kernel_unifrac"])
def test_fits_that_are_shared_predict_what_fits_of_each_split_do(kind, name):
    task = problem(kind, test=6).encode()
    task = dataclasses.replace(task, fold=np.where(task.fold >= 0, np.arange(SAMPLES) % 5, -1))
    parts = [np.flatnonzero(task.fold == fold) for fold in range(5)]
    labelled = np.flatnonzero(task.fold >= 0)
    splits = [(np.setdiff1d(labelled, part), part) for part in parts]
    pairs = [np.union1d(parts[one], parts[two]) for one in range(5) for two in range(one)]
    splits += [(np.setdiff1d(labelled, pair), pair) for pair in pairs]
    splits.append((labelled, np.flatnonzero(task.fold == -1)))
    together = JOINT_PREDICTORS[name](task, splits)
    for split, (values, shares) in zip(splits, together, strict=True):
        ((expected, expected_shares),) = JOINT_PREDICTORS[name](task, [split])
        assert values.tolist() == expected.tolist()
        assert shares.tolist() == expected_shares.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_landmarks_are_learned_from_as_if_they_were_all(kind, monkeypatch):
    for module in kernel_ridge, linear_and_nearest:
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 5)
    methods = ["elastic_net", "kernel_unifrac", "knn_unifrac"]
    task = dataclasses.replace(problem(kind, test=9), asked=methods)
    landmarks = np.flatnonzero(np.arange(SAMPLES) % 5)
    few = dataclasses.replace(task, landmarks=landmarks, distances=task.distances[:, landmarks])
    results = predict_others(few, 1).set_index(["baseline", "row"])
    rows = np.union1d(landmarks[task.fold[landmarks] >= 0], np.flatnonzero(task.fold == -1))
    expected = predict_others(part(task, rows), 1)
    expected["row"] = rows[expected["row"]]
    for name in methods:
        given, wanted = results.loc[name], expected.set_index(["baseline", "row"]).loc[name]
        assert given.index.tolist() == np.flatnonzero(task.fold == -1).tolist()
        pd.testing.assert_frame_equal(given, wanted, rtol=1e-2, atol=1e-3)


def test_weights_of_a_study_with_landmarks_rest_on_their_nested_predictions():
    methods = ["kernel_clades", "random_forest"]
    task = dataclasses.replace(problem("classification"), asked=methods)
    landmarks = np.flatnonzero(np.arange(SAMPLES) % 3)
    result = cross_validate(dataclasses.replace(task, landmarks=landmarks), threads=2)
    for method in methods:
        nested = select(result.nested, method)
        assert np.isin(nested["row"], landmarks).all()
        assert set(nested["without"]) == {*range(task.fold.max() + 1)}
        assert len(select(result.predictions, method)) == SAMPLES
        # Neither the block nor the rows are learned from.
        assert (task.fold[nested["row"]] != nested["without"]).all()


@pytest.mark.parametrize("name", ["kernel_clr", "kernel_clades"])
@pytest.mark.parametrize("are_projected", [False, True])
def test_kernels_with_landmarks_are_those_of_all_pairs(name, are_projected, monkeypatch):
    monkeypatch.setattr(kernel_ridge, "ROWS_AT_ONCE", 5)
    task = problem("regression").encode()
    landmarks = np.flatnonzero(np.arange(SAMPLES) % 3)
    if are_projected:
        # As many axes as landmarks span all of their products.
        landmarks = landmarks[:AXES]
        monkeypatch.setattr(kernel_ridge, "MOST_AXES", AXES)
    rows, train = np.arange(SAMPLES), landmarks[::2]
    few = dataclasses.replace(task, landmarks=landmarks)
    for given, expected in zip(kernels_of(few, name), kernels_of(task, name), strict=True):
        results = [kernel_of(kernel, rows, train) for kernel in (given, expected)]
        # A linear kernel has another origin, which its intercept makes up for.
        results = [result - result.mean(axis=0) for result in results]
        results = [result - result.mean(axis=1, keepdims=True) for result in results]
        np.testing.assert_allclose(*results, atol=1e-5)


def test_fewer_axes_than_landmarks_give_nearly_the_same_kernel(monkeypatch):
    monkeypatch.setattr(kernel_ridge, "MOST_AXES", AXES)
    task = problem("regression").encode()
    few = dataclasses.replace(task, landmarks=np.arange(0, SAMPLES))
    rows = np.arange(SAMPLES)
    for given, expected in zip(
        kernels_of(few, "kernel_clades"), kernels_of(task, "kernel_clades"), strict=True
    ):
        near, exact = (kernel_of(kernel, rows, rows).ravel() for kernel in (given, expected))
        assert 0.9 < np.corrcoef(near, exact)[0, 1] < 1


def seen_by_trees(task: Problem, name: str, monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Return the rows that the trees of each split of a nested cross-validation have learned."""
    seen = []
    predict = decision_trees.mean_of_trees

    def noting(task, parts, rows):
        seen.append(set(np.concatenate([part.train for part in parts]).tolist()))
        assert not seen[-1] & {*rows.tolist()}, "a tree predicts a sample that it has learned"
        return predict(task, parts, rows)

    for combine in "mean_of_trees", "median_of_leaves":
        monkeypatch.setattr(decision_trees, combine, noting)
    cross_validate(dataclasses.replace(task, asked=[name]), threads=1)
    return seen


@pytest.mark.parametrize("folds", [2, 3, 5, 8])
@pytest.mark.parametrize("name", ["random_forest", "extra_trees"])
def test_trees_learn_from_none_of_what_they_predict_and_together_from_all_else(
    folds, name, monkeypatch
):
    task = dataclasses.replace(problem("classification"), fold=np.arange(SAMPLES) % folds)
    seen = seen_by_trees(task, name, monkeypatch)
    for fold, rows in enumerate(seen[:folds]):
        # More folds than five are joined to blocks, which are left out as a whole.
        expected = set(np.flatnonzero(task.fold != fold).tolist())
        assert rows <= expected
        assert rows == expected or folds == 8


def test_trees_of_a_study_with_landmarks_draw_a_few_samples_of_all(monkeypatch):
    monkeypatch.setattr(decision_trees, "TREE_SAMPLES", 12)
    parts = []
    median = decision_trees.median_of_leaves

    def noting(task, some, rows):
        parts.extend(some)
        return median(task, some, rows)

    monkeypatch.setattr(decision_trees, "median_of_leaves", noting)
    task = dataclasses.replace(problem("regression"), asked=["random_forest_median", "extra_trees"])
    few = dataclasses.replace(task, landmarks=np.arange(0, SAMPLES, 4))
    table = cross_validate(few, threads=1).predictions
    for part_of_forest in parts:
        trees = part_of_forest.forest.estimators_
        assert [tree.tree_.weighted_n_node_samples[0] for tree in trees] == [12] * len(trees)
    assert (error(table)[["random_forest_median", "extra_trees"]] < 20).all()
    parts.clear()
    cross_validate(task, threads=1)
    # Without landmarks every tree sees all samples of its part once.
    assert parts[0].forest.estimators_[0].tree_.n_node_samples[0] == len(parts[0].train)


def test_the_predictions_of_each_baseline_are_reported():
    reported = {}
    task = problem("regression")
    result = cross_validate(task, 1, tell=reported.__setitem__)
    assert {*reported} == {*suitable_baselines(task)}
    for name, table in reported.items():
        expected = select(result.predictions, name).reset_index(drop=True)
        pd.testing.assert_frame_equal(table, expected)


def test_every_baseline_of_the_configuration_has_a_predictor():
    assert {*PREDICTORS, *JOINT_PREDICTORS} == {*BASELINES}
    assert not {*PREDICTORS} & {*JOINT_PREDICTORS}


def test_the_median_of_a_forest_is_that_of_the_samples_in_its_leaves(monkeypatch):
    monkeypatch.setattr(decision_trees, "ROWS_AT_ONCE", 3)
    task = problem("regression").encode()
    trains = [np.flatnonzero(task.fold == fold) for fold in (0, 1)]
    rows = np.flatnonzero(task.fold == 2)
    forest = decision_trees.ExtraTreesRegressor(min_samples_leaf=2)
    parts = [
        decision_trees._grow(task, train, forest, 4, number) for number, train in enumerate(trains)
    ]
    results, _ = decision_trees.median_of_leaves(task, parts, rows)
    for row, value in zip(rows, results, strict=True):
        weight = np.zeros(SAMPLES)
        for one in parts:
            for tree in one.forest.estimators_:
                leaves = tree.apply(one.reads(task, one.train))
                inside = one.train[leaves == tree.apply(one.reads(task, np.array([row])))]
                weight[inside] += 1 / len(inside)
        assert weight[task.target < value].sum() / weight.sum() < 0.5 + 1e-9
        assert weight[task.target <= value].sum() / weight.sum() >= 0.5 - 1e-9


def test_a_median_that_ties_does_not_depend_on_the_rows_before_it():
    rng = np.random.default_rng(2)
    rows = []
    expected = []
    for _ in range(3000):
        sizes = rng.choice([2, 3, 6, 7], 60)
        weight_of = dict.fromkeys(range(4), Fraction(0))
        for size in sizes:
            weight_of[int(rng.integers(4))] += Fraction(1, int(size))
        # Half of the weight is that of the first two labels, exactly.
        weight_of[3] = sum(list(weight_of.values())[:2], Fraction(0)) - weight_of[2]
        if weight_of[3] <= 0:
            continue
        rows.append([float(weight) for weight in weight_of.values()])
        expected.append(1)
    found = decision_trees._half_positions(scipy.sparse.csr_array(np.array(rows)))
    np.testing.assert_array_equal(found, expected)


def test_nested_predictions_without_a_fold_know_none_of_its_labels():
    rng = np.random.default_rng(0)
    target = rng.random(40)
    reads = rng.poisson(5 + 40 * target[:, None] * np.array([1, 0, 0]), (40, 3))
    distances = np.abs(target[:, None] - target)
    fold = np.arange(40) % 5 - 1
    asked = [name for name, facts in BASELINES.items() if not facts.is_constant]
    task = problem_of(target, reads, distances, fold, asked=asked)
    first = cross_validate(task, threads=1).nested
    changed = dataclasses.replace(task, target=np.where(fold == 1, 9.0, target))
    second = cross_validate(changed, threads=1).nested
    is_without = first["without"] == 1
    pd.testing.assert_frame_equal(first[is_without], second[is_without])
    assert not first["predicted"].equals(second["predicted"])
    assert {*first["baseline"]} == {*suitable_baselines(task)} - {"median"}
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
