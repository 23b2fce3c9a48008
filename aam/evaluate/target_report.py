"""The scores of one target: of single methods, and of a model next to the baselines."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.baselines import CONSTANTS
from aam.data.folds import units_of
from aam.data.predictions import DRAW, GROUP, UNNESTED, class_names, class_probabilities
from aam.evaluate import metrics
from aam.evaluate.bootstrap import bootstrap_intervals
from aam.evaluate.comparison import compare, compare_with_guessing
from aam.evaluate.far_values import find_far_values
from aam.evaluate.multiple_tests import Comparison, correct_p_values
from aam.evaluate.scores import HEADLINE
from aam.evaluate.structure import Structure
from aam.learners.conformal import calibrated_probabilities, fit_recalibration
from aam.learners.super_learner import Learner, super_learner
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)


def score_predictions(
    kind: str, predictions: pd.DataFrame, labels: Mapping[str, pd.Series] = {}
) -> dict[str, Any]:
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
    dict
        Scores in plain types, None where undefined: `n`, those of `aam.evaluate.scores.MAIN`,
        `folds`, and `mae_by` or `accuracy_by`; of classes also `per_class` and `confusion`.
    """
    assert predictions["sample-id"].is_unique
    if kind == "regression":
        name = "mae"
        observed = pd.to_numeric(predictions["observed"])
        predicted = pd.to_numeric(predictions["predicted"])
        values = (observed - predicted).abs()
        scores = _score_numbers(predictions)
    else:
        name = "accuracy"
        values = predictions["observed"].astype(str) == predictions["predicted"].astype(str)
        scores = _score_classes(predictions, is_ordinal=kind == "ordinal")
    folds = metrics.means_by_label(name, values, predictions["fold"])
    if kind == "regression":
        for fold, correlations in _correlate_by_fold(predictions).items():
            folds[fold] |= correlations
    by_label = {}
    for label, column in labels.items():
        by_label[label] = metrics.means_by_label(
            name, values, column.reindex(predictions["sample-id"])
        )
    return {"n": len(predictions), **scores, "folds": folds, f"{name}_by": by_label}


def _score_numbers(predictions: pd.DataFrame) -> dict[str, Any]:
    """Return the scores of numbers."""
    return metrics.regression_metrics(
        pd.to_numeric(predictions["observed"]),
        pd.to_numeric(predictions["predicted"]),
        predictions["fold"],
    )


