"""What rivals leave of a score: predictions within the levels of a column, or of a number.

`aam.data.confounding` says how well a rival alone predicts a target. Here the held-out predictions
of the leading method are asked what they say beyond it: a method that learned the sex of a person
and nothing else is as good as guessing among women, and among men.

Shape suffixes: N samples, L levels, K classes (1 where a number is predicted), C cells (pairs of a
level and a class), U units.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from aam.data.confounding import (
    CHANCE,
    Levels,
    Observed,
    RivalScore,
    measure_alone,
    predict_numbers,
    rank_numbers,
    sum_by,
)
from aam.data.predictions import class_names, class_probabilities, numbers
from aam.evaluate.comparison import DEPENDENCE
from aam.evaluate.task_report import Rival, WithinLevels

LEAST_SHRINKAGE = 0.1
"""Share of its skill that a score has to lose within levels to be called smaller."""
ERRORS = 1.96
"""Standard errors beyond which a score is smaller."""
MOST_UNITS = 1000
"""Units that are left out one at a time for a standard error; more are joined."""
TINY = 1e-9
"""Share of an error below which it is rounding."""
STEPS = 50
"""Most steps that take means of levels and folds off in turn."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def measure_rivals(
    observed: Observed,
    predictions: pd.DataFrame,
    rivals: Sequence[Levels],
    *,
    skill: float,
    seed: int,
) -> tuple[Rival, ...]:
    """Return what each rival alone says of a target, and what it leaves of the predictions.

    Parameters
    ----------
    observed
        The target of the scored samples.
    predictions
        Held-out predictions of the leading method, a row per sample in the order of `observed`.
    rivals
        Levels of the same samples.
    skill
        That of the predictions: `aam.evaluate.task_report.Guessing.skill`.
    seed
        Seed of the permutations.

    Returns
    -------
    tuple of Rival
        The best first. Only those that predict, or do so nearly exactly, are looked into further.
        Tests within levels are not corrected for their number: a small p-value speaks for the
        predictions, and each has to stand against every rival.
    """
    no_level_N = np.zeros(len(observed.fold_N), np.int64)
    p_of_all = p_within(observed, predictions, no_level_N)
    found = []
    for rival, alone in zip(rivals, measure_alone(observed, rivals, seed=seed), strict=False):
        within = None
        if alone.predicts or alone.exactness is not None:
            within = score_within(observed, predictions, rival.level_N)
        found.append(
            Rival(
                name=alone.name,
                role=alone.role,
                score=alone.score,
                guessing=alone.guessing,
                exactness=alone.exactness,
                p=alone.p,
                within=within,
                left=_judge(alone, within, skill=skill, p=p_of_all),
            )
        )
    sign = 1 if observed.is_number else -1
    return tuple(sorted(found, key=lambda rival: (sign * rival.score, rival.name)))


def _judge(
    alone: RivalScore, within: WithinLevels | None, *, skill: float, p: float
) -> Literal["nothing", "less", "all"]:
    """Return what a rival leaves of a score.

    Parameters
    ----------
    alone
        How well it predicts.
    within
        How well the leading method predicts within its levels.
    skill, p
        Skill of the leading method on all samples, and the p-value of its predictions.
    """
    # A plate that predicts the classes of six people is a confounder, by chance or by design.
    is_known = alone.exactness is not None and (alone.predicts or alone.role == "technical")
    # Predictions that say nothing at all cannot lose it to a rival.
    if not is_known and not (alone.predicts and p < CHANCE):
        return "all"
    is_left = within is not None and within.p < CHANCE
    is_smaller = within is not None and _is_smaller(within, skill)
    if not is_left and (is_known or is_smaller):
        # Richness is of the reads themselves: it is a simpler answer, not another explanation.
        return "less" if alone.role == "richness" else "nothing"
    is_as_good = alone.skill >= skill
    return "less" if is_known or is_smaller or is_as_good or not is_left else "all"


def _is_smaller(within: WithinLevels, skill: float) -> bool:
    """Return whether a score is smaller within levels, by more than its error."""
    enough = within.shrinkage > LEAST_SHRINKAGE * skill
    return enough and within.shrinkage > ERRORS * within.error


def score_within(
    observed: Observed, predictions: pd.DataFrame, level_N: Codes
) -> WithinLevels | None:
    """Score predictions within levels, against guessing that knows the level.

    Parameters
    ----------
    observed, predictions
        See `measure_rivals`.
    level_N
        Level of each sample, from 0.

    Returns
    -------
    WithinLevels or None
        None where no level has two classes, each in two units, or samples in two folds. Levels of
        classes count by the inverse of the variance of their balanced accuracy.
    """
    measure = _score_numbers_within if observed.is_number else _score_classes_within
    return measure(observed, predictions, level_N)


