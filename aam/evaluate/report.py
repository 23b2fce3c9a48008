"""The scores of one task."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from aam.data.folds import units_of
from aam.evaluate import metrics
from aam.evaluate.bootstrap import bootstrap_intervals
from aam.evaluate.comparison import compare, compare_with_guessing, holm
from aam.evaluate.conformal import calibrated_probabilities, fit_recalibration
from aam.evaluate.predictions import DRAW, GROUP, UNNESTED, class_names, class_probabilities
from aam.evaluate.scores import HEADLINE
from aam.evaluate.structure import Structure
from aam.evaluate.super_learner import Learner, super_learner
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)

CONSTANT = ("median", "majority")
"""Baselines that look at nothing: no mixture needs them, and no test is against them."""


def task_metrics(
    kind: str, predictions: pd.DataFrame, labels: Mapping[str, pd.Series] = {}
) -> dict[str, Any]:
    """Score predictions of one target, whatever their fold, in plain types: None where undefined.

    `labels` are columns of the metadata, by sample ID, whose values are scored too. Classes with
    an order have it in the columns of probabilities, the lowest first.
    """
    assert predictions["sample-id"].is_unique
    observed, predicted, fold = (predictions[name] for name in ("observed", "predicted", "fold"))
    if kind == "regression":
        observed, predicted = pd.to_numeric(observed), pd.to_numeric(predicted)
        score, values = "mae", (observed - predicted).abs()
        scores: dict[str, Any] = metrics.regression_metrics(observed, predicted, fold)
        folds = metrics.means_by_label(score, values, fold)
        for name, rows in predictions.groupby("fold").groups.items():
            found = metrics.regression_metrics(observed[rows], predicted[rows], fold[rows])
            folds[str(name)] |= {"r2": found["r2_pooled"], "pearson": found["pearson"]}
    else:
        score, values = "accuracy", observed.astype(str) == predicted.astype(str)
        folds = metrics.means_by_label(score, values, fold)
        names = class_names(predictions)
        shares_NC = class_probabilities(predictions, names)
        scores = {
            **metrics.classification_metrics(
                observed, predicted, shares_NC, names, fold, ordinal=kind == "ordinal"
            ),
            "per_class": metrics.per_class_table(observed, predicted, shares_NC, names),
            "confusion": metrics.confusion(observed, predicted, names),
        }
    return {
        "n": len(predictions),
        **scores,
        "folds": folds,
        f"{score}_by": {
            name: metrics.means_by_label(score, values, column.reindex(predictions["sample-id"]))
            for name, column in labels.items()
        },
    }


def target_report(
    kind: str, predictions: pd.DataFrame, labels: Mapping[str, pd.Series] = {}
) -> dict[str, Any]:
    """Return `task_metrics` of fold 0 and above, and in `test` those of fold -1, if any.

    Of classes there are also the scores of calibrated probabilities and of a constant, and in
    `calibration` what all scored rows together calibrate by. A column `group` says which samples
    belong together.
    """
    is_test = predictions["fold"].to_numpy() < 0
    names = class_names(predictions)
    if names:
        calibrated_NC, constant_NC = calibrated_probabilities(predictions, names)
    reports: dict[str, dict[str, Any]] = {}
    for name, rows in (("", ~is_test), ("test", is_test)):
        part = predictions[rows]
        if not len(part):
            continue
        reports[name] = task_metrics(kind, part, labels)
        if names:
            reports[name] |= metrics.calibration_metrics(
                part["observed"], calibrated_NC[rows], constant_NC[rows], names
            )
            if not name:
                reports[name]["calibration"] = fit_recalibration(part, names).plain(names)
    return {**reports.pop(""), **reports}


def model_report(
    cfg: Mapping[str, Any],
    own: pd.DataFrame,
    others: Mapping[str, pd.DataFrame],
    labels: Mapping[str, pd.Series],
    group: pd.Series,
    *,
    nested: pd.DataFrame,
    learners: Mapping[str, Learner],
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Score one target of a model (`own`) and of the baselines (`others`), and compare them.

    Parameters
    ----------
    cfg
        The slice `score`.
    own, others
        Cross-validated predictions of the model, and of every baseline by its name.
    labels, group
        Columns of the metadata to score within, and the group of each sample, by sample ID.
    nested
        Nested predictions of the model.
    learners
        The baselines that a super learner mixes, with their nested predictions.

    Returns
    -------
    tuple
        The report, whose keys are those of `metrics.json` in `docs/reference/artifacts.md`, and the
        predictions of the method whose score leads: the super learner where there is one.
    """
    kind, model = cfg["kind"], cfg["names"]["model"]
    groups = group.loc[own.loc[own["fold"] >= 0, "sample-id"]].to_numpy()
    structure = Structure.read(groups, cfg["structure"])
    rivals = {name: part for name, part in others.items() if name not in CONSTANT}
    # The seed names no model: all models of a task are resampled alike.
    seed = seed_of("bootstrap", cfg["names"]["dataset"], cfg["names"]["task"])

    def scores(name: str, table: pd.DataFrame) -> dict[str, Any]:
        together = units_of(group).loc[table["sample-id"]].to_numpy()
        values = target_report(kind, table.assign(**{GROUP: together}), labels)
        logger.info("%s: %s %.4g", name, HEADLINE[kind], values[HEADLINE[kind]])
        return values

    def compared(name: str, table: pd.DataFrame) -> dict[str, Any]:
        rows = table[table["fold"] >= 0]
        found = {
            other: compare(kind, rows, part[part["fold"] >= 0], independent=structure.independent)
            for other, part in rivals.items()
        }
        return {
            **scores(name, table),
            "guessing": compare_with_guessing(kind, rows),
            "bootstrap": bootstrap_intervals(kind, rows, groups, seed),
            "comparisons": holm(found),
        }

    report = compared(model, own)
    report["structure"] = structure.plain()
    if UNNESTED in own:
        report["unnested"] = _unnested(kind, own, own.assign(predicted=own[UNNESTED]))
    report["draws"] = _draws(kind, own)
    report["baselines"] = {name: scores(name, table) for name, table in others.items()}
    if kind != "regression":
        # Guesses by the other folds' majority are right in less than 1/K: see `guessing`.
        for constant in CONSTANT:
            if constant in report["baselines"]:
                report["baselines"][constant][HEADLINE[kind]] = report["guessing"]["score"]
    # Baselines that know all labels would hide what the model does with few.
    if not learners or cfg["labels"] < 1:
        return report, own
    units = units_of(group)
    mixed = super_learner({model: Learner(own, nested), **learners}, units)
    without = super_learner(learners, units).predictions
    name = HEADLINE[kind]
    report["super_learner"] = {
        **compared(f"super learner with {model}", mixed.predictions),
        **mixed.mixture.plain(),
        "unnested": _unnested(kind, mixed.predictions, mixed.unnested),
        "chosen": {
            "score": task_metrics(kind, _scored(mixed.chosen))[name],
            "learners": {str(fold): learner for fold, learner in mixed.names.items()},
            "comparison": compare(
                kind,
                _scored(mixed.predictions),
                _scored(mixed.chosen),
                independent=structure.independent,
            ),
        },
        "without_own": {
            **scores(f"super learner without {model}", without),
            "comparison": compare(
                kind,
                _scored(mixed.predictions),
                _scored(without),
                independent=structure.independent,
            ),
        },
    }
    return report, mixed.predictions


def _scored(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of fold 0 and above."""
    return predictions[predictions["fold"] >= 0]


def _unnested(kind: str, nested: pd.DataFrame, unnested: pd.DataFrame) -> dict[str, float]:
    """Return the headline score with weights whose models saw the fold, and how far it is off."""
    name = HEADLINE[kind]
    score = task_metrics(kind, _scored(unnested))[name]
    return {"score": score, "difference": score - task_metrics(kind, _scored(nested))[name]}


def _draws(kind: str, predictions: pd.DataFrame) -> dict[str, float] | None:
    """Return mean and standard deviation of the headline score over single networks."""
    names = [name for name in predictions if str(name).startswith(DRAW)]
    if not names:
        return None
    scores = [
        task_metrics(kind, _scored(predictions.assign(predicted=predictions[name])))[HEADLINE[kind]]
        for name in names
    ]
    return {
        "models": len(scores),
        "mean": float(np.mean(scores)),
        "sd": float(np.std(scores, ddof=1)),
    }
