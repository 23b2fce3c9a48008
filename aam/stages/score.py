"""The scores of a task's cross-validated predictions, beside those of its baselines."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.data.confounding import confounders
from aam.data.folds import read_folds, units_of
from aam.data.metadata import metadata_column, read_metadata
from aam.evaluate.conformal import cross_intervals, interval_report
from aam.evaluate.predictions import (
    GROUP,
    PROBABILITY,
    TARGET,
    by_baseline,
    by_target,
    read_predictions,
    write_predictions,
)
from aam.evaluate.report import model_report, task_metrics
from aam.evaluate.scores import HEADLINE
from aam.evaluate.super_learner import WITHOUT, learners_by_target
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_json
from aam.util.provenance import provenance
from aam.util.seeds import seed_of

INTERVALS = (
    *("sample-id", TARGET, "fold", "observed", "predicted"),
    *("lower", "upper", "likeliest", "prediction_set"),
)
"""Columns of the table of intervals, as far as the kind of target has them; then probabilities."""

NO_NESTED = pd.DataFrame({"sample-id": [], WITHOUT: [], "predicted": []})
"""Nested predictions where nothing is mixed."""
DESCRIBED = ("kind", "column", "bounds", "encoder", "start", "labels", "evaluation")
"""Settings that are written beside the scores."""


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Score one model on one task (its first target, and each in `targets`), with intervals.

    The table of intervals has the predictions of the leading method: the super learner's where
    there is one, else the model's.
    """
    metadata = read_metadata(inputs["metadata"])
    labels = {name: metadata_column(metadata, name) for name in cfg["report_by"]}
    predictions = _in_order(read_predictions(inputs["predictions"]), cfg["classes"])
    nested = by_target(_in_order(pd.read_parquet(inputs["nested"]), cfg["classes"]))
    group = read_folds(inputs["folds"])["group"]
    baseline_predictions = _in_order(read_predictions(inputs["baselines"]), cfg["classes"])
    nested_baselines = _in_order(pd.read_parquet(inputs["nested_baselines"]), cfg["classes"])
    baselines = by_baseline(baseline_predictions)
    together = units_of(group).loc[predictions["sample-id"]].to_numpy()
    predictions = predictions.assign(**{GROUP: together})
    learners = learners_by_target(baseline_predictions, nested_baselines)
    reports: dict[str, dict[str, Any]] = {}
    leading: dict[str, pd.DataFrame] = {}
    for target, own in by_target(predictions).items():
        reports[target], leading[target] = model_report(
            cfg,
            own,
            {name: parts[target] for name, parts in baselines.items()},
            labels,
            group,
            nested=nested.get(target, NO_NESTED),
            learners=learners.get(target, {}),
        )
    for target, part in by_target(read_predictions(inputs["recipes"])).items():
        reports[target]["recipes"] = _recipes(cfg["kind"], part[part["fold"] >= 0])
    for target, own in by_target(predictions).items():
        reports[target]["confounders"] = _confounders(cfg, own[own["fold"] >= 0], metadata, group)
    intervals = cross_intervals(predictions, cfg["bounds"])
    for target, part in by_target(intervals).items():
        reports[target]["intervals"] = interval_report(part)
    if "super_learner" in next(iter(reports.values())):
        intervals = cross_intervals(_together(leading), cfg["bounds"])
        for target, part in by_target(intervals).items():
            reports[target]["super_learner"]["intervals"] = interval_report(part)
    shares = [name for name in intervals if str(name).startswith(PROBABILITY)]
    shown = [*(name for name in INTERVALS if name in intervals), *shares]
    write_predictions(outputs["intervals"], intervals[shown])
    content = {
        **next(iter(reports.values())),
        **{key: cfg["names"][key] for key in ("model", "task")},
        **{key: cfg[key] for key in DESCRIBED},
        **({"targets": reports} if "" not in reports else {}),
        "provenance": provenance(cfg, inputs),
    }
    write_json(outputs["metrics"], content)


def _confounders(
    cfg: Cfg, predictions: pd.DataFrame, metadata: pd.DataFrame, group: pd.Series
) -> list[dict[str, Any]]:
    """Return the metadata columns that tell a target, among the samples that are scored."""
    target = predictions.set_index("sample-id")["observed"]
    columns = cfg["column"]
    return confounders(
        pd.to_numeric(target) if cfg["kind"] == "regression" else target,
        metadata.loc[target.index],
        kind=cfg["kind"],
        exclude=[columns] if isinstance(columns, str) else columns,
        seed=seed_of("confounders", cfg["names"]["dataset"], cfg["names"]["task"]),
        groups=group.loc[target.index],
    )


def _recipes(kind: str, predictions: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return the score of each recipe on one target, and its mean weight over the folds."""
    return {
        str(name): {
            "score": task_metrics(kind, part)[HEADLINE[kind]],
            "weight": float(pd.to_numeric(part.groupby("fold")["weight"].first()).mean()),
        }
        for name, part in predictions.groupby("recipe", sort=False)
    }


def _together(parts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the predictions of all targets in one table, with their names where there are any."""
    named = [part.assign(**{TARGET: name}) if name else part for name, part in parts.items()]
    return pd.concat(named, ignore_index=True)


def _in_order(predictions: pd.DataFrame, classes: list[str] | None) -> pd.DataFrame:
    """Put the probabilities into the order of an ordinal target's classes."""
    if not len(predictions):
        return predictions
    columns = [PROBABILITY + name for name in classes or []]
    return predictions[[*(name for name in predictions if name not in columns), *columns]]