def _score_classes_within(
    observed: Observed, predictions: pd.DataFrame, level_N: Codes
) -> WithinLevels | None:
    classes = observed.value_NK.shape[1]
    class_N = observed.value_NK.argmax(axis=1)
    cell_N = level_N * classes + class_N
    cells = (int(level_N.max()) + 1) * classes
    pairs = np.unique(np.stack([cell_N, observed.unit_N]), axis=1)[0]
    is_kept_LK = (np.bincount(pairs, minlength=cells) > 1).reshape(-1, classes)
    is_kept_LK &= is_kept_LK.sum(axis=1, keepdims=True) > 1
    if not is_kept_LK.any():
        return None
    right_N = _is_right(predictions).astype(np.float64)
    kept = np.flatnonzero(is_kept_LK.ravel())
    level_C = kept // classes
    place_N = np.searchsorted(kept, cell_N)
    is_kept_N = is_kept_LK.ravel()[cell_N]
    unit_N = _join_units(observed.unit_N)

    def sums_by_unit(weight_N: Floats, code_N: Codes, codes: int) -> Floats:
        pair_N = unit_N * codes + code_N
        size = (int(unit_N.max()) + 1) * codes
        sum_P = np.bincount(pair_N, weights=weight_N, minlength=size)
        return np.asarray(sum_P, np.float64).reshape(-1, codes)

    kept_code_N = np.where(is_kept_N, place_N, 0)
    size_UC = sums_by_unit(is_kept_N.astype(np.float64), kept_code_N, len(kept))
    right_UC = sums_by_unit(right_N * is_kept_N, kept_code_N, len(kept))
    size_UK = sums_by_unit(np.ones(len(right_N)), class_N, classes)
    right_UK = sums_by_unit(right_N, class_N, classes)
    # The variance of the mean of k recalls is proportional to the sum of 1 / n, over k squared.
    inverse_L = np.bincount(level_C, weights=1.0 / size_UC.sum(axis=0))
    count_L = np.bincount(level_C)
    weight_L = np.where(count_L > 0, count_L**2 / np.where(inverse_L > 0, inverse_L, 1.0), 0.0)
    weight_L = weight_L / weight_L.sum()
    share_C = weight_L[level_C] / count_L[level_C]
    guessing = float(share_C @ (1.0 / count_L[level_C]))

    def skills(right_BC: Floats, size_BC: Floats, right_BK: Floats, size_BK: Floats) -> Floats:
        within_B = (right_BC / np.maximum(size_BC, 1.0)) @ share_C
        all_B = (right_BK / np.maximum(size_BK, 1.0)).mean(axis=1)
        chance = 1.0 / classes
        return (all_B - chance) / (1.0 - chance) - (within_B - guessing) / (1.0 - guessing)

    sums = [right_UC, size_UC, right_UK, size_UK]
    totals = [values.sum(axis=0, keepdims=True) for values in sums]
    left_out = [total - values for total, values in zip(totals, sums, strict=True)]
    return WithinLevels(
        n=int(is_kept_N.sum()),
        levels=len(np.unique(level_C)),
        score=float((totals[0] / totals[1])[0] @ share_C),
        guessing=guessing,
        shrinkage=float(skills(*totals)[0]),
        error=_jackknife_error(skills(*left_out)),
        p=p_within(observed, predictions, level_N),
    )


def _score_numbers_within(
    observed: Observed, predictions: pd.DataFrame, level_N: Codes
) -> WithinLevels | None:
    fold_N = observed.fold_N
    pairs = np.unique(np.stack([level_N, fold_N]), axis=1)[0]
    is_kept_N = (np.bincount(pairs) > 1)[level_N]
    if not is_kept_N.any():
        return None
    scale = _scale(observed)
    value_N = observed.value_NK[:, 0] / scale
    residual_N = value_N - numbers(predictions["predicted"]) / scale
    # A method that is off by as much for all samples of a level still tells them apart.
    error_in_N = np.abs(residual_N - predict_numbers(residual_N, level_N, fold_N))
    guess_in_N = np.abs(value_N - predict_numbers(value_N, level_N, fold_N))
    error_N, guess_N = _errors(observed, predictions)
    weight_N = _fold_weights(fold_N) * is_kept_N
    unit_N = _join_units(observed.unit_N)
    columns_N4 = np.stack([error_N, guess_N, weight_N * error_in_N, weight_N * guess_in_N], axis=1)
    sums_U4 = sum_by(columns_N4, unit_N)

    total_4 = sums_U4.sum(axis=0)
    if not total_4[3] > TINY * total_4[1] > 0:
        # The level says the number exactly: nothing is left to tell apart.
        return None

    def skills(sums_B4: Floats) -> Floats:
        # Without one unit, guessing may be right in all that is left.
        safe_B4 = np.maximum(sums_B4, TINY * total_4)
        return safe_B4[:, 2] / safe_B4[:, 3] - safe_B4[:, 0] / safe_B4[:, 1]

    return WithinLevels(
        n=int(is_kept_N.sum()),
        levels=len(np.unique(level_N[is_kept_N])),
        score=float(total_4[2] / weight_N.sum()) * scale,
        guessing=float(total_4[3] / weight_N.sum()) * scale,
        shrinkage=float(skills(total_4[None])[0]),
        error=_jackknife_error(skills(total_4 - sums_U4)),
        p=p_within(observed, predictions, level_N),
    )


