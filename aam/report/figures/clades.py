"""The clades that say something of a label, in all samples.

Shape suffixes: V clades, N samples.
"""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from aam.data.folds import OBSERVED
from aam.data.predictions import TARGET
from aam.evaluate.task_report import TaskReport
from aam.report.figures.style import saved_figure
from aam.report.labels import shorten, to_words
from aam.report.page.answers import is_stopped
from aam.report.page.named_clades import short_name

MOST_SHOWN = 12
"""Clades of a target that are shown."""
NAME = 34
"""Letters of the name of a clade."""
NOTHING = "Nothing can be told of single clades."
"""What stands in the place of a figure."""


def draw(clades: pd.DataFrame, samples: pd.DataFrame, report: TaskReport, path: Path) -> None:
    """Draw the log-ratio of each clade in every sample, sorted by the label.

    Where nothing is named, and under a red light, a sentence stands in the place of the figure.

    Parameters
    ----------
    clades, samples
        Tables of `aam.stages.clades`.
    report
        The scores of the task.
    path
        The figure to write.
    """
    shown = {}
    for target in report.targets:
        if is_stopped(report.kind, target):
            continue
        rows = clades
        if TARGET in clades:
            rows = clades[clades[TARGET] == target.column]
        if len(rows):
            shown[target.column] = rows.head(MOST_SHOWN)
    if not shown:
        with saved_figure(path, 0.6) as (_, (axes,)):
            axes.set_axis_off()
            axes.set_title("\n".join(textwrap.wrap(NOTHING, 90)), fontweight="normal")
        return
    heights = [len(rows) for rows in shown.values()]
    height_in = sum(1.1 + 0.26 * rows for rows in heights)
    grid: dict[str, Any] = {"height_ratios": [2 + rows for rows in heights]}
    with saved_figure(path, height_in, rows=len(shown), **grid) as (_, panels):
        for axes, (column, rows) in zip(panels, shown.items(), strict=True):
            name = OBSERVED + column if OBSERVED + column in samples else "observed"
            _draw_clades(axes, rows, samples, samples[name], report.kind)
            axes.set_title(f"Samples by {to_words(column)}")


def _draw_clades(
    axes: Axes, rows: pd.DataFrame, samples: pd.DataFrame, observed: pd.Series, kind: str
) -> None:
    """Draw the clades of a target."""
    names = rows["clade"].astype(str).tolist()
    value_VN = samples[names].to_numpy(np.float64).T
    if kind == "regression":
        order = np.argsort(observed.to_numpy(np.float64), kind="stable")
    else:
        labels = observed.astype(str).to_numpy()
        order = np.lexsort((value_VN[0], labels))
    spread_V = np.maximum(value_VN.std(axis=1), 1e-9)
    scaled_VN = (value_VN - value_VN.mean(axis=1, keepdims=True)) / spread_V[:, None]
    image = axes.imshow(
        scaled_VN[:, order],
        aspect="auto",
        interpolation="nearest",
        cmap="RdBu_r",
        vmin=-2.5,
        vmax=2.5,
    )
    axes.grid(visible=False)
    axes.set_yticks(range(len(names)), [_label(row) for _, row in rows.iterrows()])
    places, texts = _ticks(observed.iloc[order], kind)
    axes.set_xticks(places, texts)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.01, fraction=0.03)
    bar.set_label("log-ratio, in sd")


def _label(row: pd.Series) -> str:
    """Return the name and the size of a clade."""
    return f"{shorten(short_name(row), NAME)} ({row['features']:.0f})"


def _ticks(observed: pd.Series, kind: str) -> tuple[list[float], list[str]]:
    """Return where the labels stand below sorted samples, and what they are."""
    if kind == "regression":
        places = np.unique(np.linspace(0, len(observed) - 1, 6).astype(int))
        return places.astype(float).tolist(), [f"{observed.iloc[at]:g}" for at in places]
    labels = observed.astype(str).to_numpy()
    names = list(dict.fromkeys(labels.tolist()))
    middles = [float(np.flatnonzero(labels == name).mean()) for name in names]
    return middles, [shorten(name, 16) for name in names]
