"""Log-ratios, clades, neighbours and linear methods, on few samples."""

import dataclasses

import numpy as np
import pytest
from problems import problem_of
from scipy.sparse import csr_array
from sklearn.base import clone

from aam.learners.baselines import linear_and_nearest as module
from aam.learners.baselines.linear_and_nearest import (
    LOGISTIC_COSTS,
    NEIGHBOURS,
    centred_log_ratios,
    clade_logs,
    elastic_net,
    knn_distances,
    new_elastic_net,
    new_neighbours,
    prevalent_branches,
)
from aam.learners.baselines.problem import (
    PSEUDOCOUNT,
    Problem,
    frequent_reads,
    leave_one_part_out,
)


def on_a_line(position, target, fold, classes="", **more) -> Problem:
    """Return samples whose distances are those of places on a line."""
    position = np.array(position, float)
    distances = np.abs(position[:, None] - position)
    counts = np.ones((len(position), 2))
    return problem_of(np.array(target), counts, distances, np.array(fold), classes, **more)


def test_log_ratios_are_centred_within_a_sample():
    # Half a read is added: 0.5 and 2.5 reads are as 1 to 5.
    half = np.log(5) / 2
    found = centred_log_ratios(csr_array(np.array([[0, 2], [3, 3]])))
    assert found == pytest.approx(np.array([[-half, half], [0, 0]]))


def test_log_ratios_of_amounts_have_another_number_added():
    # With 1 added, 0 and 2 are as 1 to 3.
    found = centred_log_ratios(csr_array(np.array([[0, 2]])), 1.0)
    assert found[0, 1] == pytest.approx(np.log(3) / 2)


def test_clades_are_logarithms_of_reads_below_branches_by_the_root_of_their_length():
    task = on_a_line([0, 1, 2], [0.0, 1, 2], [0, 0, 1], held_out=1)
    task = dataclasses.replace(
        task,
        counts=csr_array(np.array([[1, 0, 2], [0, 0, 5], [0, 7, 0]])),
        above=csr_array(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]])),
        lengths=np.array([4.0, 9.0, 16.0, 0.25]),
    )
    # The third branch has no reads in a training sample.
    assert prevalent_branches(task).tolist() == [0, 1, 3]
    found = clade_logs(task)(task.counts)
    reads_below = np.array([[1, 1, 2], [0, 0, 5], [0, 7, 0]])
    expected = np.log(reads_below + PSEUDOCOUNT) * [2, 3, 0.5]
    np.testing.assert_allclose(found, expected)


def star_of_three(counts) -> Problem:
    """Return 200 training samples, which have reads of three features on branches of their own."""
    task = on_a_line(np.arange(200), np.zeros(200), np.zeros(200, int), held_out=1)
    return dataclasses.replace(
        task, counts=csr_array(counts), above=csr_array(np.eye(3)), lengths=np.ones(3)
    )


@pytest.mark.parametrize("at_once", [1024, 64])
def test_branches_of_one_percent_of_the_training_samples_are_taken(monkeypatch, at_once):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    # One, two and three samples have reads of a feature.
    counts = (np.arange(200)[:, None] < [1, 2, 3]).astype(int)
    assert prevalent_branches(star_of_three(counts)).tolist() == [1, 2]


def test_where_all_branches_are_rarer_the_most_frequent_ones_are_taken():
    counts = (np.arange(200)[:, None] < [0, 1, 0]).astype(int)
    assert prevalent_branches(star_of_three(counts)).tolist() == [1]


NEIGHBOURS_OF_THREE = on_a_line(
    [0, 3, 10, 1, 9, 10], [0.0, 6, 90, 7, 7, 7], [0, 0, 0, 1, 1, 1], held_out=1
)
"""Samples at 1, 9 and 10 to predict; the two nearest are at the distances 1, 2; 1, 6; 0, 7."""


@pytest.mark.parametrize("at_once", [1024, 2])
def test_the_nearest_training_samples_count_by_the_inverse_of_their_distance(monkeypatch, at_once):
    monkeypatch.setattr(module, "NEIGHBOURS", (2,))
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    values, shares = knn_distances(NEIGHBOURS_OF_THREE)
    # A copy of a training sample is as that one.
    assert values.tolist() == pytest.approx([2.0, 78.0, 90.0])
    assert shares.shape == (3, 0)


