"""Parts of forests, and what is made of their leaves, on few samples."""

import dataclasses
import math

import numpy as np
import pytest
from problems import problem_of
from scipy.sparse import csr_array
from sklearn.ensemble import ExtraTreesRegressor

from aam.learners.baselines import decision_trees as module
from aam.learners.baselines.decision_trees import (
    TREES,
    WHOLE_TREES,
    ForestPart,
    extra_trees,
    gradient_boosting,
    mean_of_trees,
    median_of_leaves,
    new_extra_trees,
    new_random_forest,
    parts_of_split,
    random_forest,
    random_forest_median,
)
from aam.learners.baselines.problem import Problem
from aam.learners.nested_predictions import NestedCrossValidation

SAMPLES = 40


def study(folds: int = 5) -> Problem:
    """Return samples whose number follows from the reads of two of four features."""
    rng = np.random.default_rng(2)
    level = rng.normal(size=SAMPLES)
    counts = rng.poisson(np.exp(1 + level[:, None] * [1, 0.5, 0, 0]))
    distances = np.zeros((SAMPLES, SAMPLES))
    return problem_of(np.round(level, 1), counts, distances, np.arange(SAMPLES) % folds).encode()


class Leaves:
    """A forest of which the leaves, values and shares are given, by the first read of a sample."""

    def __init__(self, leaves, values=None, classes=None):
        self.leaves = np.array(leaves)
        self.values = values
        self.classes_ = classes

    def apply(self, reads):
        return self.leaves[reads[:, 0].astype(int)]

    def predict(self, reads):
        return np.array(self.values)[reads[:, 0].astype(int)]

    predict_proba = predict


def numbered(target, classes="", **more) -> Problem:
    """Return samples whose first feature has their number as reads."""
    samples = len(target)
    counts = np.c_[np.arange(samples), np.ones(samples)]
    distances = np.zeros((samples, samples))
    return problem_of(np.array(target), counts, distances, np.zeros(samples, int), classes, **more)


def part_of(leaves, train) -> ForestPart:
    """Return trees that learned from some samples and look at the first feature."""
    return ForestPart(Leaves(leaves), np.array(train), np.array([0]))


SEVEN = numbered([50.0, 10.0, 30.0, 40.0, 0.0, 0.0, 0.0])
"""Samples of which the first four are learned from, and the others predicted."""
TWO_TREES = part_of([[1, 1], [1, 2], [2, 2], [2, 2], [1, 1], [2, 2], [1, 2]], range(4))
"""A tree has leaves of the samples 0, 1 and 2, 3; the other one leaves of 0 and 1, 2, 3."""
ONE_LEAF = part_of([[1]] * 7, [0, 1])
"""A tree of one leaf, which learned from the samples 0 and 1 alone."""


