"""The scores of one method on one target."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.predictions import class_names, class_probabilities, split_classes
from aam.evaluate import score_functions
from aam.evaluate.scores import HEADLINE
from aam.evaluate.task_report import (
    Coverage,
    CoverageOfTest,
    FoldScore,
    RecalibrationFacts,
    ReliabilityBin,
    SampleScores,
)
from aam.learners import conformal
from aam.learners.conformal import calibrated_probabilities, fit_recalibration


def score_samples(
    kind: str, predictions: pd.DataFrame, labels: Mapping[str, pd.Series] = {}
) -> SampleScores:
    """Score predictions of one target, whatever their fold.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        One row per sample. Classes with an order have it in the columns of probabilities, the
        lowest first.
    labels
        Columns of the metadata, by sample ID, within whose values is scored too.

    Returns
    -------
    SampleScores
        Without those of calibrated probabilities.
    """
    assert predictions["sample-id"].is_unique
    values = _sample_values(kind, predictions)
    by = {}
    for label, column in labels.items():
        by[label] = score_functions.means_by_label(values, column.reindex(predictions["sample-id"]))
    if kind == "regression":
        return SampleScores(n=len(predictions), scores=_score_numbers(predictions), by=by)
    observed = predictions["observed"]
    predicted = predictions["predicted"]
    names = class_names(predictions)
    shares_NC = class_probabilities(predictions, names)
    scores = score_functions.classification_scores(
        observed, predicted, shares_NC, names, predictions["fold"], ordinal=kind == "ordinal"
    )
    return SampleScores(
        n=len(predictions),
        scores=scores,
        by=by,
        per_class=score_functions.per_class_table(observed, predicted, shares_NC, names),
        confusion=score_functions.confusion(observed, predicted, names),
    )


def headline_score(kind: str, predictions: pd.DataFrame) -> float:
    """Return the headline score of the samples of fold 0 and above.

    Parameters
    ----------
    kind
        Kind of the target.
    predictions
        Predictions of one target by one method.
    """
    scored = predictions[predictions["fold"] >= 0]
    score = score_samples(kind, scored).scores[HEADLINE[kind]]
    assert score is not None, "a headline score is defined for any sample"
    return score


def score_folds(kind: str, predictions: pd.DataFrame) -> dict[int, FoldScore]:
    """Score each fold of predictions by itself.

    Parameters
    ----------
    kind
        Kind of the target.
    predictions
        Predictions of one target by one method, rows of fold 0 and above.
    """
    values = _sample_values(kind, predictions)
    folds = {}
    for name, subset in score_functions.means_by_label(values, predictions["fold"]).items():
        correlations = {}
        if kind == "regression":
            scores = _score_numbers(predictions[predictions["fold"] == int(name)])
            correlations = {"r2": scores["r2_pooled"], "pearson": scores["pearson"]}
        folds[int(name)] = FoldScore(n=subset.n, score=subset.score, **correlations)
    return folds


def _sample_values(kind: str, predictions: pd.DataFrame) -> pd.Series:
    """Return the absolute error of each sample, or whether its class is right."""
    observed = predictions["observed"]
    predicted = predictions["predicted"]
    if kind == "regression":
        return (pd.to_numeric(observed) - pd.to_numeric(predicted)).abs()
    return observed.astype(str) == predicted.astype(str)


def _score_numbers(predictions: pd.DataFrame) -> dict[str, float | None]:
    return score_functions.regression_scores(
        pd.to_numeric(predictions["observed"]),
        pd.to_numeric(predictions["predicted"]),
        predictions["fold"],
    )


def score_with_calibration(
    kind: str, predictions: pd.DataFrame, labels: Mapping[str, pd.Series] = {}
) -> tuple[SampleScores, SampleScores | None, RecalibrationFacts | None]:
    """Score what a method predicts of one target, calibrated probabilities and test samples too.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Cross-validated predictions, one row per sample. A column `group` says which samples belong
        together.
    labels
        Columns of the metadata, by sample ID, within whose values is scored too.

    Returns
    -------
    scores : SampleScores
        Those of fold 0 and above.
    test : SampleScores or None
        Those of fold -1; None: it has no samples.
    recalibration : RecalibrationFacts or None
        What all scored rows together calibrate probabilities by; None: numbers are predicted.
    """
    is_test = predictions["fold"].to_numpy() < 0
    names = class_names(predictions)
    if not names:
        test = score_samples(kind, predictions[is_test], labels) if is_test.any() else None
        return score_samples(kind, predictions[~is_test], labels), test, None
    calibrated_NC, constant_NC = calibrated_probabilities(predictions, names)

    def score_rows(is_row: NDArray[np.bool_]) -> SampleScores:
        rows = predictions[is_row]
        calibrated = score_functions.calibration_scores(
            rows["observed"], calibrated_NC[is_row], constant_NC[is_row], names
        )
        return score_samples(kind, rows, labels).model_copy(update={"calibrated": calibrated})

    recalibration = fit_recalibration(predictions[~is_test], names).plain(names)
    return (
        score_rows(~is_test),
        score_rows(is_test) if is_test.any() else None,
        RecalibrationFacts(**recalibration),
    )


def bin_probabilities(predictions: pd.DataFrame) -> tuple[ReliabilityBin, ...]:
    """Return how often the likeliest class is right, by its probability before calibration.

    Parameters
    ----------
    predictions
        Predictions of one target by one method, rows of fold 0 and above; numbers have no bins.
    """
    names = class_names(predictions)
    if not names:
        return ()
    shares_NC = class_probabilities(predictions, names)
    return tuple(score_functions.reliability(predictions["observed"], shares_NC, names))


def report_coverage(intervals: pd.DataFrame) -> Coverage:
    """Return how often intervals or sets cover what was observed, and how large they are.

    Parameters
    ----------
    intervals
        What `aam.learners.conformal.cross_intervals` returns, of one target.
    """
    is_covered = _is_covered(intervals)
    is_test = intervals["fold"] < 0
    has_ends = _have_ends(intervals)
    is_scored = ~is_test & has_ends
    by_fold = is_covered[is_scored].groupby(intervals.loc[is_scored, "fold"]).mean()
    test = None
    if is_test.any():
        test = CoverageOfTest(
            n=int(is_test.sum()),
            coverage=_share(is_covered[is_test & has_ends]),
            size=_mean_size(intervals[is_test]),
        )
    return Coverage(
        level=conformal.LEVEL,
        coverage=_share(is_covered[is_scored]),
        size=_mean_size(intervals[~is_test]),
        by_fold={int(str(fold)): float(share) for fold, share in by_fold.items()},
        test=test,
    )


def _share(is_covered: pd.Series) -> float:
    """Return the share of samples that are covered; 1 where there are none."""
    return float(is_covered.mean()) if len(is_covered) else 1.0


def _have_ends(intervals: pd.DataFrame) -> pd.Series:
    """Return whether each sample has a set, or one end of an interval at least."""
    if "prediction_set" in intervals:
        return pd.Series(True, intervals.index)
    return intervals[["lower", "upper"]].notna().any(axis=1)


def _mean_size(intervals: pd.DataFrame) -> float | None:
    """Return the mean width of intervals, None where one has no end, or the mean size of sets."""
    if "prediction_set" in intervals:
        size = intervals["prediction_set"].map(lambda text: len(split_classes(text)))
    else:
        size = intervals["upper"] - intervals["lower"]
    mean_size = float(size.mean(skipna=False))
    return mean_size if math.isfinite(mean_size) else None


def _is_covered(intervals: pd.DataFrame) -> pd.Series:
    """Return whether the interval or set of each sample has what was observed."""
    if "prediction_set" in intervals:
        sets = intervals["prediction_set"].map(split_classes)
        pairs = zip(intervals["observed"].astype(str), sets, strict=True)
        return pd.Series([name in classes for name, classes in pairs], intervals.index)
    observed = pd.to_numeric(intervals["observed"])
    # A missing bound is no bound.
    is_outside = (observed < intervals["lower"]) | (observed > intervals["upper"])
    return ~is_outside
