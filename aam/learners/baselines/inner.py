"""Splits within the training samples of a fold, and settings that are chosen on them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, GroupKFold

from aam.learners.baselines.problem import Problem

Split = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Positions in the training samples: those to train on, those left out."""


def leave_parts_out(task: Problem, parts: int = 5) -> list[Split]:
    """Leave out parts of about the same size, each made of whole training folds.

    Where there is one training fold, the parts are made of groups. Where all its samples are of one
    group, as with two folds that are the groups themselves, they are made of samples: these flatter
    a setting a little, but otherwise nothing would be tuned.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    parts
        Number of parts, at most.

    Returns
    -------
    list of tuple
        Positions in `task.train`: those to train on, and those left out. Empty where there is one
        sample alone.
    """
    train = task.train
    alone = train.astype(str)
    unit = task.fold[train].astype(str)
    if len(np.unique(unit)) == 1:
        unit = np.where(task.group[train] == "", alone, task.group[train])
    if len(np.unique(unit)) == 1:
        unit = alone
    parts = min(parts, len(np.unique(unit)))
    if parts < 2:
        return []
    return list(GroupKFold(parts).split(train, groups=unit))


def leave_each_part_out(task: Problem) -> list[Split]:
    """Leave out every part in turn, as long as two classes remain.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    target = task.target[task.train]
    splits = leave_parts_out(task)
    return [split for split in splits if len(np.unique(target[split[0]])) > 1]


def leave_one_part_out(task: Problem) -> list[Split]:
    """Leave out about a fifth, such that the most classes remain; no split if only one would.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    splits = leave_each_part_out(task)
    if task.regression or not splits:
        return splits[:1]
    target = task.target[task.train]
    classes = [len(np.unique(target[training])) for training, _ in splits]
    return [splits[classes.index(max(classes))]]


def search(
    task: Problem, model: BaseEstimator, grid: Mapping[str, Sequence[Any]], splits: Sequence[Split]
) -> BaseEstimator:
    """Return a model that chooses its settings by the splits.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    model
        The model, not fitted; it is returned as it is where there are no splits.
    grid
        Candidates by setting; the first of equals is taken.
    splits
        Positions in the training samples.

    Returns
    -------
    sklearn.base.BaseEstimator
        Not fitted.
    """
    if not splits:
        return model
    scoring = "neg_mean_absolute_error" if task.regression else "balanced_accuracy"
    return GridSearchCV(model, dict(grid), scoring=scoring, cv=splits)
