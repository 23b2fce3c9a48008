"""95 % intervals of the scores by resampling samples, or whole groups of them.

The percentile bootstrap of few groups is too narrow: with ten of them it covers 84 to 88 %. The
intervals here are t intervals with the standard error of the bootstrap, on a scale on which the
score has no bound. Standard error and degrees of freedom follow the effective number of groups
(Kish 1965), which is smaller than their number where groups differ in size or a class is rare.
`python -m benchmarks.coverage` shows what they cover.

Efron, B. & Tibshirani, R. (1993), An Introduction to the Bootstrap, chapters 6, 12 and 13.
Hesterberg, T. (2015), What teachers should know about the bootstrap, Am. Stat. 69:371.
Kish, L. (1965), Survey Sampling, section 11.7.
Shape suffixes: B resamples, N samples, U units that are drawn, C classes, T distinct probabilities.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from aam.data.predictions import class_codes, class_names, class_probabilities, numbers
from aam.evaluate.structure import LEAST_UNITS, unit_codes

RESAMPLES = 2000
"""Resamples of an interval."""
LEVEL = 0.95
"""Level of an interval."""
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

Floats = NDArray[np.float64]
Resampled = dict[str, Floats]
"""Scores of all resamples, [B] by name."""


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
    share_N = np.ones(len(unit_N))
    if kind != "regression":
        observed_N = predictions["observed"].to_numpy(np.str_)
        _, class_N, size_C = np.unique(observed_N, return_inverse=True, return_counts=True)
        if _units_by_class(class_N, unit_N).min() < 2:
            return None
        share_N = 1.0 / size_C[class_N] ** 2
    share_U = np.bincount(unit_N, weights=share_N)
    effective = float(share_U.sum() ** 2 / (share_U**2).sum())
    if len(share_U) < LEAST_UNITS or effective < LEAST_EFFECTIVE:
        return None
    return effective


def _units_by_class(class_N: NDArray[np.int64], unit_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return in how many units each class occurs, [C]."""
    pairs = np.unique(np.stack([class_N, unit_N]), axis=1)
    return np.bincount(pairs[0])


def t_interval(
    score: float, resampled_B: Floats, *, units: float, limits: tuple[float, float]
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
    # Where one sample decides a score, an end may lie beyond all numbers.
    derivative = 1 / (score - low) + 1 / (high - score)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, df=units - 1)) * error * derivative
    ends = [_shift(score, step, limits) for step in (-reach, reach)]
    return ends if np.isfinite(ends).all() else None


def _shift(score: float, step: float, limits: tuple[float, float]) -> float:
    """Return the score that lies a step away on the scale without bounds."""
    low, high = limits
    # The factor is 0 or infinite where the step is too large for a number. NumPy divides by it.
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        factor = np.exp(np.float64(step))
        if math.isinf(high):
            return float(low + (score - low) * factor)
        if math.isinf(low):
            return float(high - (high - score) / factor)
        share = 1 / (1 + (high - score) / (score - low) / factor)
        return float(low + (high - low) * share)


def resampled_weights(unit_N: NDArray[np.int64], resamples: int, seed: int) -> Iterator[Floats]:
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


def resampled_scores(kind: str, predictions: pd.DataFrame, weight_BN: Floats) -> Resampled:
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
        return _score_numbers(predictions, weight_BN)
    return _score_classes(predictions, weight_BN, is_ordinal=kind == "ordinal")


def _score_numbers(predictions: pd.DataFrame, weight_BN: Floats) -> Resampled:
    """Return the scores of predicted numbers."""
    truth_N = numbers(predictions["observed"])
    guess_N = numbers(predictions["predicted"])
    error_N = np.abs(truth_N - guess_N)
    fold_weight_N = _weights_of_equal_folds(predictions["fold"])
    count_B = weight_BN.sum(axis=1)
    squared_error_B = weight_BN @ error_N**2
    spread = _Spread.measure(truth_N, guess_N, weight_BN)
    return {
        "mae_fold_mean": (weight_BN @ (fold_weight_N * error_N)) / (weight_BN @ fold_weight_N),
        "mae_pooled": (weight_BN @ error_N) / count_B,
        "rmse_pooled": np.sqrt(squared_error_B / count_B),
        "r2_pooled": 1 - squared_error_B / spread.truth_B,
        "pearson": spread.shared_B / np.sqrt(spread.truth_B * spread.guess_B),
    }


def _weights_of_equal_folds(fold: pd.Series) -> Floats:
    """Return one over the size of each sample's fold, [N]: with them every fold counts alike."""
    _, code_N, size_F = np.unique(fold, return_inverse=True, return_counts=True)
    return 1 / size_F[code_N]


@dataclass(frozen=True, eq=False)
class _Spread:
    """How much numbers and their predictions vary in each resample, as sums over its samples.

    Attributes
    ----------
    truth_B, guess_B
        Sum of squared differences from the mean, of observed and predicted numbers; NaN where all
        are the same.
    shared_B
        Sum of the products of both differences.
    """

    truth_B: Floats
    guess_B: Floats
    shared_B: Floats

    @classmethod
    def measure(cls, truth_N: Floats, guess_N: Floats, weight_BN: Floats) -> "_Spread":
        """Return the spread of samples that count as often as their weights say."""
        # Sums of squares of numbers that are far from 0 would lose their digits.
        truth_N = truth_N - truth_N.mean()
        guess_N = guess_N - guess_N.mean()
        count_B = weight_BN.sum(axis=1)
        truth_sum_B = weight_BN @ truth_N
        guess_sum_B = weight_BN @ guess_N
        truth_squares_B = weight_BN @ truth_N**2
        guess_squares_B = weight_BN @ guess_N**2
        products_B = weight_BN @ (truth_N * guess_N)
        return cls(
            truth_B=_above_rounding(truth_squares_B - truth_sum_B**2 / count_B, truth_squares_B),
            guess_B=_above_rounding(guess_squares_B - guess_sum_B**2 / count_B, guess_squares_B),
            shared_B=products_B - truth_sum_B * guess_sum_B / count_B,
        )


