"""Which baselines suit a task, and how all of them are fitted."""

import dataclasses

import numpy as np
import pytest
from problems import problem_of
from scipy.sparse import csr_array

from aam.learners.baselines import registry as module
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import (
    constant,
    cross_validate,
    predict_others,
    suitable_baselines,
)
from aam.learners.nested_predictions import NestedCrossValidation

FOLD = np.array([0, 0, 0, 1, 1, -1])


def task_of(target, classes="", **more) -> Problem:
    counts = np.array([[1, 2], [2, 1], [3, 4], [1, 5], [2, 2], [4, 1]])
    distances = np.abs(np.arange(6.0)[:, None] - np.arange(6.0))
    return problem_of(np.array(target), counts, distances, FOLD, classes, **more)


NUMBERS = task_of([1.0, 2.0, 6.0, 10.0, 20.0, 99.0])
CLASSES = task_of(list("bbabba"), "ab")


SPLITS = len(NestedCrossValidation(NUMBERS).splits)


def without_tree(task: Problem) -> Problem:
    return dataclasses.replace(task, above=csr_array((2, 0)), lengths=np.zeros(0))


def with_landmarks(task: Problem) -> Problem:
    """Return a task of which all samples but the last one are landmarks."""
    return dataclasses.replace(task, landmarks=np.arange(5), distances=task.distances[:, :5])


def asking(task: Problem, *names: str) -> Problem:
    return dataclasses.replace(task, asked=list(names))


ANY_TARGET = ["extra_trees", "kernel_clr"]
WITH_TREE = ["kernel_clades", "kernel_unifrac"]


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (NUMBERS, ["median", "random_forest_median", *ANY_TARGET, *WITH_TREE]),
        (CLASSES, ["majority", "random_forest", *ANY_TARGET, *WITH_TREE]),
        (
            without_tree(NUMBERS),
            ["median", "random_forest_median", *ANY_TARGET, "kernel_bray_curtis"],
        ),
    ],
)
def test_baselines_follow_the_target_and_the_tree(task, names):
    assert suitable_baselines(task) == names


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (
            asking(NUMBERS, "knn_unifrac", "random_forest", "majority"),
            ["median", "random_forest", "knn_unifrac"],
        ),
        (asking(CLASSES, "random_forest_median"), ["majority"]),
        (asking(without_tree(CLASSES), "knn_unifrac"), ["majority"]),
    ],
)
def test_baselines_that_are_asked_for_are_left_out_where_they_do_not_suit(task, names):
    assert suitable_baselines(task) == names


def test_the_constant_of_numbers_is_the_median_of_training():
    values, shares = constant(dataclasses.replace(NUMBERS, held_out=1).encode())
    assert values.tolist() == [2.0, 2.0]
    assert shares.shape == (2, 0)


def test_the_constant_of_classes_is_the_most_frequent_one_of_training_and_the_shares():
    values, shares = constant(dataclasses.replace(CLASSES, held_out=1).encode())
    assert values.tolist() == ["b", "b"]
    assert shares.tolist() == [pytest.approx([1 / 3, 2 / 3])] * 2


def test_other_samples_are_predicted_from_all_folds():
    task = dataclasses.replace(asking(NUMBERS, "kernel_unifrac"), held_out=1)
    table = predict_others(task, 1)
    assert table["baseline"].tolist() == ["median", "kernel_unifrac"]
    assert table["row"].tolist() == [5, 5]
    assert table["fold"].tolist() == [-1, -1]
    assert table["predicted"][0] == 6.0
    assert table["observed"].tolist() == [99.0, 99.0]


KERNELS_AND_MORE = asking(NUMBERS, "kernel_unifrac", "kernel_clades", "kernel_clr", "elastic_net")


@pytest.mark.parametrize(
    ("task", "order"),
    [
        pytest.param(
            KERNELS_AND_MORE,
            ["kernel_unifrac", "kernel_clr", "kernel_clades", "median", "elastic_net"],
            id="the quickest first",
        ),
        pytest.param(
            with_landmarks(KERNELS_AND_MORE),
            ["kernel_unifrac", "kernel_clades", "kernel_clr", "median", "elastic_net"],
            id="with landmarks the slowest first",
        ),
    ],
)
def test_baselines_are_reported_as_soon_as_they_are_fitted(task, order):
    reported = []
    cross_validate(task, 1, tell=lambda name, _: reported.append(name))
    assert reported == order


def test_baselines_are_listed_in_their_order():
    found = cross_validate(KERNELS_AND_MORE, 1)
    names = ["median", "kernel_clr", "kernel_clades", "kernel_unifrac", "elastic_net"]
    assert found.predictions["baseline"].unique().tolist() == names
    assert found.nested["baseline"].unique().tolist() == names[1:]


@pytest.mark.parametrize(
    ("task", "allowed", "threads", "processes"),
    [
        pytest.param(asking(NUMBERS, "kernel_clr"), 4, 4, 1, id="constants need no process"),
        pytest.param(asking(NUMBERS, "elastic_net"), 4, 4, 4, id="as many as are allowed"),
        pytest.param(
            with_landmarks(asking(NUMBERS, "kernel_clr")), 4, 2, 1, id="kernels take gigabytes"
        ),
        pytest.param(asking(NUMBERS, "elastic_net"), 400, 400, SPLITS, id="one for each split"),
    ],
)
def test_as_many_threads_and_processes_are_used_as_there_is_work(
    monkeypatch, task, allowed, threads, processes
):
    used = []
    ended = []

    def run_alone(jobs, **more):
        used.append(jobs)
        return parallel(1, **more)

    parallel = module.Parallel
    executor = type("Executor", (), {"shutdown": lambda self: ended.append(True)})
    monkeypatch.setattr(module, "Parallel", run_alone)
    monkeypatch.setattr(module, "get_reusable_executor", executor)
    cross_validate(task, allowed)
    # Methods that share fits get threads; then the others get processes, which are ended.
    assert used == [threads, processes]
    assert ended == [True] * (processes > 1)
