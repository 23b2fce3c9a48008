"""Labelled samples of a task: which are trained on, and the parts that settings are chosen on."""

import numpy as np
import pandas as pd
import pytest

from aam.data.folds import TEST
from aam.tasks.finetune.setup import Labelled

SAMPLES = 40


def labelled(fold: np.ndarray, units: list[str]) -> Labelled:
    observed_LC = np.arange(SAMPLES).astype(str).astype(object)[:, None]
    return Labelled(np.arange(SAMPLES), observed_LC, fold, units)


@pytest.mark.parametrize(
    ("folds", "unit", "parts"),
    [
        (3, lambda number: f"study {number % 3}", 2),
        (2, lambda number: f"host {number % 8}", 4),
        # Two folds that are the groups: the one training fold is a single unit.
        (2, lambda number: f"study {number % 2}", 5),
    ],
)
def test_parts_are_folds_then_units_then_samples(folds, unit, parts):
    task = labelled(np.arange(SAMPLES) % folds, [unit(number) for number in range(SAMPLES)])
    is_training = task.training(0, 1.0, seed=0)
    found = task.parts(is_training)
    assert len(found) == parts
    left_out = np.concatenate([left for _, left in found])
    assert sorted(left_out) == list(range(is_training.sum()))


def test_a_fraction_of_the_labels_is_of_samples_where_the_folds_are_the_groups():
    """A tenth of nine studies would be two whole ones."""
    fold = np.arange(SAMPLES) % 4
    fold[:4] = TEST
    studies = [f"study {number % 4}" for number in range(SAMPLES)]
    task = labelled(fold, studies)
    chosen = task.training(0, 0.5, seed=1)
    assert chosen.sum() == 14
    assert set(pd.Series(studies)[chosen]) == {"study 1", "study 2", "study 3"}
    fewer = task.training(0, 0.25, seed=1)
    assert not (fewer & ~chosen).any(), "a smaller fraction is part of a larger one"
