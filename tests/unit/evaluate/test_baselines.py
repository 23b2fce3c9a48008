"""Baselines: nothing leaks, nothing depends on threads, and they find what is there."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from aam.evaluate import baselines
from aam.evaluate.baselines import Problem, predict_baselines

SAMPLES, FEATURES = 48, 20


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(baselines, "TREES", 20)


def problem(kind: str, folds: int = 3) -> Problem:
    """Samples along a gradient, which counts, distances and target follow."""
    rng = np.random.default_rng(0)
    gradient = rng.permutation(SAMPLES) / SAMPLES
    rates = 40 * np.exp(-8 * (gradient[:, None] - np.linspace(0, 1, FEATURES)) ** 2)
    target = 100 * gradient
    return Problem(
        kind=kind,
        target=target
        if kind == "regression"
        else np.array(["a", "b", "c"])[(target // 34).astype(int)],
        fold=np.arange(SAMPLES) % folds,
        group=np.full(SAMPLES, ""),
        counts=scipy.sparse.csr_array(rng.poisson(rates)),
        distances=np.abs(gradient[:, None] - gradient).astype(np.float32),
        seed=1,
    )


def of(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    return table[table["baseline"] == baseline]


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_every_baseline_predicts_every_sample_once(kind):
    table = predict_baselines(problem(kind), threads=1)
    names = ["median" if kind == "regression" else "majority", "random_forest", "knn_unifrac"]
    assert table["baseline"].unique().tolist() == names
    for name in names:
        assert of(table, name)["row"].tolist() == list(range(SAMPLES))


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_labels_of_the_held_out_fold_change_none_of_its_predictions(kind):
    task = problem(kind)
    changed = task.target.copy()
    own = task.fold == 0
    changed[own] = 1000.0 if kind == "regression" else np.roll(changed[own], 1)
    first = predict_baselines(task, threads=1)
    second = predict_baselines(dataclasses.replace(task, target=changed), threads=1)
    columns = [name for name in first if name not in ("observed",)]
    pd.testing.assert_frame_equal(
        first.loc[first["fold"] == 0, columns], second.loc[second["fold"] == 0, columns]
    )
    assert not first.loc[first["fold"] != 0, columns].equals(
        second.loc[second["fold"] != 0, columns]
    )


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_threads_change_nothing(kind):
    one, two = (predict_baselines(problem(kind), threads) for threads in (1, 2))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_a_gradient_is_found():
    table = predict_baselines(problem("regression"), threads=1)
    error = (table["observed"] - table["predicted"]).abs().groupby(table["baseline"]).mean()
    assert error["knn_unifrac"] < 5 < error["median"]
    assert error["random_forest"] < 0.5 * error["median"]


def test_median_is_that_of_the_other_folds():
    task = problem("regression")
    table = of(predict_baselines(task, threads=1), "median")
    expected = [np.median(task.target[task.fold != fold]) for fold in task.fold]
    assert table["predicted"].tolist() == pytest.approx(expected)


def test_a_class_of_one_fold_has_no_probability_where_it_was_not_seen():
    task = problem("classification")
    target = np.where(task.fold == 2, "only here", task.target)
    table = predict_baselines(dataclasses.replace(task, target=target), threads=1)
    held_out = table[table["fold"] == 2]
    assert (held_out["probability:only here"] == 0).all()
    assert (held_out["predicted"] != "only here").all()
    shares = table.filter(like="probability:").sum(axis=1)
    assert shares.tolist() == pytest.approx([1.0] * len(table))


def test_neighbours_are_chosen_without_looking_within_a_group():
    """Twins share target and place, so one neighbour looks best wherever twins are split."""
    rng = np.random.default_rng(3)
    pairs = 60
    place = np.repeat(rng.random(pairs), 2)
    task = Problem(
        kind="regression",
        target=np.repeat(rng.normal(size=pairs), 2),
        fold=np.repeat(np.arange(pairs) % 2, 2),
        group=np.repeat(np.arange(pairs), 2).astype(str),
        counts=scipy.sparse.csr_array(np.ones((2 * pairs, 2), dtype=np.int64)),
        distances=(np.abs(place[:, None] - place) + 1e-3 * (place[:, None] != place)).astype(
            np.float32
        ),
        seed=0,
    )
    table = of(predict_baselines(task, threads=1), "knn_unifrac")
    assert not np.isin(table["predicted"].round(6), task.target.round(6)).any()
