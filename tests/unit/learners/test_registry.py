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

FOLD = np.array([0, 0, 0, 1, 1, -1])


def task_of(target, classes="", **more) -> Problem:
    counts = np.array([[1, 2], [2, 1], [3, 4], [1, 5], [2, 2], [4, 1]])
    distances = np.abs(np.arange(6.0)[:, None] - np.arange(6.0))
    return problem_of(np.array(target), counts, distances, FOLD, classes, **more)


NUMBERS = task_of([1.0, 2.0, 6.0, 10.0, 20.0, 99.0])
CLASSES = task_of(list("bbabba"), "ab")


def without_tree(task: Problem) -> Problem:
    return dataclasses.replace(task, above=csr_array((2, 0)), lengths=np.zeros(0))


NEXT = ["extra_trees", "kernel_clr", "kernel_clades", "kernel_unifrac"]


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (NUMBERS, ["median", "random_forest_median", *NEXT]),
        (CLASSES, ["majority", "random_forest", *NEXT]),
        (
            without_tree(NUMBERS),
            ["median", "random_forest_median", *NEXT[:2], "kernel_bray_curtis"],
        ),
        (
            dataclasses.replace(NUMBERS, asked=["knn_unifrac", "random_forest", "majority"]),
            ["median", "random_forest", "knn_unifrac"],
        ),
        (dataclasses.replace(CLASSES, asked=["random_forest_median"]), ["majority"]),
        (dataclasses.replace(without_tree(CLASSES), asked=["knn_unifrac"]), ["majority"]),
    ],
)
def test_suitable_baselines_follow_the_target_and_the_tree(task, names):
    assert suitable_baselines(task) == names


def test_a_constant_is_the_median_of_training_or_its_most_frequent_class():
    values, shares = constant(dataclasses.replace(NUMBERS, held_out=1).encode())
    assert values.tolist() == [2.0, 2.0]
    assert shares.shape == (2, 0)
    values, shares = constant(dataclasses.replace(CLASSES, held_out=1).encode())
    assert values.tolist() == ["b", "b"]
    assert shares.tolist() == [pytest.approx([1 / 3, 2 / 3])] * 2


def test_other_samples_are_predicted_from_all_folds():
    task = dataclasses.replace(NUMBERS, asked=["kernel_unifrac"], held_out=1)
    table = predict_others(task, 1)
    assert table["baseline"].tolist() == ["median", "kernel_unifrac"]
    assert table["row"].tolist() == [5, 5]
    assert table["fold"].tolist() == [-1, -1]
    assert table["predicted"][0] == 6.0
    assert table["observed"].tolist() == [99.0, 99.0]


def test_baselines_are_told_the_quickest_first_and_listed_in_their_order():
    kernels = ["kernel_unifrac", "kernel_clades", "kernel_clr"]
    task = dataclasses.replace(NUMBERS, asked=[*kernels, "elastic_net"])
    told = []
    found = cross_validate(task, 1, tell=lambda name, _: told.append(name))
    assert told == ["kernel_unifrac", "kernel_clr", "kernel_clades", "median", "elastic_net"]
    names = ["median", "kernel_clr", "kernel_clades", "kernel_unifrac", "elastic_net"]
    assert found.predictions["baseline"].unique().tolist() == names
    assert found.nested["baseline"].unique().tolist() == names[1:]
    # With landmarks the slowest come first.
    few = dataclasses.replace(task, landmarks=np.arange(5), distances=task.distances[:, :5])
    told.clear()
    cross_validate(few, 1, tell=lambda name, _: told.append(name))
    assert told == ["kernel_unifrac", "kernel_clades", "kernel_clr", "median", "elastic_net"]


def test_constants_need_no_process_of_their_own(monkeypatch):
    asked = []

    def noting(processes, **more):
        asked.append(processes)
        return parallel(1, **more)

    parallel = module.Parallel
    monkeypatch.setattr(module, "Parallel", noting)
    shut_down = []
    executor = type("Executor", (), {"shutdown": lambda self: shut_down.append(True)})
    monkeypatch.setattr(module, "get_reusable_executor", executor)
    cross_validate(dataclasses.replace(NUMBERS, asked=["kernel_clr"]), 4)
    assert asked == [4, 1]
    assert not shut_down
    asked.clear()
    cross_validate(dataclasses.replace(NUMBERS, asked=["elastic_net"]), 4)
    assert asked == [4, 4]
    assert shut_down == [True]
    # Kernels of a study with landmarks take gigabytes: there are two at most.
    few = dataclasses.replace(NUMBERS, landmarks=np.arange(5), distances=NUMBERS.distances[:, :5])
    asked.clear()
    cross_validate(dataclasses.replace(few, asked=["kernel_clr"]), 4)
    assert asked == [2, 1]
    asked.clear()
    # No more processes than there are splits: two folds and the parts of each.
    cross_validate(dataclasses.replace(NUMBERS, asked=["elastic_net"]), 400)
    assert asked[1] < 20


def test_labels_that_are_alike_are_what_every_method_predicts():
    task = dataclasses.replace(NUMBERS, target=np.array([3.0] * 5 + [9.0]))
    asked = ["elastic_net", "gradient_boosting", "knn_unifrac", "kernel_clr", "extra_trees"]
    table = predict_others(dataclasses.replace(task, asked=asked), 1)
    assert table["predicted"].tolist() == pytest.approx([3.0] * 6)
