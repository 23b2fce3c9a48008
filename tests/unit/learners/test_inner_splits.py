"""Parts that settings are chosen on, within the training samples of a fold."""

import numpy as np
import pytest
from problems import problem_of

from aam.learners.baselines.problem import leave_parts_out


@pytest.mark.parametrize(
    ("folds", "group", "parts"),
    [
        # Whole training folds, whatever the groups are.
        (3, lambda number: f"fold {number % 3}", 2),
        # One training fold of several groups.
        (2, lambda number: f"host {number % 8}", 4),
        # Two folds that are the groups: the one training fold is of one group.
        (2, lambda number: f"fold {number % 2}", 5),
    ],
)
def test_parts_are_folds_then_groups_then_samples(folds, group, parts):
    number = np.arange(40)
    distances = np.abs(number[:, None] - number).astype(float)
    target = number.astype(float)
    task = problem_of(
        target,
        np.ones((40, 3)),
        distances,
        number % folds,
        [],
        kind="regression",
        group=np.array([group(one) for one in number]),
        held_out=0,
    )
    splits = leave_parts_out(task)
    assert len(splits) == parts
    left_out = np.concatenate([left for _, left in splits])
    assert sorted(left_out) == list(range(len(task.train))), "each sample is left out once"