def _correlate_by_fold(predictions: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the explained variance and the correlation of numbers in each fold, by its name."""
    by_fold = {}
    for name, part in predictions.groupby("fold"):
        scores = _score_numbers(part)
        by_fold[str(name)] = {"r2": scores["r2_pooled"], "pearson": scores["pearson"]}
    return by_fold


def _score_classes(predictions: pd.DataFrame, *, is_ordinal: bool) -> dict[str, Any]:
    """Return the scores of classes, those of each class, and the confusion."""
    observed = predictions["observed"]
    predicted = predictions["predicted"]
    names = class_names(predictions)
    shares_NC = class_probabilities(predictions, names)
    return {
        **metrics.classification_metrics(
            observed, predicted, shares_NC, names, predictions["fold"], ordinal=is_ordinal
        ),
        "per_class": metrics.per_class_table(observed, predicted, shares_NC, names),
        "confusion": metrics.confusion(observed, predicted, names),
    }


def score_method(
    kind: str, predictions: pd.DataFrame, labels: Mapping[str, pd.Series] = {}
) -> dict[str, Any]:
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
    dict
        What `score_predictions` returns of fold 0 and above, and under `test` that of fold -1, if
        any. Of classes also the scores of calibrated probabilities and of a constant, and under
        `calibration` what all scored rows together calibrate by.
    """
    is_test = predictions["fold"].to_numpy() < 0
    names = class_names(predictions)
    if not names:
        report = score_predictions(kind, predictions[~is_test], labels)
        if is_test.any():
            report["test"] = score_predictions(kind, predictions[is_test], labels)
        return report
    calibrated_NC, constant_NC = calibrated_probabilities(predictions, names)

    def score_rows(is_row: NDArray[np.bool_]) -> dict[str, Any]:
        rows = predictions[is_row]
        return score_predictions(kind, rows, labels) | metrics.calibration_metrics(
            rows["observed"], calibrated_NC[is_row], constant_NC[is_row], names
        )

    report = score_rows(~is_test)
    report["calibration"] = fit_recalibration(predictions[~is_test], names).plain(names)
    if is_test.any():
        report["test"] = score_rows(is_test)
    return report


@dataclass(frozen=True)
class TargetScoring:
    """How the methods of a target are scored, and what they are compared with."""

    kind: str
    labels: Mapping[str, pd.Series]
    """Columns of the metadata, by sample ID, within whose values is scored too."""
    group: pd.Series
    """Group of each sample, by sample ID."""
    groups_N: NDArray[np.object_]
    """Groups of the samples of fold 0 and above, in the order of the model's predictions."""
    structure: Structure
    rivals: Mapping[str, pd.DataFrame]
    """Predictions of the baselines to compare with, by their names."""
    seed: int

    def score(self, name: str, predictions: pd.DataFrame) -> dict[str, Any]:
        """Return the scores of a method, and log the headline score.

        Parameters
        ----------
        name
            What the log calls the method.
        predictions
            Its cross-validated predictions.
        """
        units = units_of(self.group).loc[predictions["sample-id"]].to_numpy()
        scores = score_method(self.kind, predictions.assign(**{GROUP: units}), self.labels)
        headline = HEADLINE[self.kind]
        logger.info("%s: %s %.4g", name, headline, scores[headline])
        return scores

    def compare(self, first: pd.DataFrame, second: pd.DataFrame) -> Comparison:
        """Return the comparison of two methods on the samples of fold 0 and above."""
        return compare(
            self.kind, _scored(first), _scored(second), independent=self.structure.independent
        )

    def score_and_compare(self, name: str, predictions: pd.DataFrame) -> dict[str, Any]:
        """Return the scores of a method, their intervals, and how it compares with others."""
        rows = _scored(predictions)
        comparisons = {
            rival: self.compare(predictions, table) for rival, table in self.rivals.items()
        }
        return {
            **self.score(name, predictions),
            "guessing": compare_with_guessing(self.kind, rows),
            "bootstrap": bootstrap_intervals(self.kind, rows, self.groups_N, self.seed),
            "comparisons": correct_p_values(comparisons),
        }


def report_target(
    settings: Mapping[str, Any],
    predictions: pd.DataFrame,
    baselines: Mapping[str, pd.DataFrame],
    labels: Mapping[str, pd.Series],
    group: pd.Series,
    *,
    nested: pd.DataFrame,
    learners: Mapping[str, Learner],
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Score one target of a model and of the baselines, and compare them.

    Parameters
    ----------
    settings
        The slice `score`.
    predictions, baselines
        Cross-validated predictions of the model, and of every baseline by its name.
    labels, group
        Columns of the metadata to score within, and the group of each sample, by sample ID.
    nested
        Nested predictions of the model.
    learners
        The baselines that a super learner mixes, with their nested predictions.

    Returns
    -------
    report : dict
        Its keys are those of `metrics.json` in `docs/reference/artifacts.md`.
    leading : pandas.DataFrame
        The predictions of the method whose score the page shows first: the super learner where
        there is one, even if the model's own score is better.
    """
    model = settings["names"]["model"]
    scoring = _prepare_scoring(settings, predictions, baselines, labels, group)
    report = scoring.score_and_compare(model, predictions)
    report["structure"] = scoring.structure.plain()
    report["far_values"] = None
    if scoring.kind == "regression":
        observed = pd.to_numeric(predictions.set_index("sample-id")["observed"])
        report["far_values"] = find_far_values(observed)
    if UNNESTED in predictions:
        unnested = predictions.assign(predicted=predictions[UNNESTED])
        report["unnested"] = _score_unnested(scoring.kind, predictions, unnested)
    report["draws"] = _score_draws(scoring.kind, predictions)
    report["baselines"] = _score_baselines(scoring, baselines, guess=report["guessing"]["score"])
    # Baselines that know all labels would hide what the model does with few.
    if not learners or settings["labels"] < 1:
        return report, predictions
    report["super_learner"], mixed = _score_super_learner(
        scoring, model, Learner(predictions, nested), learners
    )
    return report, mixed


def _prepare_scoring(
    settings: Mapping[str, Any],
    predictions: pd.DataFrame,
    baselines: Mapping[str, pd.DataFrame],
    labels: Mapping[str, pd.Series],
    group: pd.Series,
) -> TargetScoring:
    """Return how the methods of a target are scored; the parameters are `report_target`'s."""
    groups_N = group.loc[_scored(predictions)["sample-id"]].to_numpy()
    return TargetScoring(
        kind=settings["kind"],
        labels=labels,
        group=group,
        groups_N=groups_N,
        structure=Structure.read(groups_N, settings["structure"]),
        rivals={name: table for name, table in baselines.items() if name not in CONSTANTS},
        # The seed names no model: all models of a task are resampled alike.
        seed=seed_of("bootstrap", settings["names"]["dataset"], settings["names"]["task"]),
    )


def _score_baselines(
    scoring: TargetScoring, baselines: Mapping[str, pd.DataFrame], guess: float
) -> dict[str, dict[str, Any]]:
    """Return the scores of every baseline; `guess` is the headline score of guessing."""
    reports = {name: scoring.score(name, table) for name, table in baselines.items()}
    if scoring.kind == "regression":
        return reports
    # The majority of the other folds is right less often than one guess in K: see
    # `compare_with_guessing`.
    for constant in CONSTANTS:
        if constant in reports:
            reports[constant][HEADLINE[scoring.kind]] = guess
    return reports


def _score_super_learner(
    scoring: TargetScoring, name: str, model: Learner, baselines: Mapping[str, Learner]
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Score the mixture of a model and the baselines.

    Parameters
    ----------
    scoring
        How methods are scored.
    name, model
        Name and predictions of the model.
    baselines
        Predictions of the baselines, by their names.

    Returns
    -------
    tuple
        What `super_learner` of a report holds, and the predictions of the mixture.
    """
    units = units_of(scoring.group)
    mixed = super_learner({name: model, **baselines}, units)
    predictions = mixed.predictions
    report = {
        **scoring.score_and_compare(f"super learner with {name}", predictions),
        **mixed.mixture.plain(),
        "unnested": _score_unnested(scoring.kind, predictions, mixed.unnested),
        "chosen": {
            "score": _headline(scoring.kind, mixed.chosen),
            "learners": {str(fold): learner for fold, learner in mixed.names.items()},
            "comparison": scoring.compare(predictions, mixed.chosen),
        },
    }
    without_model = super_learner(baselines, units).predictions
    report["without_own"] = {
        **scoring.score(f"super learner without {name}", without_model),
        "comparison": scoring.compare(predictions, without_model),
    }
    return report, predictions


def _headline(kind: str, predictions: pd.DataFrame) -> float:
    """Return the headline score of the rows of fold 0 and above."""
    return float(score_predictions(kind, _scored(predictions))[HEADLINE[kind]])


def _scored(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of fold 0 and above."""
    return predictions[predictions["fold"] >= 0]


def _score_unnested(
    kind: str, predictions: pd.DataFrame, unnested: pd.DataFrame
) -> dict[str, float]:
    """Return the headline score with weights that rest on models which saw the fold.

    `difference` is this score less that of `predictions`, whose weights rest on no such model.
    """
    score = _headline(kind, unnested)
    return {"score": score, "difference": score - _headline(kind, predictions)}


def _score_draws(kind: str, predictions: pd.DataFrame) -> dict[str, float] | None:
    """Return mean and standard deviation of the headline score over single networks."""
    names = [name for name in predictions if str(name).startswith(DRAW)]
    if not names:
        return None
    scores = [_headline(kind, predictions.assign(predicted=predictions[name])) for name in names]
    return {
        "models": len(scores),
        "mean": float(np.mean(scores)),
        "sd": float(np.std(scores, ddof=1)),
    }
