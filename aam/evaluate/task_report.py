"""All that is scored of a task, target by target: what `metrics.json` and `intervals.tsv` hold."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.data.confounding import confounders
from aam.data.folds import units_of
from aam.data.metadata import metadata_column
from aam.data.predictions import GROUP, PROBABILITY, TARGET, by_baseline, by_target
from aam.evaluate.model_report import model_report
from aam.learners.conformal import cross_intervals, interval_report
from aam.learners.super_learner import WITHOUT, learners_by_target
from aam.util.seeds import seed_of

INTERVALS = (
    *("sample-id", TARGET, "fold", "observed", "predicted"),
    *("lower", "upper", "likeliest", "prediction_set"),
)
"""Columns of the table of intervals, as far as the kind of target has them; then probabilities."""

NO_NESTED = pd.DataFrame({"sample-id": [], WITHOUT: [], "predicted": []})
"""Nested predictions where nothing is mixed."""


def task_report(
    cfg: Mapping[str, Any],
    predictions: pd.DataFrame,
    nested: pd.DataFrame,
    *,
    baselines: pd.DataFrame,
    nested_baselines: pd.DataFrame,
    group: pd.Series,
    metadata: pd.DataFrame,
    further: Mapping[str, Mapping[str, Any]] = {},
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Score one method on a task (its first target, and each in `targets`), with intervals.

    Parameters
    ----------
    cfg
        The slice `score` or `first`, with the name of the method in `names.model` and in `labels`
        the share of the labels that it learned from.
    predictions, nested
        Cross-validated and nested predictions of the method.
    baselines, nested_baselines
        The same of the baselines that it is compared and mixed with.
    group
        Group of each sample of the folds, by sample ID.
    metadata
        That of all samples.
    further
        What else the report of each target holds.

    Returns
    -------
    tuple
        The content of `metrics.json`, and the table of intervals. It has the predictions of the
        leading method: the super learner's where there is one, else those of the method itself.
    """
    labels = {name: metadata_column(metadata, name) for name in cfg["report_by"]}
    predictions = _in_order(predictions, cfg["classes"])
    baselines = _in_order(baselines, cfg["classes"])
    nested_by_target = by_target(_in_order(nested, cfg["classes"]))
    learners = learners_by_target(baselines, _in_order(nested_baselines, cfg["classes"]))
    tables = by_baseline(baselines)
    together = units_of(group).loc[predictions["sample-id"]].to_numpy()
    predictions = predictions.assign(**{GROUP: together})
    reports: dict[str, dict[str, Any]] = {}
    leading: dict[str, pd.DataFrame] = {}
    for target, rows in by_target(predictions).items():
        reports[target], leading[target] = model_report(
            cfg,
            rows,
            {name: parts[target] for name, parts in tables.items()},
            labels,
            group,
            nested=nested_by_target.get(target, NO_NESTED),
            learners=learners.get(target, {}),
        )
        reports[target] |= further.get(target, {})
        reports[target]["confounders"] = _confounders(cfg, rows[rows["fold"] >= 0], metadata, group)
    intervals = cross_intervals(predictions, cfg["bounds"])
    for target, part in by_target(intervals).items():
        reports[target]["intervals"] = interval_report(part)
    if "super_learner" in next(iter(reports.values())):
        intervals = cross_intervals(_together(leading), cfg["bounds"])
        for target, part in by_target(intervals).items():
            reports[target]["super_learner"]["intervals"] = interval_report(part)
    shares = [name for name in intervals if str(name).startswith(PROBABILITY)]
    shown = [*(name for name in INTERVALS if name in intervals), *shares]
    content = {
        **next(iter(reports.values())),
        **{key: cfg["names"][key] for key in ("model", "task")},
        **({"targets": reports} if "" not in reports else {}),
    }
    return content, intervals[shown]


def _confounders(
    cfg: Mapping[str, Any], predictions: pd.DataFrame, metadata: pd.DataFrame, group: pd.Series
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
