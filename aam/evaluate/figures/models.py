"""All models side by side: what they had learned by when, what they cost, what they reach."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from aam.evaluate.figures.style import GREY, bars, colors, picture
from aam.evaluate.labels import quantity, score, short, task_score

SCORE = ":"
"""Between task and score in the names of the columns of scores."""


def draw_models(models: pd.DataFrame, curves: pd.DataFrame, path: Path) -> None:
    """Draw correlation against steps and time, and bars of costs and of the tasks' scores.

    Parameters
    ----------
    models
        Columns `model`, `parameters`, `step_ms_median`, `step_ms_iqr`, `peak_memory_mb`,
        `equal_steps`, `equal_s`, and per task a column `<task>:<score>`; NaN where a model could
        not be timed.
    curves
        Columns `model`, `step`, `seconds`, `pearson`.
    path
        PNG to write.
    """
    names = models["model"].tolist()
    shades = dict(zip(names, colors(len(names)), strict=True))
    scored = [name for name in models.columns if SCORE in name]
    panels = 3 + len(scored)
    rows = -(-panels // 2)
    grid: dict[str, Any] = {"height_ratios": (2.6, *[0.7 + 0.3 * len(names)] * rows)}
    height_in = 0.3 + sum(grid["height_ratios"])
    with picture(path, height_in, rows=1 + rows, columns=2, **grid) as (_, all_axes):
        steps, seconds, *below = all_axes
        _draw_curves(steps, curves, "step", models["equal_steps"].iloc[0], shades)
        _draw_curves(seconds, curves, "seconds", models["equal_s"].iloc[0], shades)
        steps.set_xlabel("training steps")
        seconds.set_xlabel("seconds of training")
        steps.set_ylabel("held-out r")
        steps.legend()
        labels = [short(name) for name in names]
        spread = models["step_ms_iqr"].to_numpy(dtype=float) / 2
        costs: Sequence[tuple[str, str, Any]] = (
            ("step_ms_median", "one step (ms ± half the IQR)", spread),
            ("peak_memory_mb", "peak memory (MB)", None),
            ("parameters", "parameters", None),
        )
        for axes, (column, label, errors) in zip(below[:3], costs, strict=True):
            values = models[column].to_numpy(dtype=float)
            texts = [quantity(value) for value in values]
            bars(axes, labels, values, texts, list(shades.values()), errors=errors)
            axes.set_xlabel(label)
        for axes, column in zip(below[3:], scored, strict=False):
            values = models[column].to_numpy(dtype=float)
            texts = [score(value) for value in values]
            bars(axes, labels, values, texts, list(shades.values()))
            axes.set_xlabel(task_score(column))
        for axes in below[panels:]:
            axes.set_visible(False)


def _draw_curves(
    axes: Axes, curves: pd.DataFrame, column: str, equal: float, shades: dict[str, Any]
) -> None:
    """Draw a curve per model, and a line where they are compared."""
    for model, shade in shades.items():
        part = curves[curves["model"] == model].dropna()
        axes.plot(part[column], part["pearson"], marker="o", markersize=3, color=shade, label=model)
    if np.isfinite(equal):
        axes.axvline(equal, color=GREY, linestyle="--", linewidth=1)
    axes.set_xlim(left=0)