@pytest.mark.filterwarnings("ignore:A single label was found", "ignore:y_pred contains classes")
def test_the_nearest_training_samples_vote_by_the_inverse_of_their_distance(monkeypatch):
    monkeypatch.setattr(module, "NEIGHBOURS", (2,))
    task = dataclasses.replace(
        NEIGHBOURS_OF_THREE,
        kind="classification",
        classes=["b", "a"],
        target=np.array([0, 1, 1, 0, 0, 0]),
    )
    values, shares = knn_distances(task)
    np.testing.assert_allclose(shares, [[1 / 3, 2 / 3], [1, 0], [1, 0]])
    assert values.tolist() == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("samples", "folds", "remaining"), [(2, 2, 1), (4, 2, 2), (6, 2, 3), (12, 6, 10), (60, 6, 50)]
)
def test_no_more_neighbours_are_asked_than_remain_without_a_fold(samples, folds, remaining):
    fold = np.r_[np.arange(samples) % folds, np.full(2, folds)]
    task = on_a_line(np.arange(samples + 2), np.arange(samples + 2.0), fold, held_out=folds)
    candidates = [number for number in NEIGHBOURS if number <= remaining]
    assert new_neighbours(task).param_grid == {"n_neighbors": candidates}


def test_a_lone_training_sample_is_the_nearest():
    task = on_a_line([0, 5, 6], [3.0, 1.0, 2.0], [0, 1, 1], held_out=1)
    assert knn_distances(task)[0].tolist() == [3.0, 3.0]


def test_samples_that_are_no_landmarks_are_no_neighbours():
    # The nearest sample has 100 and is no landmark.
    task = on_a_line([0, 1, 10, 0.9], [5.0, 100, 6, 0], [0, 0, 0, 1], held_out=1)
    some = dataclasses.replace(
        task, landmarks=np.array([0, 2]), distances=task.distances[:, [0, 2]]
    )
    assert knn_distances(some)[0].tolist() == [5.0]


def along_a_gradient(kind: str) -> Problem:
    rng = np.random.default_rng(0)
    level = rng.normal(size=40)
    counts = rng.poisson(np.exp(2 + 0.3 * rng.normal(size=(40, 6))))
    counts[:, 0] = rng.poisson(np.exp(2 + level))
    target = level + 0.1 * rng.normal(size=40)
    if kind == "classification":
        target = np.where(target > 0.4, "b", "a")
    classes = "" if kind == "regression" else "ab"
    task = problem_of(target, counts, np.zeros((40, 40)), np.arange(40) % 5, classes, held_out=2)
    return task.encode()


def standardized_log_ratios(task: Problem) -> np.ndarray:
    logs = np.log(frequent_reads(task).toarray() + PSEUDOCOUNT)
    logs -= logs.mean(axis=1, keepdims=True)
    return (logs - logs[task.train].mean(axis=0)) / logs[task.train].std(axis=0)


def test_a_linear_method_of_numbers_is_an_elastic_net_of_standardized_log_ratios():
    task = along_a_gradient("regression")
    values, _ = elastic_net(task)
    features = standardized_log_ratios(task)
    model = new_elastic_net(task)[-1]
    model.fit(features[task.train], task.target[task.train])
    assert values.tolist() == pytest.approx(model.predict(features[task.test]).tolist())
    assert np.abs(values - task.target[task.test]).mean() < 0.5


def test_a_linear_method_of_classes_chooses_its_cost_on_one_part():
    task = along_a_gradient("classification")
    values, shares = elastic_net(task)
    features = standardized_log_ratios(task)[task.train]
    target = task.target[task.train]

    def fitted(cost: float, rows: np.ndarray):
        model = clone(new_elastic_net(task)[-1].estimator).set_params(C=cost)
        assert model.class_weight == "balanced"
        return model.fit(features[rows], target[rows])

    ((training, left),) = leave_one_part_out(task)
    scores = []
    for cost in LOGISTIC_COSTS:
        guess = fitted(cost, training).predict(features[left])
        scores.append(np.mean([(guess[target[left] == code] == code).mean() for code in (0, 1)]))
    # The first of equal mean recalls, which has the strongest penalty, is taken.
    cost = LOGISTIC_COSTS[int(np.argmax(scores))]
    others = standardized_log_ratios(task)[task.test]
    expected = fitted(cost, np.arange(len(target))).predict_proba(others)
    np.testing.assert_allclose(shares, expected)
    assert values.tolist() == np.array(["a", "b"])[expected.argmax(axis=1)].tolist()
    assert len(set(scores)) > 1, "any cost would do"
