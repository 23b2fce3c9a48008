"""All that is scored of a task, target by target: what `metrics.json` and `intervals.tsv` hold."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.data.confounding import confounders
from aam.data.folds import units_of
from aam.data.metadata import metadata_column
from aam.data.predictions import GROUP, PROBABILITY, TARGET, by_baseline, by_target
from aam.data.target import Bounds
from aam.evaluate.coverage import report_intervals
from aam.evaluate.target_report import report_target
from aam.learners.conformal import cross_intervals
from aam.learners.super_learner import NO_NESTED, learners_by_target
from aam.util.seeds import seed_of

INTERVALS = (
    "sample-id",
    TARGET,
    "fold",
    "observed",
    "predicted",
    "lower",
    "upper",
    "likeliest",
    "prediction_set",
)
"""Columns of the table of intervals, as far as the kind of target has them; then probabilities."""


def report_task(
    settings: Mapping[str, Any],
    predictions: pd.DataFrame,
    nested: pd.DataFrame,
    *,
    baselines: pd.DataFrame,
    nested_baselines: pd.DataFrame,
    group: pd.Series,
    metadata: pd.DataFrame,
    further: Mapping[str, Mapping[str, Any]] = {},
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Score one method on a task, with intervals.

    The keys of the report are those of the first target; where there are several, `targets` has the
    report of each.

    Parameters
    ----------
    settings
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
    content : dict
        The content of `metrics.json`.
    intervals : pandas.DataFrame
        Predictions of the leading method with intervals: those of the super learner where there is
        one, else those of the method itself.
    """
    labels = {name: metadata_column(metadata, name) for name in settings["report_by"]}
    units = units_of(group).loc[predictions["sample-id"]].to_numpy()
    predictions = _order_classes(predictions, settings["classes"]).assign(**{GROUP: units})
    baselines = _order_classes(baselines, settings["classes"])
    nested_by_target = by_target(_order_classes(nested, settings["classes"]))
    learners = learners_by_target(baselines, _order_classes(nested_baselines, settings["classes"]))
    baseline_tables = by_baseline(baselines)
    reports: dict[str, dict[str, Any]] = {}
    leading: dict[str, pd.DataFrame] = {}
    for target, rows in by_target(predictions).items():
        reports[target], leading[target] = report_target(
            settings,
            rows,
            {name: tables[target] for name, tables in baseline_tables.items()},
            labels,
            group,
            nested=nested_by_target.get(target, NO_NESTED),
            learners=learners.get(target, {}),
        )
        reports[target] |= further.get(target, {})
        reports[target]["confounders"] = _confounders(
            settings, rows[rows["fold"] >= 0], metadata, group
        )
    intervals = _add_interval_reports(reports, predictions, leading, settings["bounds"])
    content = {
        **next(iter(reports.values())),
        "model": settings["names"]["model"],
        "task": settings["names"]["task"],
    }
    if "" not in reports:
        content["targets"] = reports
    return content, intervals[_shown_columns(intervals)]


def _add_interval_reports(
    reports: Mapping[str, dict[str, Any]],
    predictions: pd.DataFrame,
    leading: Mapping[str, pd.DataFrame],
    bounds: Bounds,
) -> pd.DataFrame:
    """Add what intervals cover to the reports, and return the intervals of the leading method.

    Parameters
    ----------
    reports
        Report of each target, which gets the key `intervals`; its super learner gets one, too.
    predictions
        Cross-validated predictions of the method itself, of all targets.
    leading
        Predictions of the leading method by target.
    bounds
        Least and largest number that is predicted.
    """
    intervals = cross_intervals(predictions, bounds)
    for target, part in by_target(intervals).items():
        reports[target]["intervals"] = report_intervals(part)
    # Either all targets have a super learner, or none has.
    if "super_learner" not in next(iter(reports.values())):
        return intervals
    intervals = cross_intervals(_join_targets(leading), bounds)
    for target, part in by_target(intervals).items():
        reports[target]["super_learner"]["intervals"] = report_intervals(part)
    return intervals


def _shown_columns(intervals: pd.DataFrame) -> list[str]:
    """Return the columns that the table of intervals is written with."""
    names = list(map(str, intervals))
    probabilities = [name for name in names if name.startswith(PROBABILITY)]
    return [*(name for name in INTERVALS if name in names), *probabilities]


def _confounders(
    settings: Mapping[str, Any], predictions: pd.DataFrame, metadata: pd.DataFrame, group: pd.Series
) -> list[dict[str, Any]]:
    """Return the metadata columns that predict a target among the scored samples."""
    target = predictions.set_index("sample-id")["observed"]
    columns = settings["column"]
    return confounders(
        pd.to_numeric(target) if settings["kind"] == "regression" else target,
        metadata.loc[target.index],
        kind=settings["kind"],
        exclude=[columns] if isinstance(columns, str) else columns,
        seed=seed_of("confounders", settings["names"]["dataset"], settings["names"]["task"]),
        groups=group.loc[target.index],
    )


def _join_targets(parts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the predictions of all targets in one table, with their names where there are any."""
    named = [part.assign(**{TARGET: name}) if name else part for name, part in parts.items()]
    return pd.concat(named, ignore_index=True)


def _order_classes(predictions: pd.DataFrame, classes: list[str] | None) -> pd.DataFrame:
    """Put the probabilities into the order of an ordinal target's classes."""
    if not len(predictions):
        return predictions
    columns = [PROBABILITY + name for name in classes or []]
    return predictions[[*(name for name in predictions if name not in columns), *columns]]
