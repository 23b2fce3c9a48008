"""Scores of cross-validated predictions, as numbers that JSON can hold: None where undefined.

Parameters that many functions share:

observed, predicted
    Numbers, or names of classes, [N].
probabilities
    Probabilities of the classes, [N, C].
classes
    Names of the columns of `probabilities`, [C]; the lowest first where classes have an order.
fold
    Fold in which each sample was held out, [N].

Shape suffixes: N samples, C classes.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn import metrics

from aam.data.bins import quantile_edges
from aam.data.predictions import LEAST_PROBABILITY, class_codes, mean_recall
from aam.evaluate.task_report import (
    CalibratedScores,
    ClassScores,
    Confusion,
    ReliabilityBin,
    SubsetScore,
)

BINS = 10
"""Bins of a reliability table, of as many samples each as ties allow."""

Scores = dict[str, float | None]


def regression_scores(observed: ArrayLike, predicted: ArrayLike, fold: ArrayLike) -> Scores:
    """Score predictions of numbers.

    Parameters
    ----------
    observed, predicted, fold
        Numbers and folds: see the module.

    Returns
    -------
    dict
        The scores of `scores.REGRESSION`; errors are in the unit of the target. `mae_fold_mean` and
        `mae_fold_sd` (K - 1 for K folds; None for a single one) are over the folds' mean absolute
        errors, whatever their sizes; the others take all samples at once.
    """
    truth = _numbers(observed)
    guess = _numbers(predicted)
    assert len(truth) == len(guess) > 0
    mean, sd = _over_folds(np.abs(truth - guess), fold)
    varies = bool(np.ptp(truth) > 0)
    both_vary = varies and bool(np.ptp(guess) > 0)
    return {
        "mae_fold_mean": mean,
        "mae_fold_sd": sd,
        "mae_pooled": _number(metrics.mean_absolute_error(truth, guess)),
        "rmse_pooled": _number(metrics.root_mean_squared_error(truth, guess)),
        "r2_pooled": _number(metrics.r2_score(truth, guess)) if varies else None,
        "pearson": _number(stats.pearsonr(truth, guess).statistic) if both_vary else None,
        "spearman": _number(stats.spearmanr(truth, guess).statistic) if both_vary else None,
    }


def classification_scores(
    observed: ArrayLike,
    predicted: ArrayLike,
    probabilities: ArrayLike,
    classes: Sequence[str],
    fold: ArrayLike,
    *,
    ordinal: bool = False,
) -> Scores:
    """Score predicted classes and their probabilities.

    Parameters
    ----------
    observed, predicted, probabilities, classes, fold
        Names of classes, probabilities and folds: see the module.
    ordinal
        Whether the classes have an order.

    Returns
    -------
    dict
        The scores of `scores.CLASSIFICATION`. All but the two over folds take all samples at once.
        `balanced_accuracy` is of the classes that occur; `roc_auc`, of each class against the rest,
        compares probabilities across folds. Ordinal classes have those of `scores.ORDINAL`:
        `mae_ranks`, the mean distance in steps, and `quadratic_kappa`, with squared steps as
        weights (Cohen 1968, doi:10.1037/h0026256).
    """
    truth = _names(observed)
    guess = _names(predicted)
    assert len(truth) == len(guess) > 0
    assert set(truth) | set(guess) <= set(classes), "a class without a probability"
    mean, sd = _over_folds(truth == guess, fold)
    varies = len(np.union1d(truth, guess)) > 1
    areas = _areas(truth, probabilities, classes)
    scores = {
        "accuracy": _number(metrics.accuracy_score(truth, guess)),
        "accuracy_fold_mean": mean,
        "accuracy_fold_sd": sd,
        "balanced_accuracy": mean_recall(truth, guess),
        "macro_f1": _number(metrics.f1_score(truth, guess, average="macro", zero_division=0)),
        "mcc": _number(metrics.matthews_corrcoef(truth, guess)) if varies else 0.0,
        "roc_auc": None if None in areas else _number(np.mean(np.array(areas, dtype=float))),
        **probability_scores(truth, probabilities, classes),
    }
    if ordinal:
        scores |= _rank_scores(truth, guess, classes)
    return scores


def _rank_scores(
    truth: NDArray[np.str_], guess: NDArray[np.str_], classes: Sequence[str]
) -> Scores:
    """Return the scores of classes with an order, by how many steps predictions are off."""
    true_codes = class_codes(truth, classes)
    guessed_codes = class_codes(guess, classes)
    kappa = None
    if len(np.union1d(truth, guess)) > 1:
        kappa = metrics.cohen_kappa_score(
            true_codes, guessed_codes, labels=list(range(len(classes))), weights="quadratic"
        )
    return {
        "mae_ranks": _number(np.abs(true_codes - guessed_codes).mean()),
        "quadratic_kappa": _number(kappa),
    }


def probability_scores(
    observed: ArrayLike, probabilities: ArrayLike, classes: Sequence[str]
) -> Scores:
    """Score probabilities of classes.

    Parameters
    ----------
    observed, probabilities, classes
        Names of classes and probabilities: see the module.

    Returns
    -------
    dict
        `brier` (Brier 1950), summed over more than two classes, and `ece`, the mean absolute
        difference of confidence and accuracy over the bins of `reliability`.
    """
    shares_NC = _numbers(probabilities)
    # Files hold nine digits: the sum of a row may miss 1 by more than the library lets pass.
    normal_NC = shares_NC / shares_NC.sum(axis=1, keepdims=True)
    codes = class_codes(observed, classes)
    bins = reliability(observed, shares_NC, classes)
    gaps = [one.n * abs(one.accuracy - one.confidence) for one in bins]
    return {
        "brier": _number(metrics.brier_score_loss(codes, normal_NC, labels=range(len(classes)))),
        "ece": _number(sum(gaps) / len(codes)),
    }


def calibration_scores(
    observed: ArrayLike, calibrated: ArrayLike, constant: ArrayLike, classes: Sequence[str]
) -> CalibratedScores:
    """Score calibrated probabilities, and next to them a constant: how frequent classes are.

    Parameters
    ----------
    observed, classes
        Names of classes: see the module.
    calibrated, constant
        Probabilities, [N, C], as `aam.learners.conformal.calibrated_probabilities` returns them.

    Returns
    -------
    CalibratedScores
        Losses are means over samples, in nats.
    """
    scores = probability_scores(observed, calibrated, classes)
    reference = probability_scores(observed, constant, classes)
    return CalibratedScores(
        brier=scores["brier"],
        log_loss=_log_loss(observed, calibrated, classes),
        ece=scores["ece"],
        constant_brier=reference["brier"],
        constant_log_loss=_log_loss(observed, constant, classes),
    )


def _log_loss(observed: ArrayLike, probabilities: ArrayLike, classes: Sequence[str]) -> float:
    """Return the mean negative logarithm of the true class's probability."""
    share_NC = _numbers(probabilities)
    code_N = class_codes(observed, classes)
    true_N = share_NC[np.arange(len(code_N)), code_N]
    return float(-np.log(np.maximum(true_N, LEAST_PROBABILITY)).mean())


