"""Metadata columns that predict a target by themselves, without a single read.

A model that learns the plate of a sample scores well where the classes were sequenced on plates of
their own, and knows nothing of the classes: the plate is a confounder. Whether a column can be one
follows from the column alone: the target of every sample is predicted from the other samples of its
category, never from those of its own group, as cross-validation does. A column whose categories are
groups, or lie within them, then predicts nothing; nor does one with nearly as many categories as
samples, since most of its categories have no other sample.

Shape suffixes: N samples, C categories, K classes (1 where a number is predicted).
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.folds import units_of
from aam.data.roles import is_technical
from aam.util.seeds import generator

LEAST_SKILL = 0.8
"""Skill from which on a column predicts a target: 0 is that of a constant, 1 is perfect."""
LEAST_SAMPLES = 10
"""Samples below which no column is returned, as too many predict a few samples by chance."""
PERMUTATIONS = 99
"""Times that the categories of a column that is not technical are permuted: the column is left out
if a permutation ever predicts the target as well (p > 0.01). Technical columns are not permuted: a
plate that predicts the classes of six people is a confounder, whether by chance or by design."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def confounders(
    target: pd.Series,
    metadata: pd.DataFrame,
    *,
    kind: str,
    exclude: Collection[str],
    seed: int,
    groups: pd.Series | None = None,
) -> list[dict[str, Any]]:
    """Return the technical columns that predict a target, those that predict it best first.

    Technical columns are run, plate, center, study, extraction and the like.
    `predictive_columns` looks at all others, too.

    Parameters
    ----------
    target
        The observed values of the labelled samples, by sample ID: numbers, or names of classes.
    metadata
        Text by sample ID, missing values as None or NaN; other samples are ignored.
    kind
        regression, classification or ordinal.
    exclude
        Columns that are left out: the target itself, and others of the task.
    seed
        Seed of the permutations of columns that are not technical.
    groups
        The group of each sample, by sample ID, empty where a sample is of its own: no sample is
        predicted from its own group. None: every sample is of its own.

    Returns
    -------
    list of dict
        `column`, `score` (balanced accuracy of classes, R2 of numbers, with the sample's group left
        out) and `kind`: "exact" where every sample is predicted right, else "nearly".
    """
    technical = metadata[[column for column in metadata if is_technical(str(column))]]
    return predictive_columns(
        target, technical, kind=kind, exclude=exclude, seed=seed, groups=groups
    )


def predictive_columns(
    target: pd.Series,
    metadata: pd.DataFrame,
    *,
    kind: str,
    exclude: Collection[str],
    seed: int,
    groups: pd.Series | None = None,
) -> list[dict[str, Any]]:
    """Return all columns that predict a target, technical or not, those that do it best first.

    Parameters
    ----------
    target
        The observed values of the labelled samples, by sample ID: numbers, or names of classes.
    metadata
        Text by sample ID, missing values as None or NaN; other samples are ignored.
    kind
        regression, classification or ordinal.
    exclude
        Columns that are left out: the target itself, and others of the task.
    seed
        Seed of the permutations of columns that are not technical.
    groups
        The group of each sample, by sample ID, empty where a sample is of its own. None: every
        sample is of its own.

    Returns
    -------
    list of dict
        `column`, `score` and `kind`, as `confounders` returns them; none of fewer than
        `LEAST_SAMPLES` samples.
    """
    if len(target) < LEAST_SAMPLES or target.nunique() < 2:
        return []
    group_N = np.arange(len(target))
    if groups is not None:
        group_N = pd.factorize(units_of(groups.loc[target.index]))[0].astype(np.int64)
    is_number = kind == "regression"
    value_NK = _values(target, is_number=is_number)
    predictive = []
    for column in metadata.columns.difference(list(exclude), sort=False):
        # A missing value is a category, too: it may be missing in one class alone.
        category_N = pd.factorize(metadata[column].loc[target.index], use_na_sentinel=False)[0]
        category_N = category_N.astype(np.int64)
        if category_N.max() == 0:
            continue
        skill = _skill(value_NK, category_N, group_N, is_number=is_number)
        if skill < LEAST_SKILL:
            continue
        if not is_technical(str(column)):
            rng = generator("confounders", seed, str(column))
            if _is_chance(value_NK, category_N, group_N, skill, rng, is_number=is_number):
                continue
        # A skill of 0 among K classes is a balanced accuracy of 1 / K.
        least = 0.0 if is_number else 1.0 / value_NK.shape[1]
        exact = bool(skill > 1 - 1e-9)
        score = 1.0 if exact else least + (1.0 - least) * skill
        predictive.append(
            {"column": str(column), "score": score, "kind": "exact" if exact else "nearly"}
        )
    return sorted(predictive, key=lambda entry: -float(entry["score"]))


