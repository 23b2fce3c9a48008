"""Log-ratios, clades and neighbours of few samples, by hand."""

import dataclasses

import numpy as np
import pytest
from problems import problem_of
from scipy.sparse import csr_array
from sklearn.linear_model import ElasticNetCV, LogisticRegression

from aam.learners.baselines import linear_and_nearest as module
from aam.learners.baselines.linear_and_nearest import (
    centred_log_ratios,
    clade_logs,
    elastic_net,
    knn_distances,
    new_neighbours,
    prevalent_branches,
)
from aam.learners.baselines.problem import (
    Problem,
    frequent_reads,
    leave_one_part_out,
    leave_parts_out,
)


def on_a_line(position, target, fold, classes="", **more) -> Problem:
    """Return samples whose distances are those of places on a line."""
    position = np.array(position, float)
    distances = np.abs(position[:, None] - position)
    counts = np.ones((len(position), 2))
    return problem_of(np.array(target), counts, distances, np.array(fold), classes, **more)


def test_log_ratios_are_centred_within_a_sample():
    half = np.log(5) / 2
    found = centred_log_ratios(csr_array(np.array([[0, 2], [3, 3]])))
    assert found == pytest.approx(np.array([[-half, half], [0, 0]]))
    half = np.log(3) / 2
    assert centred_log_ratios(csr_array(np.array([[0, 2]])), 1.0)[0, 1] == pytest.approx(half)


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
    expected = np.log(np.array([[1, 1, 2], [0, 0, 5], [0, 7, 0]]) + 0.5) * [2, 3, 0.5]
    np.testing.assert_allclose(found, expected)


def test_branches_of_one_percent_of_the_training_samples_are_taken(monkeypatch):
    counts = (np.arange(200)[:, None] < [1, 2, 3]).astype(int)
    task = on_a_line(np.arange(200), np.zeros(200), np.zeros(200, int), held_out=1)
    task = dataclasses.replace(task, counts=csr_array(counts), above=csr_array(np.eye(3)))
    task = dataclasses.replace(task, lengths=np.ones(3))
    assert prevalent_branches(task).tolist() == [1, 2]
    # Where all are rarer, the most frequent ones are.
    rare = dataclasses.replace(task, counts=csr_array(counts[:, [0, 0, 0]] * [0, 1, 0]))
    assert prevalent_branches(rare).tolist() == [1]
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 64)
    assert prevalent_branches(task).tolist() == [1, 2]


def test_the_nearest_training_samples_count_by_the_inverse_of_their_distance(monkeypatch):
    task = on_a_line([0, 3, 10, 1, 9, 10], [0.0, 6, 90, 7, 7, 7], [0, 0, 0, 1, 1, 1], held_out=1)
    monkeypatch.setattr(module, "NEIGHBOURS", (2,))
    values, shares = knn_distances(task)
    # Distances 1 and 2; 1 and 6; a copy.
    assert values.tolist() == pytest.approx([2.0, 78.0, 90.0])
    assert shares.shape == (3, 0)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 2)
    assert knn_distances(task)[0].tolist() == values.tolist()
    classes = dataclasses.replace(
        task, kind="classification", classes=["b", "a"], target=np.array([0, 1, 1, 0, 0, 0])
    )
    values, shares = knn_distances(classes)
    np.testing.assert_allclose(shares, [[1 / 3, 2 / 3], [1, 0], [1, 0]])
    assert values.tolist() == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("samples", "candidates"),
    [(2, [1]), (4, [1]), (6, [1, 3]), (12, [1, 3, 5, 10]), (60, [1, 3, 5, 10, 20, 40])],
)
def test_as_many_neighbours_are_asked_as_every_part_has(samples, candidates):
    fold = np.r_[np.arange(samples) % 2, np.full(2, 2)]
    # Two folds: a part that is left out leaves half of the samples.
    if samples in (12, 60):
        fold = np.r_[np.arange(samples) % 6, np.full(2, 6)]
    task = on_a_line(np.arange(samples + 2), np.arange(samples + 2.0), fold)
    task = dataclasses.replace(task, held_out=int(fold[-1]))
    searched = new_neighbours(task)
    assert searched.param_grid == {"n_neighbors": candidates}


def test_a_lone_training_sample_is_the_nearest():
    task = on_a_line([0, 5, 6], [3.0, 1.0, 2.0], [0, 1, 1], held_out=1)
    assert knn_distances(task)[0].tolist() == [3.0, 3.0]


def test_neighbours_and_a_linear_method_leave_out_samples_that_are_no_landmarks():
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
    logs = np.log(frequent_reads(task).toarray() + 0.5)
    logs -= logs.mean(axis=1, keepdims=True)
    return (logs - logs[task.train].mean(axis=0)) / logs[task.train].std(axis=0)


def test_a_linear_method_of_numbers_is_an_elastic_net_of_standardized_log_ratios():
    task = along_a_gradient("regression")
    values, _ = elastic_net(task)
    features = standardized_log_ratios(task)
    model = ElasticNetCV(
        l1_ratio=(0.1, 0.5, 0.9),
        alphas=30,
        eps=0.01,
        cv=leave_parts_out(task, parts=3),
        max_iter=1000,
        tol=1e-3,
    )
    model.fit(features[task.train], task.target[task.train])
    assert values.tolist() == pytest.approx(model.predict(features[task.test]).tolist())
    assert np.abs(values - task.target[task.test]).mean() < 0.5


def test_a_linear_method_of_classes_chooses_its_cost_on_one_part():
    task = along_a_gradient("classification")
    values, shares = elastic_net(task)
    features = standardized_log_ratios(task)[task.train]
    target = task.target[task.train]

    def fitted(cost: float, rows: np.ndarray) -> LogisticRegression:
        model = LogisticRegression(
            C=cost,
            l1_ratio=0.5,
            solver="saga",
            class_weight="balanced",
            max_iter=100,
            tol=1e-3,
            random_state=task.random_state("elastic_net"),
        )
        return model.fit(features[rows], target[rows])

    ((training, left),) = leave_one_part_out(task)
    scores = []
    for cost in (0.003, 0.01, 0.03, 0.1):
        guess = fitted(cost, training).predict(features[left])
        scores.append(np.mean([(guess[target[left] == name] == name).mean() for name in (0, 1)]))
    cost = (0.003, 0.01, 0.03, 0.1)[int(np.argmax(scores))]
    others = standardized_log_ratios(task)[task.test]
    expected = fitted(cost, np.arange(len(target))).predict_proba(others)
    np.testing.assert_allclose(shares, expected)
    assert values.tolist() == np.array(["a", "b"])[expected.argmax(axis=1)].tolist()
    assert len(set(scores)) > 1, "any cost would do"
