"""By how much predictions are worse with other reads: each sample against itself, per stand-in."""

import numpy as np
import pandas as pd
import pytest

from aam.evaluate.clade_loss import measure_loss
from aam.evaluate.comparison import measure_difference

SIZE = 20
IDS = [f"s{number}" for number in range(SIZE)]
UNITS = pd.Series([f"u{number // 2}" for number in range(SIZE)], IDS)
FOLD = np.arange(SIZE) // 2 % 4


OBSERVED = np.random.default_rng(0).normal(size=SIZE)
TABLE = pd.DataFrame({"sample-id": IDS, "fold": FOLD, "observed": OBSERVED})
PREDICTED = OBSERVED[:, None] + 0.5
REPLACED = OBSERVED[:, None, None] + np.random.default_rng(1).normal(0, 2, (SIZE, 3, 1))
"""Predictions with the reads of three stand-ins."""


def test_numbers_lose_what_their_mean_error_gains():
    found = measure_loss("regression", (), TABLE, PREDICTED, REPLACED, UNITS)
    error = np.abs(REPLACED[:, :, 0] - OBSERVED[:, None]).mean(axis=1)
    by_fold = [error[FOLD == fold].mean() for fold in range(4)]
    assert found["score"] == pytest.approx(0.5)
    assert found["loss"] == pytest.approx(np.mean(by_fold) - 0.5)


def repeat_table(predicted):
    """Return a table in which each sample occurs once for each of its predictions."""
    parts = []
    for number, values in enumerate(predicted.T):
        names = [f"{name}-{number}" for name in IDS]
        parts.append(TABLE.assign(predicted=values, **{"sample-id": names}))
    return pd.concat(parts)


def test_the_interval_of_a_loss_is_over_people_however_many_stand_ins_there_are():
    found = measure_loss("regression", (), TABLE, PREDICTED, REPLACED, UNITS)
    tables = repeat_table(PREDICTED.repeat(3, axis=1)), repeat_table(REPLACED[:, :, 0])
    units = pd.Series(np.tile(UNITS, 3), tables[0]["sample-id"])
    expected = measure_difference("regression", *tables, units)
    assert (found["low"], found["high"]) == pytest.approx(
        (-expected.interval[1], -expected.interval[0])
    )
    assert found["low"] < found["loss"] < found["high"]


def test_classes_lose_what_their_balanced_accuracy_loses():
    observed = np.array(["a"] * 8 + ["b"] * 12)
    table = pd.DataFrame({"sample-id": IDS, "fold": FOLD, "observed": observed})
    right = (observed[:, None] == ["a", "b"]) * 0.8 + 0.1
    replaced = np.stack([right, right], axis=1)
    # With one stand-in of two, four of the eight are taken for the other class.
    replaced[:4, 1] = replaced[:4, 1, ::-1]
    found = measure_loss("classification", ["a", "b"], table, right, replaced, UNITS)
    assert found["score"] == 1.0
    assert found["loss"] == pytest.approx(0.5 * 4 / 16)
    assert found["low"] < found["loss"] < found["high"]
    turned = measure_loss(
        "classification", ["a", "b"], table, replaced[:, 1], right[:, None], UNITS
    )
    assert turned["score"] == pytest.approx(0.75)
    assert turned["loss"] == pytest.approx(-0.25)


def test_few_units_have_a_loss_without_an_interval():
    table = pd.DataFrame({"sample-id": IDS, "fold": FOLD, "observed": np.arange(float(SIZE))})
    value = np.arange(float(SIZE))[:, None]
    units = pd.Series("one", IDS)
    found = measure_loss("regression", (), table, value, value[:, None] + 2, units)
    assert found["loss"] == pytest.approx(2.0)
    assert np.isnan([found["low"], found["high"]]).all()