def _values(target: pd.Series, *, is_number: bool) -> Floats:
    """Return numbers, [N, 1], or 1 in the column of each sample's class, [N, K]."""
    if is_number:
        return pd.to_numeric(target).to_numpy(np.float64)[:, None]
    class_N, names = pd.factorize(target)
    return np.eye(len(names))[class_N]


def _skill(value_NK: Floats, category_N: Codes, group_N: Codes, *, is_number: bool) -> float:
    """Return how well other groups of a category predict the target.

    Parameters
    ----------
    value_NK
        Numbers, [N, 1], or 1 in the column of each sample's class, [N, K].
    category_N, group_N
        Codes of the category and of the group of each sample.
    is_number
        Whether a number is predicted: by the mean of the category, else by its most frequent class.

    Returns
    -------
    float
        1 where every sample is right, 0 where the prediction is as good as a constant: R2 of
        numbers, balanced accuracy of classes on a scale that begins at chance.
    """
    total_NK, count_N = _sums_of_others(value_NK, category_N, group_N)
    everywhere_NK, all_N = _sums_of_others(value_NK, np.zeros_like(category_N), group_N)
    if is_number:
        mean_N = everywhere_NK[:, 0] / np.maximum(all_N, 1)
        predicted_N = np.where(count_N > 0, total_NK[:, 0] / np.maximum(count_N, 1), mean_N)
        # Both sums leave out the sample's own group, so that no column gains by knowing the group.
        squares = ((value_NK[:, 0] - mean_N) ** 2).sum()
        return 1.0 - float(((value_NK[:, 0] - predicted_N) ** 2).sum() / max(squares, 1e-300))
    # The share of each class that lies in the category makes classes count alike, however rare.
    share_NK = total_NK / np.maximum(everywhere_NK, 1)
    is_best_NK = share_NK == share_NK.max(axis=1, keepdims=True)
    right_N = (is_best_NK * value_NK).sum(axis=1) / is_best_NK.sum(axis=1)
    recall_K = right_N @ value_NK / value_NK.sum(axis=0)
    chance = 1.0 / value_NK.shape[1]
    return float((recall_K.mean() - chance) / (1.0 - chance))


def _sums_of_others(value_NK: Floats, category_N: Codes, group_N: Codes) -> tuple[Floats, Floats]:
    """Return sums of the values of a sample's category, and their number, without its group."""
    one_NK = np.column_stack([value_NK, np.ones(len(value_NK))])
    # One number stands for each pair of a category and a group.
    part_N = np.unique(category_N * (group_N.max() + 1) + group_N, return_inverse=True)[1]
    left_NK = _sums(one_NK, category_N)[category_N] - _sums(one_NK, part_N)[part_N]
    # The counts are differences of sums of floats: rounding makes them whole again.
    return left_NK[:, :-1], np.rint(left_NK[:, -1])


def _sums(value_NK: Floats, code_N: Codes) -> Floats:
    return np.stack([np.bincount(code_N, weights=value_N) for value_N in value_NK.T], axis=1)


def _is_chance(
    value_NK: Floats,
    category_N: Codes,
    group_N: Codes,
    skill: float,
    rng: np.random.Generator,
    *,
    is_number: bool,
) -> bool:
    """Return whether permuted categories ever reach a skill.

    Where every group is of one category, they are permuted among groups, else among samples.

    Parameters
    ----------
    value_NK
        The target, as `_values` returns it.
    category_N, group_N
        Codes of the category and of the group of each sample.
    skill
        What `_skill` returned for the categories as they are.
    rng
        Source of the permutations.
    is_number
        Whether a number is predicted.
    """
    # If all samples of a group have one category, the group is what was assigned to it: permuting
    # samples would make chance look rarer than it is.
    first_N = np.unique(group_N, return_index=True)[1][group_N]
    unit_N = np.arange(len(group_N))
    if (category_N == category_N[first_N]).all():
        unit_N = group_N
    category_U = category_N[np.unique(unit_N, return_index=True)[1]]
    for _ in range(PERMUTATIONS):
        other_N = rng.permutation(category_U)[unit_N]
        if _skill(value_NK, other_N, group_N, is_number=is_number) >= skill:
            return True
    return False
