from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import problem_of

from benchmarks.nested import independent, mixed, nested, tables


@pytest.mark.usefixtures("few_trees")
def test_nested_predictions_of_a_fold_know_none_of_its_labels(monkeypatch):
    monkeypatch.setattr("benchmarks.nested.THREADS", 1)
    rng = np.random.default_rng(0)
    target = rng.random(40)
    reads = rng.poisson(5 + 40 * target[:, None] * np.array([1, 0, 0]), (40, 3))
    distances, fold = np.abs(target[:, None] - target), np.arange(40) % 4
    task = problem_of(target, reads, distances, fold, asked=["elastic_net", "knn_unifrac"])
    first = nested(task)
    changed = np.where(fold == 1, 9.0, target)
    second = nested(replace(task, target=changed))
    own = first["fold"] == 1
    assert first.loc[own, "predicted"].tolist() == second.loc[own, "predicted"].tolist()
    assert sorted(first["sample-id"]) == sorted(mixed(task, tables(task))["sample-id"])


def test_samples_are_worth_as_many_as_groups_where_those_of_a_group_err_alike():
    rng, unit = np.random.default_rng(0), np.arange(60) // 10
    right = pd.DataFrame({"observed": np.zeros(60), "predicted": np.zeros(60)})
    for error, low, high in [(rng.random(6)[unit], 6, 6), (rng.random(60), 40, 60)]:
        worth = independent({"a": right, "b": right.assign(predicted=error)}, unit)
        assert low - 1e-6 <= worth <= high + 1e-6
