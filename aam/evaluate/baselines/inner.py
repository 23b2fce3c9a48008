"""Splits within the training samples of a fold, to choose settings by."""

import numpy as np
from sklearn.metrics import mean_absolute_error, recall_score
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut

from aam.evaluate.baselines.problem import Problem, Rows

Split = tuple[Rows, Rows]
"""Positions in the training samples: those to train on, those left out."""


def leave_folds_out(task: Problem, train: Rows) -> list[Split]:
    """Leave out one training fold after the other, or groups where there is one fold only.

    Returns
    -------
    list
        The splits; none where all training samples are of one group.
    """
    fold = task.fold[train]
    if len(np.unique(fold)) > 1:
        return list(LeaveOneGroupOut().split(train, groups=fold))
    return _leave_groups_out(task, train, parts=5)


def leave_parts_out(task: Problem, train: Rows, parts: int) -> list[Split]:
    """Leave out a few parts of about the same size, each made of whole training folds.

    Where there is one training fold only, the parts are made of groups, and where there is one
    group only, of samples: nothing else is left to choose by.

    Returns
    -------
    list
        At most `parts` splits, at least two.
    """
    fold = task.fold[train]
    folds = len(np.unique(fold))
    if folds > 1:
        return list(GroupKFold(min(parts, folds)).split(train, groups=fold))
    splits = _leave_groups_out(task, train, parts)
    return splits or list(KFold(min(parts, len(train))).split(train))


def leave_one_part_out(task: Problem, train: Rows) -> Split | None:
    """Leave out about a fifth of the training samples, as `leave_parts_out` does.

    Returns
    -------
    tuple or None
        Of the possible splits one that keeps the most classes to train on; None where none
        keeps two of them.
    """
    splits = leave_parts_out(task, train, parts=5)
    if task.regression:
        return splits[0]
    target = task.target[train]
    best = max(splits, key=lambda split: len(np.unique(target[split[0]])))
    return best if len(np.unique(target[best[0]])) > 1 else None


def loss(task: Problem, rows: Rows, guess: np.ndarray) -> float:
    """Return how wrong guesses of some samples are, on average; comparable within a task.

    The mean absolute error, or minus the mean recall of the classes that are there.
    """
    truth = task.target[rows]
    if task.regression:
        return float(mean_absolute_error(truth, guess))
    present = np.unique(truth)
    return -float(recall_score(truth, guess, labels=present, average="macro", zero_division=0))


def _leave_groups_out(task: Problem, train: Rows, parts: int) -> list[Split]:
    group = np.where(task.group[train] == "", train.astype(str), task.group[train])
    parts = min(parts, len(np.unique(group)))
    return list(GroupKFold(parts).split(train, groups=group)) if parts > 1 else []
