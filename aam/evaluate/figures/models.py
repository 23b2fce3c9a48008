"""All models side by side: what they had learned by when, what they cost, what they reach."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from aam.evaluate.figures.style import GREY, bars, colors, saved_figure, share_axis
from aam.evaluate.labels import quantity, score, score_columns, scored_task, short
from aam.evaluate.scores import HEADLINE

COSTS = (
    ("step_ms_median", "one step (ms ± half the IQR)", 1.0),
    ("peak_memory_mb", "peak memory (GiB)", 2**-10),
    ("parameters", "parameters (millions)", 1e-6),
)
"""Columns, their labels, and the factor from a column's unit to the label's."""


def draw_models(models: pd.DataFrame, curves: pd.DataFrame, path: Path) -> None:
    """Draw `curves` of correlation against steps and time, and bars of costs and scores."""
    names = models["model"].tolist()
    shades = dict(zip(names, colors(len(names)), strict=True))
    scored = score_columns(models.columns)
    panels = len(COSTS) + len(scored)
    rows = -(-panels // 2)
    grid: dict[str, Any] = {"height_ratios": (2.6, *[0.75 + 0.3 * len(names)] * rows)}
    height_in = 0.3 + sum(grid["height_ratios"])
    with saved_figure(path, height_in, rows=1 + rows, columns=2, **grid) as (_, all_axes):
        steps, seconds, *below = all_axes
        _draw_curves(steps, curves, "step", models["equal_steps"].iloc[0], shades)
        _draw_curves(seconds, curves, "seconds", models["equal_s"].iloc[0], shades)
        steps.set(xlabel="training steps", ylabel="held-out r")
        seconds.set_xlabel("seconds of training (steps × median step)")
        steps.legend()
        _draw_costs(below[: len(COSTS)], models, shades)
        for axes, column in zip(below[len(COSTS) : panels], scored, strict=True):
            _draw_scores(axes, models, column, shades)
        for axes in below[panels:]:
            axes.set_visible(False)


def _draw_curves(
    axes: Axes, curves: pd.DataFrame, column: str, equal: float, shades: Mapping[str, Any]
) -> None:
    """Draw a curve per model, and a line where they are compared."""
    for model, shade in shades.items():
        part = curves[curves["model"] == model]
        axes.plot(part[column], part["pearson"], marker="o", markersize=3, color=shade, label=model)
    if np.isfinite(equal):
        axes.axvline(equal, color=GREY, linestyle="--", linewidth=1)
    axes.set_xlim(left=0)


def _draw_costs(all_axes: Sequence[Axes], models: pd.DataFrame, shades: Mapping[str, Any]) -> None:
    labels = [short(name) for name in shades]
    for axes, (column, label, factor) in zip(all_axes, COSTS, strict=True):
        values = models[column].to_numpy(dtype=float) * factor
        texts = [quantity(value) if np.isfinite(value) else "not run" for value in values]
        is_time = column == "step_ms_median"
        spread = models["step_ms_iqr"].to_numpy(dtype=float) / 2 if is_time else None
        bars(axes, labels, values, texts, list(shades.values()), errors=spread)
        axes.set_xlabel(label)


def _draw_scores(axes: Axes, models: pd.DataFrame, column: str, shades: Mapping[str, Any]) -> None:
    """Draw the scores of a task, and say which end of the axis is better."""
    values = models[column].to_numpy(dtype=float)
    labels = [short(name) for name in shades]
    bars(axes, labels, values, [score(value) for value in values], list(shades.values()))
    task, name = scored_task(column)
    axes.set_title(short(task, 30))
    if column.endswith(HEADLINE["regression"]):
        axes.set_xlabel(f"{name} (lower is better)")
    else:
        share_axis(axes, f"{name} (higher is better)")