def reliability(
    observed: ArrayLike, probabilities: ArrayLike, classes: Sequence[str]
) -> list[ReliabilityBin]:
    """Bin samples by the probability of their likeliest class, the least sure first.

    Parameters
    ----------
    observed, probabilities, classes
        Names of classes and probabilities: see the module.

    Returns
    -------
    list of ReliabilityBin
        Samples of the same probability share a bin.
    """
    share_NC = _numbers(probabilities)
    is_right_N = share_NC.argmax(axis=1) == class_codes(observed, classes)
    confidence_N = share_NC.max(axis=1)
    edges = np.unique(quantile_edges(confidence_N, BINS))
    bin_N = np.searchsorted(edges, confidence_N)
    bins = []
    for number in np.unique(bin_N):
        rows = np.flatnonzero(bin_N == number)
        bins.append(
            ReliabilityBin(
                n=len(rows),
                confidence=float(confidence_N[rows].mean()),
                accuracy=float(is_right_N[rows].mean()),
            )
        )
    return bins


def per_class_table(
    observed: ArrayLike, predicted: ArrayLike, probabilities: ArrayLike, classes: Sequence[str]
) -> dict[str, ClassScores]:
    """Return the scores of every class.

    Parameters
    ----------
    observed, predicted, probabilities, classes
        Names of classes and probabilities: see the module.

    Returns
    -------
    dict
        By class; `n` are the samples that have it.
    """
    truth = _names(observed)
    guess = _names(predicted)
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        truth, guess, labels=list(classes), zero_division=np.nan
    )
    areas = _areas(truth, probabilities, classes)
    return {
        name: ClassScores(
            n=int(support[i]),
            precision=_number(precision[i]),
            recall=_number(recall[i]),
            f1=_number(f1[i]),
            roc_auc=areas[i],
        )
        for i, name in enumerate(classes)
    }


def confusion(observed: ArrayLike, predicted: ArrayLike, classes: Sequence[str]) -> Confusion:
    """Return the counts of observed and predicted classes.

    Parameters
    ----------
    observed, predicted, classes
        Names of classes: see the module.
    """
    counts = metrics.confusion_matrix(_names(observed), _names(predicted), labels=list(classes))
    return Confusion(classes=tuple(classes), counts=tuple(map(tuple, counts.tolist())))


def means_by_label(values: ArrayLike, labels: ArrayLike) -> dict[str, SubsetScore]:
    """Return the mean of values for each label.

    Parameters
    ----------
    values
        Numbers, [N].
    labels
        Label of each sample, [N]; samples whose label is missing are left out.
    """
    label_N = pd.Series(np.asarray(labels, dtype=object)).dropna().map(str)
    # The mean is NumPy's: that of pandas differs in the last bits.
    return {
        str(label): SubsetScore(n=len(part), score=_number(part.to_numpy().mean()))
        for label, part in pd.Series(_numbers(values)).groupby(label_N)
    }


def _over_folds(values: NDArray[Any], fold: ArrayLike) -> tuple[float | None, float | None]:
    """Return mean and standard deviation of the folds' means."""
    _, code, sizes = np.unique(np.asarray(fold), return_inverse=True, return_counts=True)
    means = np.bincount(code, weights=values) / sizes
    sd = means.std(ddof=1) if len(means) > 1 else None
    return _number(means.mean()), _number(sd)


def _areas(
    truth: NDArray[np.str_], probabilities: ArrayLike, classes: Sequence[str]
) -> list[float | None]:
    """Return the area under the ROC curve of each class against the rest."""
    shares_NC = _numbers(probabilities)
    assert shares_NC.shape == (len(truth), len(classes))
    areas: list[float | None] = []
    for column, name in enumerate(classes):
        is_class = truth == name
        defined = is_class.any() and not is_class.all()
        area = metrics.roc_auc_score(is_class, shares_NC[:, column]) if defined else None
        areas.append(_number(area))
    return areas


def _number(value: float | np.floating[Any] | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _names(values: ArrayLike) -> NDArray[np.str_]:
    return np.asarray(values).astype(str)