def _errors(observed: Observed, predictions: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return absolute errors of predictions and of guessing, with which every fold counts alike.

    They are in units of the largest number.
    """
    scale = _scale(observed)
    value_N = observed.value_NK[:, 0] / scale
    weight_N = _fold_weights(observed.fold_N)
    guess_N = predict_numbers(value_N, np.zeros_like(observed.fold_N), observed.fold_N)
    error_N = np.abs(value_N - numbers(predictions["predicted"]) / scale)
    return weight_N * error_N, weight_N * np.abs(value_N - guess_N)


def _scale(observed: Observed) -> float:
    """Return the largest number, in units of which sums and squares of any numbers are finite."""
    return float(np.abs(observed.value_NK).max()) or 1.0


def _fold_weights(fold_N: Codes) -> Floats:
    return 1.0 / np.bincount(fold_N)[fold_N]


def _is_right(predictions: pd.DataFrame) -> NDArray[np.bool_]:
    observed_N = predictions["observed"].to_numpy(np.str_)
    return observed_N == predictions["predicted"].to_numpy(np.str_)


def _join_units(unit_N: Codes) -> Codes:
    """Return at most `MOST_UNITS` units, from 0."""
    return unit_N % MOST_UNITS


def _jackknife_error(left_out_U: Floats) -> float:
    """Return the standard error of a statistic by its values without one unit at a time."""
    units = len(left_out_U)
    spread = float(np.square(left_out_U - left_out_U.mean()).sum())
    return math.sqrt((units - 1) / units * spread)


def p_within(observed: Observed, predictions: pd.DataFrame, level_N: Codes) -> float:
    """Return the p-value of no relation between predictions and target within levels, one-sided.

    Means of levels and of folds are taken off the target and off the predictions (ranks of numbers,
    probabilities of classes). What a unit adds to the product of the rest is 0 on average if
    predictions say no more than the level; the sum is compared with its standard error, units as
    units, whose square is `aam.evaluate.comparison.DEPENDENCE` times the sum of squares.

    Parameters
    ----------
    observed, predictions
        See `measure_rivals`.
    level_N
        Level of each sample, from 0.

    Returns
    -------
    float
        1 where nothing is left to compare, or predictions point the other way.
    """
    if observed.is_number:
        target_NK = rank_numbers(observed.value_NK[:, 0])
        guess_NK = rank_numbers(numbers(predictions["predicted"]))
    else:
        names = class_names(predictions)
        guess_NK = class_probabilities(predictions, names)
        observed_N = predictions["observed"].to_numpy(np.str_)
        target_NK = (observed_N[:, None] == np.asarray(names, np.str_)).astype(np.float64)
    rest_NK = _without_means(target_NK, level_N, observed.fold_N)
    guess_rest_NK = _without_means(guess_NK, level_N, observed.fold_N)
    product_N: Floats = (rest_NK * guess_rest_NK).sum(axis=1)
    product_U = np.bincount(observed.unit_N, weights=product_N)
    scale = float(np.abs(target_NK - target_NK.mean(axis=0)).sum() * np.abs(guess_NK).max())
    counted_U = product_U[np.abs(product_U) > 1e-12 * scale]
    if len(counted_U) < 2:
        return 1.0
    statistic = counted_U.sum() / math.sqrt(DEPENDENCE * float(np.square(counted_U).sum()))
    return float(stats.t.sf(statistic, df=len(counted_U) - 1))


def _without_means(value_NK: Floats, level_N: Codes, fold_N: Codes) -> Floats:
    """Return what is left when means of levels and of folds are taken off in turn."""
    rest_NK: Floats = value_NK - value_NK.mean(axis=0)
    scale = float(np.abs(rest_NK).max()) or 1.0
    for _ in range(STEPS):
        before_NK = rest_NK
        for code_N in (level_N, fold_N):
            size_C = np.maximum(np.bincount(code_N), 1)
            mean_CK = sum_by(rest_NK, code_N) / size_C[:, None]
            rest_NK = rest_NK - mean_CK[code_N]
        if np.abs(rest_NK - before_NK).max() < 1e-9 * scale:
            break
    return rest_NK
