"""The scores of a task's cross-validated predictions, beside those of its baselines."""

import logging
from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.evaluate.bootstrap import bootstrap_intervals
from aam.evaluate.comparison import compare
from aam.evaluate.conformal import cross_intervals, interval_report
from aam.evaluate.predictions import (
    PROBABILITY,
    TARGET,
    by_target,
    read_predictions,
    write_predictions,
)
from aam.evaluate.report import target_report
from aam.evaluate.scores import HEADLINE
from aam.evaluate.stacking import PARTNERS, stacked
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import write_json
from aam.util.provenance import provenance
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)

INTERVALS = "sample-id", TARGET, "fold", "observed", "predicted", "lower", "upper", "prediction_set"
"""Columns of the table of intervals, as far as the kind of target has them."""

DESCRIBED = ("kind", "bounds", "encoder", "start", "labels", "evaluation")
"""Settings that are written beside the scores."""


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Score one model on one task, and write an interval, or a set of classes, per sample.

    The metrics hold the scores of the model with their bootstrap intervals, in `baselines` those
    of each baseline, in `comparisons` the paired tests against it, in `stacked` the same of the
    model and a forest together, where both learned from all labels, in `intervals` what the
    prediction intervals cover; of a task with several targets those of the first, and in
    `targets` those of each.

    Raises
    ------
    InputError
        If a column of `report_by` is not in the metadata.
    """
    metadata = read_metadata(inputs["metadata"]) if cfg["report_by"] else None
    predictions = _in_order(read_predictions(inputs["predictions"]), cfg["classes"])
    group = read_folds(inputs["folds"])["group"]
    table = _in_order(read_predictions(inputs["baselines"]), cfg["classes"])
    baselines = {
        str(name): by_target(part.drop(columns="baseline"))
        for name, part in table.groupby("baseline", sort=False)
    }
    reports = {
        target: _report(
            cfg, own, {name: parts[target] for name, parts in baselines.items()}, metadata, group
        )
        for target, own in by_target(predictions).items()
    }
    low, high = cfg["bounds"]
    intervals = cross_intervals(predictions, bounds=(low, high))
    for target, part in by_target(intervals).items():
        reports[target]["intervals"] = interval_report(part)
    shown = [name for name in INTERVALS if name in intervals]
    write_predictions(outputs["intervals"], intervals[shown])
    content = {
        **next(iter(reports.values())),
        **{key: cfg["names"][key] for key in ("model", "task")},
        **{key: cfg[key] for key in DESCRIBED},
        **({"targets": reports} if "" not in reports else {}),
        "provenance": provenance(cfg, inputs),
    }
    write_json(outputs["metrics"], content)


def _report(
    cfg: Mapping[str, Any],
    own: pd.DataFrame,
    others: Mapping[str, pd.DataFrame],
    metadata: pd.DataFrame | None,
    group: pd.Series,
) -> dict[str, Any]:
    """Score one target of the model and of the baselines, and compare them."""
    kind, classes = cfg["kind"], cfg["classes"]
    groups = group.loc[own.loc[own["fold"] >= 0, "sample-id"]].to_numpy()
    # The seed names no model: all models of a task are resampled alike.
    seed = seed_of("bootstrap", cfg["names"]["dataset"], cfg["names"]["task"])

    def scores(name: str, table: pd.DataFrame) -> dict[str, Any]:
        values = target_report(kind, table, metadata, cfg["report_by"], classes)
        logger.info("%s: %s %.4g", name, HEADLINE[kind], values[HEADLINE[kind]])
        return values

    def compared(name: str, table: pd.DataFrame) -> dict[str, Any]:
        rows = table[table["fold"] >= 0]
        return {
            **scores(name, table),
            "bootstrap": bootstrap_intervals(kind, rows, groups, seed, classes=classes),
            "comparisons": {
                other: compare(kind, rows, part[part["fold"] >= 0])
                for other, part in others.items()
            },
        }

    model = cfg["names"]["model"]
    report = compared(model, own)
    report["baselines"] = {name: scores(name, table) for name, table in others.items()}
    partner = next((name for name in PARTNERS if name in others), None)
    # A forest that knows all labels would hide what the model does with few.
    if partner is not None and cfg["labels"] == 1:
        together = compared(f"{model} with {partner}", stacked(own, others[partner]))
        report["stacked"] = {"with": partner, **together}
    return report


def _in_order(predictions: pd.DataFrame, classes: list[str] | None) -> pd.DataFrame:
    """Put the probabilities into the order of an ordinal target's classes."""
    columns = [PROBABILITY + name for name in classes or []]
    return predictions[[*(name for name in predictions if name not in columns), *columns]]