def _above_rounding(spread_B: Floats, squares_B: Floats) -> Floats:
    """Return sums of squares, NaN where nothing but rounding is left of them."""
    return np.where(spread_B > 1e-12 * squares_B, spread_B, np.nan)


def _score_classes(predictions: pd.DataFrame, weight_BN: Floats, *, is_ordinal: bool) -> Resampled:
    """Return the scores of predicted classes and of their probabilities."""
    classes = class_names(predictions)
    truth_N = class_codes(predictions["observed"], classes)
    guess_N = class_codes(predictions["predicted"], classes)
    share_NC = class_probabilities(predictions, classes)
    count_BCC = _count_pairs(truth_N, guess_N, len(classes), weight_BN)
    scores = _score_counts(count_BCC, occurring=np.unique(truth_N))
    if is_ordinal:
        scores |= _score_steps(count_BCC)
    areas = [
        _roc_area(truth_N == code, share_NC[:, code], weight_BN) for code in range(len(classes))
    ]
    return {**scores, "roc_auc": np.mean(areas, axis=0)}


def _count_pairs(
    truth_N: NDArray[np.int64], guess_N: NDArray[np.int64], classes: int, weight_BN: Floats
) -> Floats:
    """Return the confusion matrix of each resample, [B, C, C]: observed, then predicted class."""
    # One product with a matrix that has a column per pair of classes gives all of them.
    rows = np.arange(len(truth_N))
    columns = truth_N * classes + guess_N
    is_pair = scipy.sparse.csr_array(
        (np.ones(len(truth_N)), (rows, columns)), shape=(len(truth_N), classes**2)
    )
    return (weight_BN @ is_pair).reshape(-1, classes, classes)


def _score_counts(count_BCC: Floats, occurring: NDArray[np.int64]) -> Resampled:
    """Return the scores that confusion matrices hold, whatever the order of the classes.

    MCC is the multiclass correlation of Gorodkin (2004). `occurring` are the codes of the classes
    that are observed at all.
    """
    right_BC = np.einsum("bii->bi", count_BCC)
    observed_BC = count_BCC.sum(axis=2)
    predicted_BC = count_BCC.sum(axis=1)
    samples_B = observed_BC.sum(axis=1)
    right_B = right_BC.sum(axis=1)
    # A resample may lack a class, or consist of one alone.
    with np.errstate(invalid="ignore", divide="ignore"):
        recall_BC = right_BC / observed_BC
        f1_BC = 2 * right_BC / (observed_BC + predicted_BC)
        chance_B = (observed_BC * predicted_BC).sum(axis=1)
        observed_spread_B = samples_B**2 - (observed_BC**2).sum(axis=1)
        predicted_spread_B = samples_B**2 - (predicted_BC**2).sum(axis=1)
        spread_B = observed_spread_B * predicted_spread_B
        mcc_B = (right_B * samples_B - chance_B) / np.sqrt(spread_B)
        return {
            "accuracy": right_B / samples_B,
            "balanced_accuracy": recall_BC[:, occurring].mean(axis=1),
            "macro_f1": np.nanmean(f1_BC, axis=1),
            "mcc": np.where(spread_B > 0, mcc_B, 0.0),
        }


def _score_steps(count_BCC: Floats) -> Resampled:
    """Return the scores of classes with an order, whose errors have sizes.

    Kappa is that of Cohen (1968) with squared steps as weights.
    """
    classes = count_BCC.shape[1]
    observed_BC = count_BCC.sum(axis=2)
    predicted_BC = count_BCC.sum(axis=1)
    samples_B = observed_BC.sum(axis=1)
    step_CC = np.abs(np.subtract.outer(np.arange(classes), np.arange(classes)))
    steps_B = np.einsum("bij,ij->b", count_BCC, step_CC)
    squares_B = np.einsum("bij,ij->b", count_BCC, step_CC**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        chance_B = np.einsum("bi,bj,ij->b", observed_BC, predicted_BC, step_CC**2) / samples_B
        return {
            "mae_ranks": steps_B / samples_B,
            "quadratic_kappa": 1 - squares_B / chance_B,
        }


def _roc_area(is_class_N: NDArray[np.bool_], share_N: Floats, weight_BN: Floats) -> Floats:
    """Return the area under the ROC curve of a class, [B]; NaN without the class or any other.

    That is the fraction of pairs, of a sample of the class and another one, in which the sample of
    the class has the higher probability. A pair of equal probabilities counts half.
    """
    order_N = np.argsort(share_N, kind="stable")
    first_T = np.unique(share_N[order_N], return_index=True)[1]
    sorted_BN = weight_BN[:, order_N]
    inside_BT = np.add.reduceat(sorted_BN * is_class_N[order_N], first_T, axis=1)
    outside_BT = np.add.reduceat(sorted_BN * ~is_class_N[order_N], first_T, axis=1)
    below_BT = outside_BT.cumsum(axis=1) - outside_BT / 2
    with np.errstate(invalid="ignore"):
        pairs_B = inside_BT.sum(axis=1) * outside_BT.sum(axis=1)
        return (inside_BT * below_BT).sum(axis=1) / pairs_B
