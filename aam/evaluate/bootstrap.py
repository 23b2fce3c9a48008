"""95 % intervals of the scores by resampling samples, or whole groups of them.

The percentile bootstrap of few groups is too narrow: with ten of them it covers 84 to 88 %. The
intervals here are t intervals with the standard error of the bootstrap, on a scale on which the
score has no bound. Standard error and degrees of freedom follow the effective number of groups
(Kish 1965), which is smaller than their number where groups differ in size or a class is rare.
`python -m benchmarks.coverage` shows what they cover.

Efron, B. & Tibshirani, R. (1993), An Introduction to the Bootstrap, chapters 6, 12 and 13.
Hesterberg, T. (2015), What teachers should know about the bootstrap, Am. Stat. 69:371.
Kish, L. (1965), Survey Sampling, section 11.7.
Shape suffixes: B resamples, N samples, U units that are drawn, C classes, T distinct scores.
"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from aam.data.predictions import class_codes, class_names, class_probabilities, numbers
from aam.evaluate.structure import unit_codes

RESAMPLES = 2000
"""Resamples of an interval."""
LEVEL = 0.95
"""Level of an interval."""
LEAST_UNITS = 10
"""Groups, or samples without groups, below which there is no interval."""
LEAST_EFFECTIVE = 2.0
"""Effective number of groups below which there is no interval: one group decides the score."""
BLOCK = 4_000_000
"""Weights that are held at once."""

LIMITS = {
    "mae_fold_mean": (0.0, math.inf),
    "mae_pooled": (0.0, math.inf),
    "r2_pooled": (-math.inf, 1.0),
    "pearson": (-1.0, 1.0),
    "accuracy": (0.0, 1.0),
    "balanced_accuracy": (0.0, 1.0),
    "macro_f1": (0.0, 1.0),
    "mcc": (-1.0, 1.0),
    "roc_auc": (0.0, 1.0),
    "mae_ranks": (0.0, math.inf),
    "quadratic_kappa": (-1.0, 1.0),
}
"""Least and largest value of each score that has an interval. RMSE has none: a few large errors
decide it, so that few groups do not tell how much it varies."""

Resampled = dict[str, NDArray[np.float64]]


def bootstrap_intervals(
    kind: str, predictions: pd.DataFrame, groups: ArrayLike, seed: int
) -> dict[str, list[float] | None]:
    """Return the 95 % interval of each score that has one.

    The models are not trained again: an interval shows what other samples of the same kind would
    change.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target by one method, a row per sample of fold 0 and above.
    groups
        Group of each row, [N]; a row with "" is drawn by itself.
    seed
        Seed of the draws.

    Returns
    -------
    dict
        `[low, high]` by score. None with fewer than `LEAST_UNITS` groups (or samples), where a
        class occurs in a single group, where groups are so unequal that they count as fewer than
        `LEAST_EFFECTIVE`, and for a score that is at its bound or the same in all resamples.
    """
    unit_N = unit_codes(groups)
    units = effective_units(kind, predictions, unit_N)
    scores = resampled_scores(kind, predictions, np.ones((1, len(predictions))))
    if units is None:
        return dict.fromkeys(scores)
    blocks = [
        resampled_scores(kind, predictions, weight_BN)
        for weight_BN in resampled_weights(unit_N, RESAMPLES, seed)
    ]
    intervals: dict[str, list[float] | None] = dict.fromkeys(scores)
    for name, score in scores.items():
        if name in LIMITS:
            resampled_B = np.concatenate([block[name] for block in blocks])
            intervals[name] = t_interval(
                float(score[0]), resampled_B, units=units, limits=LIMITS[name]
            )
    return intervals


def effective_units(
    kind: str, predictions: pd.DataFrame, unit_N: NDArray[np.int64]
) -> float | None:
    """Return how many equal groups the groups of the samples are worth.

    That is (sum of u)^2 / sum of u^2 over the groups, where u is the number of samples of a group
    (Kish's effective sample size). A sample of a class counts by the squared inverse of how
    frequent its class is, which is its share in the variance of a mean of recalls.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target, of which `observed` is used.
    unit_N
        Group of each row, as `aam.evaluate.structure.unit_codes` returns it.

    Returns
    -------
    float or None
        None where there are too few groups, where they are worth fewer than `LEAST_EFFECTIVE`, or
        where a class occurs in a single group.
    """
    count = int(unit_N.max()) + 1
    share_N = np.ones(len(unit_N))
    if kind != "regression":
        names, code_N, size_C = np.unique(
            predictions["observed"].to_numpy(np.str_), return_inverse=True, return_counts=True
        )
        cells = np.unique(np.stack([code_N, unit_N]), axis=1)
        if np.bincount(cells[0], minlength=len(names)).min() < 2:
            return None
        share_N = 1.0 / size_C[code_N] ** 2
    share_U = np.bincount(unit_N, weights=share_N)
    effective = float(share_U.sum() ** 2 / (share_U**2).sum())
    return effective if count >= LEAST_UNITS and effective >= LEAST_EFFECTIVE else None


def t_interval(
    score: float, resampled_B: NDArray[np.float64], *, units: float, limits: tuple[float, float]
) -> list[float] | None:
    """Return the t interval of a score on a scale on which it has no bound.

    A score x between a and b is taken as log((x - a) / (b - x)), without the part of a bound that
    is infinite: the logarithm of an error, the logit of an accuracy. The standard error is that of
    the resampled scores times the derivative of this scale.

    Parameters
    ----------
    score
        The score of all samples.
    resampled_B
        The score in each resample, NaN where undefined.
    units
        Effective number of groups n: the variance is multiplied by n / (n - 1), and the t
        distribution has n - 1 degrees of freedom.
    limits
        Least and largest value of the score.

    Returns
    -------
    list or None
        `[low, high]`; None for a score that is undefined, at a limit, undefined in more than half
        of the resamples, or the same in all.
    """
    low, high = limits
    defined = resampled_B[np.isfinite(resampled_B)]
    if not low < score < high or len(defined) < len(resampled_B) / 2:
        return None
    # A score that is the same in all resamples, but for rounding, has no interval.
    error = float(defined.std()) * math.sqrt(units / (units - 1))
    if error <= 1e-9 * abs(score):
        return None
    derivative = 1 / (score - low) + 1 / (high - score)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, df=units - 1)) * error * derivative
    ends = [_moved(score, step, limits) for step in (-reach, reach)]
    return ends if np.isfinite(ends).all() else None


def _moved(score: float, step: float, limits: tuple[float, float]) -> float:
    """Return the score that lies a step away on the scale without bounds."""
    low, high = limits
    with np.errstate(over="ignore"):
        factor = float(np.exp(step))
    if math.isinf(high):
        return low + (score - low) * factor
    if math.isinf(low):
        return high - (high - score) / factor
    share = 1 / (1 + (high - score) / (score - low) / factor)
    return low + (high - low) * share


def resampled_weights(
    unit_N: NDArray[np.int64], resamples: int, seed: int
) -> Iterator[NDArray[np.float64]]:
    """Yield how often each row is in each resample of as many units as there are.

    Parameters
    ----------
    unit_N
        Unit of each row, from 0.
    resamples
        Number of resamples.
    seed
        Seed of the draws.

    Yields
    ------
    numpy.ndarray
        A block of resamples, float64 [B, N].
    """
    rng = np.random.default_rng(seed)
    units = int(unit_N.max()) + 1
    block = max(1, BLOCK // len(unit_N))
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        # Each resample gets a range of numbers of its own, so that one count serves them all.
        drawn = rng.integers(0, units, (size, units)) + units * np.arange(size)[:, None]
        count_BU = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)
        yield count_BU[:, unit_N].astype(np.float64)


def resampled_scores(
    kind: str, predictions: pd.DataFrame, weight_BN: NDArray[np.float64]
) -> Resampled:
    """Return the scores of samples that count more or less often.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target by one method, a row per sample.
    weight_BN
        How often each sample counts, in each resample. A fold counts in `mae_fold_mean` by how much
        of it was drawn.

    Returns
    -------
    dict
        [B] by score; NaN where undefined, a balanced accuracy for instance where none of a class
        was drawn.
    """
    if kind == "regression":
        return _scores_of_numbers(predictions, weight_BN)
    classes = class_names(predictions)
    truth = class_codes(predictions["observed"], classes)
    guess = class_codes(predictions["predicted"], classes)
    shares_NC = class_probabilities(predictions, classes)
    scores = _scores_of_classes(truth, guess, len(classes), weight_BN, ordinal=kind == "ordinal")
    areas = [_area(truth == k, shares_NC[:, k], weight_BN) for k in range(len(classes))]
    return {**scores, "roc_auc": np.mean(areas, axis=0)}


def _scores_of_numbers(predictions: pd.DataFrame, weight_BN: NDArray[np.float64]) -> Resampled:
    """Return the scores of predicted numbers.

    Sums run over the n samples of a resample, with t the observed numbers, g the predicted ones
    and e their difference. The spread of t is sum t^2 - (sum t)^2 / n, likewise that of g. R2 is
    1 - sum e^2 over the spread of t. Pearson's r is (sum t g - sum t sum g / n) over the root of
    the product of the two spreads.
    """
    truth_N = numbers(predictions["observed"])
    guess_N = numbers(predictions["predicted"])
    error_N = np.abs(truth_N - guess_N)
    _, code_N, sizes = np.unique(predictions["fold"], return_inverse=True, return_counts=True)
    in_fold_N = 1 / sizes[code_N]
    # Sums of squares of centred numbers keep their digits.
    centred_N = truth_N - truth_N.mean()
    guessed_N = guess_N - guess_N.mean()

    def total(value_N: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(weight_BN @ value_N)

    count = weight_BN.sum(axis=1)
    sum_truth = total(centred_N)
    sum_guess = total(guessed_N)
    squares_truth = total(centred_N**2)
    squares_guess = total(guessed_N**2)
    spread_truth = _positive(squares_truth - sum_truth**2 / count, squares_truth)
    spread_guess = _positive(squares_guess - sum_guess**2 / count, squares_guess)
    shared = total(centred_N * guessed_N) - sum_truth * sum_guess / count
    return {
        "mae_fold_mean": total(in_fold_N * error_N) / total(in_fold_N),
        "mae_pooled": total(error_N) / count,
        "rmse_pooled": np.sqrt(total(error_N**2) / count),
        "r2_pooled": 1 - total(error_N**2) / spread_truth,
        "pearson": shared / np.sqrt(spread_truth * spread_guess),
    }


def _positive(spread: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums of squares, NaN where nothing but rounding is left of them."""
    return np.where(spread > 1e-12 * scale, spread, np.nan)


def _scores_of_classes(
    truth: NDArray[np.int64],
    guess: NDArray[np.int64],
    classes: int,
    weight_BN: NDArray[np.float64],
    *,
    ordinal: bool,
) -> Resampled:
    """Return the scores that depend on the counts of observed and predicted classes alone.

    MCC is the multiclass correlation of Gorodkin (2004), kappa that of Cohen (1968) with squared
    steps as weights.

    Parameters
    ----------
    truth, guess
        Codes of the observed and of the predicted classes, [N].
    classes
        Number C of classes.
    weight_BN
        How often each sample counts, in each resample.
    ordinal
        Whether the classes have an order, so that errors have sizes.
    """
    rows = np.arange(len(truth))
    # One product gives the confusion matrices of all resamples.
    cell = scipy.sparse.csr_array(
        (np.ones(len(truth)), (rows, truth * classes + guess)), shape=(len(truth), classes**2)
    )
    count_BCC = (weight_BN @ cell).reshape(-1, classes, classes)
    right_BC = np.einsum("bii->bi", count_BCC)
    seen_BC = count_BCC.sum(axis=2)
    said_BC = count_BCC.sum(axis=1)
    n_B = seen_BC.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        recall_BC = right_BC / seen_BC
        f1_BC = 2 * right_BC / (seen_BC + said_BC)
        chance = (seen_BC * said_BC).sum(axis=1)
        spread = (n_B**2 - (seen_BC**2).sum(axis=1)) * (n_B**2 - (said_BC**2).sum(axis=1))
        mcc = (right_BC.sum(axis=1) * n_B - chance) / np.sqrt(spread)
        scores = {
            "accuracy": right_BC.sum(axis=1) / n_B,
            "balanced_accuracy": recall_BC[:, np.unique(truth)].mean(axis=1),
            "macro_f1": np.nanmean(f1_BC, axis=1),
            "mcc": np.where(spread > 0, mcc, 0.0),
        }
        if ordinal:
            step_CC = np.abs(np.subtract.outer(np.arange(classes), np.arange(classes)))
            by_chance = np.einsum("bi,bj,ij->b", seen_BC, said_BC, step_CC**2) / n_B
            scores["mae_ranks"] = np.einsum("bij,ij->b", count_BCC, step_CC) / n_B
            squares = np.einsum("bij,ij->b", count_BCC, step_CC**2)
            scores["quadratic_kappa"] = 1 - squares / by_chance
    return scores


def _area(
    is_class: NDArray[np.bool_], share_N: NDArray[np.float64], weight_BN: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the area under the ROC curve [B]: ties count half, NaN without both sides."""
    order = np.argsort(share_N, kind="stable")
    starts = np.unique(share_N[order], return_index=True)[1]
    sorted_BN = weight_BN[:, order]
    inside_BT = np.add.reduceat(sorted_BN * is_class[order], starts, axis=1)
    outside_BT = np.add.reduceat(sorted_BN * ~is_class[order], starts, axis=1)
    # A pair of equal probabilities counts half.
    below_BT = outside_BT.cumsum(axis=1) - outside_BT / 2
    with np.errstate(invalid="ignore"):
        pairs = inside_BT.sum(axis=1) * outside_BT.sum(axis=1)
        return (inside_BT * below_BT).sum(axis=1) / pairs
