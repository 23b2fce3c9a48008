"""What features add: scores of the three answers, and the test of their difference."""

import numpy as np
import pandas as pd
import pytest
from problems import learners_of, predictions_of

from aam.evaluate.additions import measure_addition
from aam.evaluate.comparison import compare, measure_difference
from aam.evaluate.task_report import Addition
from aam.learners.covariate_methods import ALONE, JOINT

SAMPLES = 80


def addition(kind: str, skills: dict[str, float], seed: int = 0, each: int = 1) -> Addition:
    """Return what is measured of methods whose predictions are noisy views of the target.

    A skill is the share of the target in what a method sees; those of covariates share their noise.
    """
    rng = np.random.default_rng(seed)
    units = SAMPLES // each
    unit_N = np.repeat(np.arange(units), each)
    target_N = rng.normal(size=units)[unit_N]
    noise_N = rng.normal(size=SAMPLES)
    observed = target_N if kind == "regression" else np.where(target_N > 0, "b", "a")
    tables = {}
    for name, skill in skills.items():
        own_N = noise_N if name in ALONE else rng.normal(size=SAMPLES)
        seen_N = skill * target_N + (1 - skill) * own_N
        if kind == "regression":
            tables[name] = predictions_of(observed, seen_N, unit_N % 5)
        else:
            share_N = 1 / (1 + np.exp(-2 * seen_N))
            guess_N = np.where(share_N > 0.5, "b", "a")
            shares_NC = np.stack([1 - share_N, share_N], axis=1)
            tables[name] = predictions_of(observed, guess_N, unit_N % 5, shares_NC, "ab")
    learners = learners_of(tables)
    group = pd.Series([f"u{u}" if each > 1 else "" for u in unit_N])
    return measure_addition(
        kind,
        covariates=["age"],
        learners={name: learners[name] for name in (*ALONE, *JOINT)},
        features={"random_forest": learners["random_forest"]},
        group=group.set_axis([f"s{i}" for i in range(SAMPLES)]),
    )


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_features_that_say_more_are_found(kind, each):
    weak = dict.fromkeys(ALONE, 0.3)
    found = addition(kind, {**weak, **dict.fromkeys(JOINT, 0.8), "random_forest": 0.7}, each=each)
    sign = -1 if kind == "regression" else 1
    assert sign * found.of_features.difference > 0
    assert found.of_features.p < 0.05
    low, high = found.of_features.interval
    assert low < found.of_features.difference < high
    assert low > 0 or high < 0
    assert found.both.score - found.alone.score == pytest.approx(found.of_features.difference)
    assert found.both.score - found.features.score == pytest.approx(found.of_covariates.difference)
    assert found.both.guessing.p < 0.01
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.weights.keys() == {"covariates", "features", *JOINT}


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_features_that_say_nothing_cost_nothing(kind):
    strong = dict.fromkeys((*ALONE, *JOINT), 0.8)
    found = addition(kind, {**strong, "random_forest": 0.0})
    assert found.weights["features"] < 0.2
    assert found.of_features.p > 0.05
    low, high = found.of_features.interval
    assert low < 0 < high


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("right", [0.5, 0.7, 0.9])
def test_an_interval_of_a_difference_leaves_out_0_just_where_the_test_finds_one(kind, right):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        if kind == "regression":
            observed = rng.normal(size=40)
            first, second = (observed + rng.normal(0, noise, 40) for noise in (1 - right, 0.5))
        else:
            observed = rng.choice(["a", "b"], 40)
            first, second = (
                np.where(rng.random(40) < share, observed, rng.choice(["a", "b"], 40))
                for share in (right, 0.5)
            )
        fold = np.arange(40) % 5
        tables = [predictions_of(observed, predicted, fold) for predicted in (first, second)]
        group = pd.Series("", index=tables[0]["sample-id"])
        compared = compare(kind, *tables, group)
        found = measure_difference(kind, *tables, group)
        assert (found.p, found.difference) == (compared.p, compared.difference)
        low, high = found.interval
        assert (low > 0 or high < 0) == (found.p < 0.05)


def test_few_units_have_neither_test_nor_interval():
    table = predictions_of(np.arange(4.0), np.arange(4.0) + 1, np.arange(4) % 2)
    group = pd.Series("", index=table["sample-id"])
    found = measure_difference("regression", table, table.assign(predicted=0.0), group)
    assert (found.p, found.interval) == (None, None)
