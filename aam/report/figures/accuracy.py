"""Headline scores of models and baselines as bars."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from aam.data.predictions import TARGET
from aam.evaluate.scores import HEADLINE
from aam.report.figures.style import BLUE, GREY, draw_bars, saved_panels, share_axis
from aam.report.labels import format_score, label_models, row_label, shorten, to_words


def draw(accuracy: pd.DataFrame, path: Path) -> None:
    """Draw the headline scores of models and baselines, one panel per task.

    Parameters
    ----------
    accuracy
        What `aam.evaluate.task_report.accuracy_table` returns.
    path
        The figure to write.
    """
    labels = label_models(accuracy.loc[accuracy["role"] == "network", "name"])
    keys = zip(accuracy["role"], accuracy["name"], strict=True)
    accuracy = accuracy.assign(name=[labels.get(key, key[1]) for key in keys])
    named = ["task", *([TARGET] if TARGET in accuracy else [])]
    tasks = list(accuracy.groupby(named, sort=False, dropna=False))
    row_in = 1.1 + 0.3 * max(len(part) for _, part in tasks)
    with saved_panels(path, len(tasks), row_in) as (_, all_axes):
        for axes, (names, part) in zip(all_axes, tasks, strict=True):
            draw_headlines(axes, part["kind"].iloc[0], part.to_dict("records"))
            title = ", ".join(name for name in names if isinstance(name, str))
            axes.set_title(f"{shorten(to_words(title), 30)} (n={part['n'].iloc[0]})")


def draw_headlines(axes: Axes, kind: str, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Draw a bar per method, and say which end is better.

    Parameters
    ----------
    axes
        Where to draw.
    kind
        Kind of the task.
    rows
        `name`, `role` and scores of each method, the first on top.
    """
    rows = list(rows)
    headline = HEADLINE[kind]
    draw_bars(
        axes,
        [shorten(row_label(row["name"], row["role"]), 32) for row in rows],
        [row[headline] for row in rows],
        [format_score(row[headline]) for row in rows],
        [GREY if row["role"] == "baseline" else BLUE for row in rows],
        errors=[row["mae_fold_sd"] for row in rows] if kind == "regression" else None,
    )
    if kind == "regression":
        axes.set_xlabel("MAE ± sd over folds (lower is better)")
    else:
        share_axis(axes, "balanced accuracy (higher is better)")
