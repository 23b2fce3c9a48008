import numpy as np
import pytest
from problems import problem_of

from aam.learners.baselines.problem import Problem
from benchmarks import labels
from benchmarks.labels import UNLABELLED, curves, keep_labels


@pytest.fixture
def task(request) -> Problem:
    """Eighty samples of twenty hosts; what is asked for is the host's, and in its reads."""
    rng, kind = np.random.default_rng(0), request.param
    host = np.repeat(np.arange(20), 4)
    reads = rng.poisson(3, (80, 30))
    reads[:, 0] += 4 * host
    distances = np.abs(host[:, None] - host) / 20 + 0.01 * (1 - np.eye(80))
    target = host.astype(float) if kind == "regression" else np.array(["a", "b"])[host % 20 // 10]
    classes = [] if kind == "regression" else ["a", "b"]
    group = np.array([f"host{number}" for number in host])
    return problem_of(target, reads, distances, np.zeros(80, int), classes, group)


@pytest.mark.parametrize("task", ["regression", "classification"], indirect=True)
def test_no_host_stands_on_both_sides_of_a_draw(task):
    for draw in range(5):
        part = keep_labels(task, 10, draw)
        assert len(part.train) == 10
        assert not {*task.group[part.train]} & {*task.group[part.test]}
        assert len(part.test) + len(part.train) + (part.fold == -1).sum() == 80
        parts = [{*task.group[part.fold == name]} for name in np.unique(part.fold[part.train])]
        assert sum(map(len, parts)) == len(set().union(*parts)), "a host is in one part"
        assert part.held_out == UNLABELLED
        if task.classes:
            assert {*task.target[part.train]} == {"a", "b"}


@pytest.mark.parametrize("task", ["regression", "classification"], indirect=True)
def test_an_embedding_that_holds_the_answer_wins(task, monkeypatch):
    monkeypatch.setattr(labels, "NUMBERS", (10, 75))
    known = np.array([int(name.removeprefix("host")) for name in task.group])
    features = {"answer": known[:, None] * np.array([1.0, 2.0])}
    table = curves(task, features, draws=2)
    assert set(table["labels"]) == {10}, "75 of 80 leave too few to predict"
    mean = table.groupby("way")["score"].mean()
    best = mean.idxmin() if task.regression else mean.idxmax()
    ways = ("squares", "absolute") if task.regression else ("logistic",)
    assert mean[best] in [mean[f"answer, {way}"] for way in ways]
    assert f"answer, {ways[0]} with forest" in mean.index
    again = curves(task, features, draws=2)
    assert again.equals(table)
