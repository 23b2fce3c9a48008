"""Parts of forests, and what is made of their leaves, on few samples."""

import dataclasses

import numpy as np
import pytest
from problems import problem_of
from scipy.sparse import csr_array
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

from aam.learners.baselines import decision_trees as module
from aam.learners.baselines.decision_trees import (
    ForestPart,
    gradient_boosting,
    mean_of_trees,
    median_of_leaves,
    new_extra_trees,
    new_random_forest,
    parts_of_split,
)
from aam.learners.baselines.problem import Problem
from aam.learners.nested_predictions import NestedCrossValidation

SAMPLES = 40


def study(kind: str = "regression", folds: int = 5, **more) -> Problem:
    rng = np.random.default_rng(2)
    level = rng.normal(size=SAMPLES)
    counts = rng.poisson(np.exp(1 + level[:, None] * [1, 0.5, 0, 0]))
    target = np.round(level, 1)
    classes = ""
    if kind == "classification":
        classes = "cab"
        target = np.array(list("abc"))[np.digitize(level, [-0.3, 0.4])]
    distances = np.zeros((SAMPLES, SAMPLES))
    return problem_of(
        target, counts, distances, np.arange(SAMPLES) % folds, classes, **more
    ).encode()


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


@pytest.mark.parametrize("at_once", [4096, 1])
def test_the_median_of_leaves_weighs_trees_alike_and_samples_within_a_leaf(at_once, monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    task = numbered([50.0, 10.0, 30.0, 40.0, 0.0, 0.0, 0.0])
    # Tree one has leaves of the samples 0, 1 and 2, 3; tree two of 0 and 1, 2, 3.
    leaves = [[1, 1], [1, 2], [2, 2], [2, 2], [1, 1], [2, 2], [1, 2]]
    part = ForestPart(Leaves(leaves), np.arange(4), np.array([0]))
    values, shares = median_of_leaves(task, [part], np.array([4, 5, 6]))
    # Sample 4: 50 has 1.5 of 2. Sample 5: 10 has 1/3, 30 and 40 have 5/6 each. Sample 6: 10 has
    # 5/6, 30 reaches 7/6.
    assert values.tolist() == [50.0, 30.0, 30.0]
    assert shares.shape == (3, 0)
    # A second part, whose one leaf has the samples 0 and 1 alone, weighs 1 more.
    other = ForestPart(Leaves([[1]] * 7), np.array([0, 1]), np.array([0]))
    values, _ = median_of_leaves(task, [part, other], np.array([4, 5, 6]))
    # Sample 5: 10 has 5/6 of 3, 30 reaches 10/6.
    assert values.tolist() == [50.0, 30.0, 30.0]
    # Half of the weight is reached at the lower of two labels.
    values, _ = median_of_leaves(task, [other], np.array([4]))
    assert values.tolist() == [10.0]


def test_leaves_without_landmarks_are_the_median_of_training():
    task = numbered([50.0, 10.0, 30.0, 40.0, 0.0, 0.0], landmarks=np.array([0, 3]))
    part = ForestPart(Leaves([[1], [2], [2], [1], [1], [2]]), np.arange(4), np.array([0]))
    values, _ = median_of_leaves(task, [part], np.array([4, 5]))
    # Landmarks have 50 and 40. Of the training samples 10, 30, 40, 50 the upper median is 40.
    assert values.tolist() == [40.0, 40.0]
    three = ForestPart(part.forest, np.arange(3), np.array([0]))
    assert median_of_leaves(task, [three], np.array([4, 5]))[0].tolist() == [50.0, 30.0]


def test_half_of_the_weight_by_hand():
    weights = csr_array(np.array([[1.0, 0, 2, 3], [0, 1, 1, 0], [0, 0, 0, 2], [1, 1, 1, 0]]))
    assert module._half_positions(weights).tolist() == [2, 1, 3, 1]


def test_the_mean_of_trees_weighs_parts_alike():
    task = numbered([0.0, 0.0, 0.0])
    parts = [
        ForestPart(Leaves([], values), np.arange(1), np.array([0]))
        for values in ([0.0, 1.0, 2.0], [0.0, 3.0, 8.0])
    ]
    values, shares = mean_of_trees(task, parts, np.array([1, 2]))
    assert values.tolist() == [2.0, 5.0]
    assert shares.shape == (2, 0)
    # The first part has not seen the class b. Codes count the classes as a, b and c.
    classes = numbered([0, 1, 2], classes="cab")
    first = Leaves([], [[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]], np.array([0, 2]))
    second = Leaves([], [[0, 0, 0], [0.5, 0.5, 0.0], [0.25, 0.75, 0.0]], np.array([0, 1, 2]))
    parts = [ForestPart(one, np.arange(1), np.array([0])) for one in (first, second)]
    values, shares = mean_of_trees(classes, parts, np.array([1, 2]))
    assert shares.tolist() == [[0.0, 0.75, 0.25], [0.375, 0.25, 0.375]]
    assert values.tolist() == ["a", "c"]


@pytest.mark.parametrize(("folds", "parts", "trees"), [(5, 10, 34), (4, 6, 67), (3, 15, 20)])
def test_a_forest_has_a_part_for_each_fit_and_two_hundred_trees_for_a_block(folds, parts, trees):
    task = study(folds=folds)
    trains, each = module._training_rows_of_parts(task)
    expected = [
        fit.is_training_N.nonzero()[0].tolist() for fit in NestedCrossValidation(task).inner
    ]
    assert [train.tolist() for train in trains] == expected
    assert len(trains) == parts
    # Of five blocks, a block is predicted by the four parts without it, or by six of ten.
    without = min(
        sum(not (task.fold[train] == fold).any() for train in trains) for fold in range(folds)
    )
    assert each == -(-200 // without)


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
    assert len(alone.forest.estimators_) == 100
    # A part that learns from all training rows serves, shared or not.
    pair = np.flatnonzero((task.fold != 1) & (task.fold != 3))
    (part,) = parts_of_split(task, pair, forest, shared=False, grown=grown)
    assert any(part is one for one in shared)


def test_trees_draw_samples_only_where_landmarks_stand_for_many(monkeypatch):
    task = study()
    train = np.arange(30)
    forest = new_random_forest(task)
    monkeypatch.setattr(module, "TREE_SAMPLES", 29)
    drawn = dataclasses.replace(task, landmarks=np.arange(20))
    settings = module._grow(drawn, train, forest, 3, 0).forest
    assert (settings.bootstrap, settings.max_samples, settings.n_estimators) == (True, 29, 3)
    assert not module._grow(task, train, forest, 3, 0).forest.bootstrap
    monkeypatch.setattr(module, "TREE_SAMPLES", 30)
    assert not module._grow(drawn, train, forest, 3, 0).forest.bootstrap


def test_parts_are_grown_from_frequent_features_and_seeds_of_their_own():
    task = study()
    task = dataclasses.replace(task, counts=csr_array(task.counts.toarray() * [1, 1, 0, 1]))
    forest = ExtraTreesRegressor(min_samples_leaf=2)
    one, same, other, whole = (
        module._grow(task, np.arange(30), forest, 5, number) for number in (0, 0, 1, None)
    )
    assert one.features.tolist() == [0, 1, 3]
    assert one.train.tolist() == list(range(30))
    rows = one.reads(task, np.array([31, 33]))
    assert rows.dtype == np.float32
    assert rows.tolist() == task.counts.toarray()[[31, 33]][:, [0, 1, 3]].tolist()
    said = [part.forest.predict(rows).tolist() for part in (one, same, other, whole)]
    assert said[0] == said[1]
    assert len({tuple(values) for values in said}) == 3


def test_forests_see_all_samples_of_a_part_and_balance_classes():
    for kind, weight in (("regression", None), ("classification", "balanced")):
        task = study(kind)
        forest, extra = (make(task).get_params() for make in (new_random_forest, new_extra_trees))
        assert (forest["max_features"], forest["min_samples_leaf"]) == (0.1, 2)
        assert (extra["max_features"], extra["min_samples_leaf"]) == (0.33, 2)
        assert forest["bootstrap"] is extra["bootstrap"] is False
        assert forest.get("class_weight") == extra.get("class_weight") == weight


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_boosted_trees_are_those_of_scikit_learn(kind):
    task = dataclasses.replace(study(kind), held_out=1)
    values, shares = gradient_boosting(task)
    settings = {
        "max_iter": 100,
        "learning_rate": 0.1,
        "max_leaf_nodes": 15,
        "min_samples_leaf": 5,
        "l2_regularization": 1.0,
        "max_features": 0.1,
        "max_bins": 63,
        "early_stopping": False,
        "random_state": task.random_state("gradient_boosting"),
    }
    reads = task.counts.toarray()
    if kind == "regression":
        model = HistGradientBoostingRegressor(loss="absolute_error", **settings)
        model.fit(reads[task.train], task.target[task.train])
        assert values.tolist() == pytest.approx(model.predict(reads[task.test]).tolist())
    else:
        model = HistGradientBoostingClassifier(class_weight="balanced", **settings)
        model.fit(reads[task.train], task.target[task.train])
        expected = model.predict_proba(reads[task.test])
        np.testing.assert_allclose(shares, expected[:, [2, 0, 1]])


def test_votes_of_a_forest_are_those_of_scikit_learn():
    task = study("classification")
    train, rows = np.flatnonzero(task.fold != 1), np.flatnonzero(task.fold == 1)
    part = module._grow(task, train, new_random_forest(task), 10, None)
    _, shares = mean_of_trees(task, [part], rows)
    reference = RandomForestClassifier(
        n_estimators=10,
        max_features=0.1,
        min_samples_leaf=2,
        bootstrap=False,
        class_weight="balanced",
        random_state=part.forest.random_state,
    )
    reference.fit(task.counts.toarray()[train], task.target[train])
    expected = reference.predict_proba(task.counts.toarray()[rows])
    np.testing.assert_allclose(shares, expected[:, [2, 0, 1]])
