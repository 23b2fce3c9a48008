"""A model against a baseline by paired tests on the same folds."""

from collections.abc import Mapping
from itertools import accumulate

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from aam.evaluate.metrics import fold_scores
from aam.evaluate.predictions import numbers

Comparison = dict[str, float | int | None]


def compare(kind: str, own: pd.DataFrame, other: pd.DataFrame, *, independent: bool) -> Comparison:
    """Compare two tables of predictions of the same samples and folds, in any order.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    own, other
        Predictions of one target by two methods.
    independent
        Whether no two samples share a group (`aam.evaluate.structure`): only then tests over
        samples are made.

    Returns
    -------
    dict
        `difference` is own less other mean of `fold_scores`, `folds_won` the fraction of folds in
        which own is the better. The tests are two-sided, None where undefined.
    """
    own = own.set_index("sample-id")
    other = other.set_index("sample-id").reindex(own.index)
    assert (own["fold"] == other["fold"]).all(), "predictions of other samples or folds"
    fold = own["fold"].to_numpy()
    regression = kind == "regression"
    values = numbers if regression else np.asarray
    truth = values(own["observed"])
    guess = values(own["predicted"])
    other_truth = values(other["observed"])
    other_guess = values(other["predicted"])
    score_of_own = fold_scores(kind, truth, guess, fold)
    score_of_other = fold_scores(kind, other_truth, other_guess, fold)
    difference = score_of_own - score_of_other
    result: Comparison = {
        "folds": len(difference),
        "difference": float(difference.mean()),
        "folds_won": float((difference < 0 if regression else difference > 0).mean()),
        "corrected_t_p": corrected_resampled_t(difference, _sizes(fold)),
        "wilcoxon_folds_p": _signed_rank(difference),
    }
    if not independent:
        return result
    if regression:
        error = np.abs(truth - guess)
        other_error = np.abs(other_truth - other_guess)
        return {**result, "wilcoxon_samples_p": _signed_rank(error - other_error)}
    is_right = truth == guess
    other_is_right = other_truth == other_guess
    return {**result, "mcnemar_p": _mcnemar(is_right, other_is_right)}


def compare_with_guessing(kind: str, predictions: pd.DataFrame) -> Comparison:
    """Compare the headline score of predictions with what guessing reaches.

    Guessing is right for one in K samples of each of K classes: its balanced accuracy is 1/K. The
    majority of the training folds would score below that, as a class is the rarer in training the
    more of it was left out. A number is guessed by the median of the other folds.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target by one method, rows of fold 0 and above.

    Returns
    -------
    dict
        `score` of guessing, `difference` (headline score less that of guessing), and
        `corrected_t_p`: the corrected t-test of what each fold adds to this difference, None where
        undefined. Where every sample is right, folds may have no spread that a test could use: the
        p-value is then the largest that a single wrong sample would give.
    """
    fold = predictions["fold"].to_numpy()
    p = None
    if kind == "regression":
        observed = numbers(predictions["observed"])
        guess = _median_of_other_folds(observed, fold)
        guess_errors = fold_scores(kind, observed, guess, fold)
        difference = fold_scores(kind, observed, predictions["predicted"], fold) - guess_errors
        score = float(guess_errors.mean())
    else:
        truth = predictions["observed"].to_numpy(np.str_)
        is_right = truth == predictions["predicted"].to_numpy(np.str_)
        score = 1 / len(np.unique(truth))
        difference = _gain_by_fold(is_right, truth, fold)
        if is_right.all():
            p = _p_with_one_wrong(truth, fold)
    if p is None:
        p = corrected_resampled_t(difference, _sizes(fold))
    return {"score": score, "difference": float(difference.mean()), "corrected_t_p": p}


def _p_with_one_wrong(truth_N: NDArray[np.str_], fold_N: NDArray[np.int64]) -> float | None:
    """Return the largest p-value that one wrong sample gives where all others are right."""
    _, first_N = np.unique(np.stack([truth_N, fold_N.astype(str)]), axis=1, return_index=True)
    values = []
    for row in first_N:
        is_right_N = np.ones(len(truth_N), np.bool_)
        is_right_N[row] = False
        gain = _gain_by_fold(is_right_N, truth_N, fold_N)
        values.append(corrected_resampled_t(gain, _sizes(fold_N)))
    return max((value for value in values if value is not None), default=None)


def _median_of_other_folds(
    observed_N: NDArray[np.float64], fold_N: NDArray[np.int64]
) -> NDArray[np.float64]:
    guess_N = np.empty_like(observed_N)
    for number in np.unique(fold_N):
        own = fold_N == number
        guess_N[own] = np.median(observed_N[~own])
    return guess_N


def _gain_by_fold(
    is_right_N: NDArray[np.bool_], truth_N: NDArray[np.str_], fold_N: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what each fold adds to the balanced accuracy beyond guessing.

    Their mean is the balanced accuracy of all samples less 1/K. The mean recall of a fold would not
    do: where a fold has a single class, a constant is right in all of it.
    """
    _, class_N, size_C = np.unique(truth_N, return_inverse=True, return_counts=True)
    classes = len(size_C)
    share_N = 1 / (classes * size_C[class_N])
    _, code_N = np.unique(fold_N, return_inverse=True)
    gain = np.bincount(code_N, weights=share_N * (is_right_N - 1 / classes))
    return np.asarray(len(gain) * gain)


def _sizes(fold_N: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.unique(fold_N, return_counts=True)[1]


def holm(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Correct the p-values of several comparisons for their number.

    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Stat. 6:65.

    Parameters
    ----------
    comparisons
        What `compare` returned, by name.

    Returns
    -------
    dict
        The same with `holm_p`, the corrected `corrected_t_p`; None where there is none.
    """
    values = {name: found["corrected_t_p"] for name, found in comparisons.items()}
    known = sorted((value, name) for name, value in values.items() if value is not None)
    steps = [min(1.0, (len(known) - place) * value) for place, (value, _) in enumerate(known)]
    raised = dict(zip((name for _, name in known), accumulate(steps, max), strict=True))
    return {name: {**found, "holm_p": raised.get(name)} for name, found in comparisons.items()}


def corrected_resampled_t(difference: ArrayLike, sizes: ArrayLike) -> float | None:
    """Return the p-value of the corrected resampled t-test of paired differences over folds.

    The variance of the mean is that of the differences times 1 / K + n_test / n_train, because
    training sets overlap: Nadeau, C. & Bengio, Y. (2003), Inference for the generalization
    error, doi:10.1023/A:1024068626366. The ratio is the mean over the folds.

    Parameters
    ----------
    difference
        Difference of two methods in each of K folds.
    sizes
        Samples of each fold, which are its test set.

    Returns
    -------
    float or None
        The two-sided p-value; None for a single fold, or where all differences are the same.
    """
    values = np.asarray(difference, dtype=np.float64)
    tested = np.asarray(sizes, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return None
    ratio = float(np.mean(tested / (tested.sum() - tested)))
    error = np.sqrt((1 / len(values) + ratio) * values.var(ddof=1))
    return float(2 * stats.t.sf(abs(values.mean()) / error, df=len(values) - 1))


def _signed_rank(difference: NDArray[np.float64]) -> float | None:
    """Return the p-value of Wilcoxon's test without the zeros, exact for few; None without any."""
    given = difference[difference != 0]
    return float(stats.wilcoxon(given).pvalue) if len(given) else None


def _mcnemar(own: NDArray[np.bool_], other: NDArray[np.bool_]) -> float | None:
    """Return the exact p-value from the samples that one of the two has right."""
    won = int((own & ~other).sum())
    lost = int((other & ~own).sum())
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else None