@pytest.mark.parametrize("at_once", [4096, 1])
def test_the_median_of_leaves_weighs_trees_alike_and_samples_within_a_leaf(at_once, monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    values, shares = median_of_leaves(SEVEN, [TWO_TREES], np.array([4, 5, 6]))
    # Sample 4: 50 has 1.5 of 2. Sample 5: 10 has 1/3, 30 and 40 have 5/6 each. Sample 6: 10 has
    # 5/6, 30 reaches 7/6.
    assert values.tolist() == [50.0, 30.0, 30.0]
    assert shares.shape == (3, 0)


def test_trees_of_all_parts_count_in_the_median_of_leaves():
    values, _ = median_of_leaves(SEVEN, [TWO_TREES, ONE_LEAF], np.array([4, 5, 6]))
    # The tree of one leaf adds 1/2 to 10 and to 50. Sample 4: 50 has 2 of 3. Sample 5: 10 has 5/6,
    # 30 reaches 10/6. Sample 6: 10 has 8/6, 30 reaches 10/6.
    assert values.tolist() == [50.0, 30.0, 30.0]


def test_the_median_of_leaves_is_the_lower_of_two_labels_that_share_the_weight():
    values, _ = median_of_leaves(SEVEN, [ONE_LEAF], np.array([4]))
    assert values.tolist() == [10.0]


@pytest.mark.parametrize(
    ("learned", "expected"),
    [
        # Both landmarks, which have 50 and 40, are in the leaf of sample 4; none is in that of
        # sample 5, which gets the upper median of 10, 30, 40 and 50.
        (4, [40.0, 40.0]),
        # Of 50, 10 and 30 the first is that of a landmark.
        (3, [50.0, 30.0]),
    ],
)
def test_leaves_without_landmarks_are_the_median_of_training(learned, expected):
    task = numbered([50.0, 10.0, 30.0, 40.0, 0.0, 0.0], landmarks=np.array([0, 3]))
    part = part_of([[1], [2], [2], [1], [1], [2]], range(learned))
    values, _ = median_of_leaves(task, [part], np.array([4, 5]))
    assert values.tolist() == expected


def test_the_mean_of_trees_weighs_parts_alike():
    task = numbered([0.0, 0.0, 0.0])
    parts = [
        ForestPart(Leaves([], values), np.arange(1), np.array([0]))
        for values in ([0.0, 1.0, 2.0], [0.0, 3.0, 8.0])
    ]
    values, shares = mean_of_trees(task, parts, np.array([1, 2]))
    assert values.tolist() == [2.0, 5.0]
    assert shares.shape == (2, 0)


def test_a_part_that_has_not_seen_a_class_gives_it_no_vote():
    # The first part has not seen the class b. Codes count the classes as a, b and c.
    classes = numbered([0, 1, 2], classes="cab")
    first = Leaves([], [[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]], np.array([0, 2]))
    second = Leaves([], [[0, 0, 0], [0.5, 0.5, 0.0], [0.25, 0.75, 0.0]], np.array([0, 1, 2]))
    parts = [ForestPart(one, np.arange(1), np.array([0])) for one in (first, second)]
    values, shares = mean_of_trees(classes, parts, np.array([1, 2]))
    assert shares.tolist() == [[0.0, 0.75, 0.25], [0.375, 0.25, 0.375]]
    assert values.tolist() == ["a", "c"]


@pytest.mark.parametrize(("folds", "parts", "without"), [(5, 10, 4), (4, 6, 3), (3, 15, 5)])
def test_a_block_is_predicted_by_enough_trees_of_the_parts_without_it(folds, parts, without):
    task = study(folds=folds)
    stumps = new_extra_trees(task).set_params(max_depth=1)
    found = parts_of_split(task, np.arange(SAMPLES), stumps, shared=True)
    inner = NestedCrossValidation(task).inner
    assert [part.train.tolist() for part in found] == [
        np.flatnonzero(fit.is_training_N).tolist() for fit in inner
    ]
    assert len(found) == parts
    # A part is without two blocks.
    trees = {len(part.forest.estimators_) for part in found}
    assert trees == {math.ceil(TREES / without)}


def test_splits_share_parts_or_get_a_forest_of_their_own():
    task = study()
    forest = new_extra_trees(task).set_params(max_depth=2)
    train = np.flatnonzero(task.fold != 1)
    grown = {}
    shared = parts_of_split(task, train, forest, shared=True, grown=grown)
    assert len(shared) == 4
    assert all(1 not in task.fold[part.train] for part in shared)
    again = parts_of_split(task, train, forest, shared=True, grown=grown)
    assert all(one is other for one, other in zip(shared, again, strict=True))
    (alone,) = parts_of_split(task, train, forest, shared=False)
    assert alone.train.tolist() == train.tolist()
    assert len(alone.forest.estimators_) == WHOLE_TREES
    # A part that learns from all training rows serves, shared or not.
    pair = np.flatnonzero((task.fold != 1) & (task.fold != 3))
    (part,) = parts_of_split(task, pair, forest, shared=False, grown=grown)
    assert any(part is one for one in shared)


def test_trees_draw_samples_only_where_landmarks_stand_for_many(monkeypatch):
    task = study()

    def grow(task: Problem):
        stumps = new_random_forest(task).set_params(max_depth=1)
        (part,) = parts_of_split(task, np.arange(30), stumps, shared=False)
        return part.forest

    drawn = dataclasses.replace(task, landmarks=np.arange(20))
    monkeypatch.setattr(module, "TREE_SAMPLES", 29)
    assert (grow(drawn).bootstrap, grow(drawn).max_samples) == (True, 29)
    assert not grow(task).bootstrap
    monkeypatch.setattr(module, "TREE_SAMPLES", 30)
    assert not grow(drawn).bootstrap


def test_trees_look_at_the_reads_of_frequent_features():
    task = study()
    task = dataclasses.replace(task, counts=csr_array(task.counts.toarray() * [1, 1, 0, 1]))
    (part,) = parts_of_split(task, np.arange(30), ExtraTreesRegressor(max_depth=1), shared=False)
    assert part.features.tolist() == [0, 1, 3]
    rows = part.reads(task, np.array([31, 33]))
    assert rows.dtype == np.float32
    assert rows.tolist() == task.counts.toarray()[[31, 33]][:, [0, 1, 3]].tolist()


def test_parts_have_seeds_of_their_own_which_stay_the_same():
    task = study()
    every = np.arange(SAMPLES)
    stumps = new_extra_trees(task).set_params(max_depth=1)
    first, again = (
        [part.forest.random_state for part in parts_of_split(task, every, stumps, shared=True)]
        for _ in range(2)
    )
    assert first == again
    assert len(set(first)) == len(first)


def test_trees_of_a_random_forest_see_all_samples_of_their_part():
    for make in (new_random_forest, new_extra_trees):
        assert make(study()).bootstrap is False


def predict_one_fold(method, task: Problem):
    """Return what a method predicts for fold 1, which it has not seen."""
    if method is gradient_boosting:
        return method(dataclasses.replace(task, held_out=1))
    rows = np.flatnonzero(task.fold == 1)
    ((values, shares),) = method(task, [(np.flatnonzero(task.fold != 1), rows)])
    return values, shares


def without_features(target: str | list[float], classes: str = "") -> Problem:
    """Return samples that all have the same reads; every fold has the eight targets that are given.

    Where features say nothing, a method predicts what it aims at: a mean, a median, or shares.
    """
    counts = np.ones((SAMPLES, 3))
    targets = np.repeat(list(target), SAMPLES // len(target))
    distances = np.zeros((SAMPLES, SAMPLES))
    return problem_of(targets, counts, distances, np.arange(SAMPLES) % 5, classes).encode()


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (random_forest, 3.75),
        (random_forest_median, 0.0),
        (extra_trees, 0.0),
        (gradient_boosting, 0.0),
    ],
)
def test_only_the_plain_random_forest_predicts_a_mean_and_other_trees_a_median(method, expected):
    values, shares = predict_one_fold(method, without_features([0.0] * 5 + [10.0] * 3))
    assert values.tolist() == pytest.approx([expected] * 8)
    assert shares.shape == (8, 0)


@pytest.mark.parametrize("method", [random_forest, extra_trees, gradient_boosting])
def test_classes_count_alike_however_rare_they_are(method):
    _, shares = predict_one_fold(method, without_features("aaaaabbc", "cab"))
    np.testing.assert_allclose(shares, np.full((8, 3), 1 / 3))


@pytest.mark.parametrize("method", [random_forest, extra_trees, gradient_boosting])
def test_trees_find_the_classes_and_name_them_in_the_order_of_the_task(method):
    names = np.repeat(list("abcabcab"), SAMPLES // 8)
    counts = 1 + 20 * (names[:, None] == list("abc"))
    distances = np.zeros((SAMPLES, SAMPLES))
    task = problem_of(names, counts, distances, np.arange(SAMPLES) % 5, "cab").encode()
    values, shares = predict_one_fold(method, task)
    assert values.tolist() == [*"abcabcab"]
    assert np.array(list("cab"))[shares.argmax(axis=1)].tolist() == [*"abcabcab"]
