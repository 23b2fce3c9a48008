from dataclasses import replace

import numpy as np
import pytest
from problems import problem_of

from benchmarks.nested import mixed, nested, tables


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
