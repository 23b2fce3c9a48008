"""Percentile intervals of the headline scores by resampling samples, or whole groups of them.

Efron, B. & Tibshirani, R. (1993), An Introduction to the Bootstrap, chapter 13.
Shape suffixes: B resamples, N samples, U units that are drawn, C classes, T distinct scores.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from aam.evaluate.predictions import class_codes, class_names, class_probabilities, numbers

RESAMPLES, LEVEL, UNITS = 2000, 0.95, 6
"""Resamples; level; least units: five lie all on one side of the median in 1 of 16 draws."""
BLOCK = 4_000_000
"""Weights that are held at once."""

Resampled = dict[str, NDArray[np.float64]]


def bootstrap_intervals(
    kind: str, predictions: pd.DataFrame, groups: ArrayLike, seed: int
) -> dict[str, list[float] | None]:
    """Return the percentile interval [low, high] of each score of `resampled_scores`, by name.

    None: of fewer than `UNITS` groups, or undefined in more than half of the resamples. The models
    are not trained again. A group of rows, [N], is drawn as a whole, a row with "" by itself.
    """
    names = [f"group {g}" if g else f"row {i}" for i, g in enumerate(np.asarray(groups).tolist())]
    unit_N = np.unique(names, return_inverse=True)[1]
    parts = [resampled_scores(kind, predictions, weight_BN) for weight_BN in _weights(unit_N, seed)]
    intervals: dict[str, list[float] | None] = {}
    for name in parts[0]:
        values = np.concatenate([part[name] for part in parts])
        values = values[np.isfinite(values)]
        enough = len(values) >= RESAMPLES / 2 and unit_N.max() + 1 >= UNITS
        ends = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
        intervals[name] = [float(x) for x in np.quantile(values, ends)] if enough else None
    return intervals


def resampled_scores(
    kind: str, predictions: pd.DataFrame, weight_BN: NDArray[np.float64]
) -> Resampled:
    """Return the headline scores of samples that count as often as `weight_BN` says, [B] each.

    NaN where undefined. A fold counts in `mae_fold_mean` by how much of it was drawn.
    """
    if kind == "regression":
        return _of_numbers(predictions, weight_BN)
    classes = class_names(predictions)
    truth = class_codes(predictions["observed"], classes)
    guess = class_codes(predictions["predicted"], classes)
    shares_NC = class_probabilities(predictions, classes)
    scores = _of_confusion(truth, guess, len(classes), weight_BN, ordinal=kind == "ordinal")
    areas = [_area(truth == k, shares_NC[:, k], weight_BN) for k in range(len(classes))]
    return {**scores, "roc_auc": np.mean(areas, axis=0)}


def _weights(unit_N: NDArray[np.int64], seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield blocks [B, N]: how often each row is in each resample of as many units as there are."""
    rng, units = np.random.default_rng(seed), int(unit_N.max()) + 1
    block = max(1, BLOCK // len(unit_N))
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        drawn = rng.integers(0, units, (size, units)) + units * np.arange(size)[:, None]
        count_BU = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)
        yield count_BU[:, unit_N].astype(np.float64)


def _of_numbers(predictions: pd.DataFrame, weight_BN: NDArray[np.float64]) -> Resampled:
    truth, guess = numbers(predictions["observed"]), numbers(predictions["predicted"])
    error = np.abs(truth - guess)
    _, code, sizes = np.unique(predictions["fold"], return_inverse=True, return_counts=True)
    in_fold = 1 / sizes[code]
    # Sums of squares of centred numbers keep their digits.
    t, g = truth - truth.mean(), guess - guess.mean()
    one = np.ones_like(t)
    sums = [one, error, error**2, in_fold, in_fold * error, t, t * t, g, g * g, t * g]
    n, e, ee, f, fe, st, stt, sg, sgg, stg = (weight_BN @ np.stack(sums, axis=1)).T
    spread_t, spread_g = _positive(stt - st**2 / n, stt), _positive(sgg - sg**2 / n, sgg)
    return {
        "mae_fold_mean": fe / f,
        "mae_pooled": e / n,
        "rmse_pooled": np.sqrt(ee / n),
        "r2_pooled": 1 - ee / spread_t,
        "pearson": (stg - st * sg / n) / np.sqrt(spread_t * spread_g),
    }


def _positive(spread: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums of squares, NaN where nothing but rounding is left of them."""
    return np.where(spread > 1e-12 * scale, spread, np.nan)


def _of_confusion(
    truth: NDArray[np.int64],
    guess: NDArray[np.int64],
    classes: int,
    weight_BN: NDArray[np.float64],
    *,
    ordinal: bool,
) -> Resampled:
    """Return the scores that depend on the counts of observed and predicted classes alone."""
    rows = np.arange(len(truth))
    cell = scipy.sparse.csr_array(
        (np.ones(len(truth)), (rows, truth * classes + guess)), shape=(len(truth), classes**2)
    )
    count_BCC = (weight_BN @ cell).reshape(-1, classes, classes)
    right_BC = np.einsum("bii->bi", count_BCC)
    seen_BC, said_BC = count_BCC.sum(axis=2), count_BCC.sum(axis=1)
    n_B = seen_BC.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        recall_BC, f1_BC = right_BC / seen_BC, 2 * right_BC / (seen_BC + said_BC)
        chance = (seen_BC * said_BC).sum(axis=1)
        spread = (n_B**2 - (seen_BC**2).sum(axis=1)) * (n_B**2 - (said_BC**2).sum(axis=1))
        mcc = (right_BC.sum(axis=1) * n_B - chance) / np.sqrt(spread)
        scores = {
            "accuracy": right_BC.sum(axis=1) / n_B,
            "balanced_accuracy": np.nanmean(recall_BC, axis=1),
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
    below_BT = outside_BT.cumsum(axis=1) - outside_BT / 2
    with np.errstate(invalid="ignore"):
        pairs = inside_BT.sum(axis=1) * outside_BT.sum(axis=1)
        return (inside_BT * below_BT).sum(axis=1) / pairs
