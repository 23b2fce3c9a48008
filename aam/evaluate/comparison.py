"""A model against a baseline by paired tests on the same folds."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from aam.data.predictions import numbers
from aam.evaluate.score_functions import fold_errors
from aam.evaluate.task_report import Comparison, Guessing

TINY = 1e-100
"""Differences below which all are taken in units of the largest: their squares would be 0."""


def compare(
    kind: str, first: pd.DataFrame, second: pd.DataFrame, *, independent: bool
) -> Comparison:
    """Compare two tables of predictions of the same samples and folds, in any order.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    first, second
        Predictions of one target by two methods.
    independent
        Whether no two samples share a group (`aam.evaluate.task_report.Structure`): only then tests
        over samples are made.

    Returns
    -------
    Comparison
        Without the correction for several tests.
    """
    first = first.set_index("sample-id")
    second = second.set_index("sample-id").reindex(first.index)
    assert (first["fold"] == second["fold"]).all(), "predictions of other samples or folds"
    fold = first["fold"].to_numpy()
    signed_rank = None
    mcnemar = None
    if kind == "regression":
        observed = numbers(first["observed"])
        first_guess = numbers(first["predicted"])
        second_guess = numbers(second["predicted"])
        first_errors = fold_errors(observed, first_guess, fold)
        difference = first_errors - fold_errors(observed, second_guess, fold)
        is_won = difference < 0
        errors = np.abs(observed - first_guess) - np.abs(observed - second_guess)
        signed_rank = _signed_rank(errors) if independent else None
    else:
        truth = first["observed"].to_numpy(np.str_)
        first_is_right = truth == first["predicted"].to_numpy(np.str_)
        second_is_right = truth == second["predicted"].to_numpy(np.str_)
        first_parts = _parts_of_balanced_accuracy(first_is_right, truth, fold)
        difference = first_parts - _parts_of_balanced_accuracy(second_is_right, truth, fold)
        is_won = difference > 0
        mcnemar = _mcnemar(first_is_right, second_is_right) if independent else None
    return Comparison(
        folds=len(difference),
        difference=float(difference.mean()),
        folds_won=float(is_won.mean()),
        corrected_t_p=corrected_resampled_t(difference, _sizes(fold)),
        wilcoxon_folds_p=_signed_rank(difference),
        wilcoxon_samples_p=signed_rank,
        mcnemar_p=mcnemar,
    )


def compare_with_guessing(kind: str, predictions: pd.DataFrame) -> Guessing:
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
    Guessing
        Its p-value is the corrected t-test of what each fold adds to the difference, None where
        undefined. Where every sample is right, folds may have no spread that a test could use: the
        p-value is then the largest that a single wrong sample would give.
    """
    fold = predictions["fold"].to_numpy()
    p = None
    if kind == "regression":
        observed = numbers(predictions["observed"])
        guess = _median_of_other_folds(observed, fold)
        guess_errors = fold_errors(observed, guess, fold)
        difference = fold_errors(observed, predictions["predicted"], fold) - guess_errors
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
    return Guessing(score=score, difference=float(difference.mean()), corrected_t_p=p)


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
    """Return for each sample the median of the samples of all other folds, [N]."""
    guess_N = np.empty_like(observed_N)
    for number in np.unique(fold_N):
        is_in_fold = fold_N == number
        guess_N[is_in_fold] = np.median(observed_N[~is_in_fold])
    return guess_N


def _gain_by_fold(
    is_right_N: NDArray[np.bool_], truth_N: NDArray[np.str_], fold_N: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what each fold adds to the balanced accuracy beyond guessing.

    Their mean is the balanced accuracy of all samples less 1/K for K classes.
    """
    classes = len(np.unique(truth_N))
    guessing_N = np.full(len(truth_N), 1 / classes)
    right = _parts_of_balanced_accuracy(is_right_N, truth_N, fold_N)
    return right - _parts_of_balanced_accuracy(guessing_N, truth_N, fold_N)


def _parts_of_balanced_accuracy(
    is_right_N: NDArray[Any], truth_N: NDArray[np.str_], fold_N: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what each fold adds to the balanced accuracy of all samples, times the folds.

    Their mean is that balanced accuracy. The mean recall of a fold would not do: where a fold has a
    single class, a constant is right in all of it.

    Parameters
    ----------
    is_right_N
        Whether each sample is predicted right, or the probability that it is.
    truth_N, fold_N
        Observed class and fold of each sample.
    """
    _, class_N, size_C = np.unique(truth_N, return_inverse=True, return_counts=True)
    weight_N = 1 / (len(size_C) * size_C[class_N])
    _, code_N = np.unique(fold_N, return_inverse=True)
    parts = np.bincount(code_N, weights=weight_N * is_right_N)
    return np.asarray(len(parts) * parts)


def _sizes(fold_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of samples of each fold, folds ascending."""
    return np.unique(fold_N, return_counts=True)[1]


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
    if np.abs(values).max() < TINY:
        values = values / np.abs(values).max()
    error = np.sqrt((1 / len(values) + ratio) * values.var(ddof=1))
    return float(2 * stats.t.sf(abs(values.mean()) / error, df=len(values) - 1))


def _signed_rank(difference: NDArray[np.float64]) -> float | None:
    """Return the p-value of Wilcoxon's test without the zeros, exact for few; None without any."""
    nonzero = difference[difference != 0]
    return float(stats.wilcoxon(nonzero).pvalue) if len(nonzero) else None


def _mcnemar(first_is_right: NDArray[np.bool_], second_is_right: NDArray[np.bool_]) -> float | None:
    """Return the exact p-value of McNemar's test, from the samples that one of the two has right.

    McNemar, Q. (1947). Note on the sampling error of the difference between correlated proportions
    or percentages. Psychometrika 12:153-157.
    """
    won = int((first_is_right & ~second_is_right).sum())
    lost = int((second_is_right & ~first_is_right).sum())
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else None
