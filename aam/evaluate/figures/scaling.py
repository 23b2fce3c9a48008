"""Time, throughput and memory of training against size."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from aam.evaluate.figures.style import bars, colors, in_thousands, saved_figure
from aam.evaluate.labels import quantity

EXPERIMENTS = {
    "batch size": "Samples per step",
    "depth": "Layers of each encoder",
    "distinct ASVs": "Distinct ASVs per step",
    "embedding": "Samples embedded",
    "validation": "Samples validated",
    "checkpoint": "Wait for a checkpoint",
}
"""Titles of the experiments, in the order of their panels."""
PANELS_ABREAST = 3
LEAST_RATIO = 1.6
"""Of two sizes that both get a label."""


def draw(scaling: pd.DataFrame, path: Path) -> None:
    """Draw time, throughput and memory against size, one column of panels per experiment.

    What was not measured is NaN.
    """
    found = set(scaling["experiment"])
    names = [name for name in EXPERIMENTS if name in found]
    chunks = [names[i : i + PANELS_ABREAST] for i in range(0, len(names), PANELS_ABREAST)]
    rows = len(QUANTITIES) * len(chunks)
    with saved_figure(path, 0.4 + 1.75 * rows, rows=rows, columns=PANELS_ABREAST) as (_, all_axes):
        panels = np.array(all_axes).reshape(len(chunks), len(QUANTITIES), PANELS_ABREAST)
        for chunk, of_chunk in zip(chunks, panels, strict=True):
            for column in range(PANELS_ABREAST):
                name = chunk[column] if column < len(chunk) else None
                part = scaling[scaling["experiment"] == name]
                for shown, axes in zip(QUANTITIES, of_chunk[:, column], strict=True):
                    _draw_quantity(axes, part, shown)
                if name is not None:
                    of_chunk[0, column].set_title(EXPERIMENTS[name])


@dataclass(frozen=True)
class Quantity:
    """What one row of panels shows: columns of the table, and the label and scale of the axis."""

    column: str
    spread: str | None
    label: str
    factor: float
    """From the column's unit to the label's."""
    logarithmic: bool
    """Else the axis begins at zero."""


QUANTITIES = (
    Quantity("time_ms_median", "time_ms_iqr", "seconds", 1e-3, True),
    Quantity("samples_per_s", None, "samples per second", 1.0, False),
    Quantity("peak_memory_mb", None, "peak memory (GiB)", 2**-10, False),
)


def _draw_quantity(axes: Axes, part: pd.DataFrame, shown: Quantity) -> None:
    """Draw a line per mode over the sizes, or hide the axes where nothing was measured."""
    part = part[part[shown.column].notna()].sort_values("x", kind="stable")
    if not len(part):
        axes.set_visible(False)
        return
    if part["x"].nunique() == 1:
        _draw_one_size(axes, part, shown)
        return
    modes = list(dict.fromkeys(part["mode"]))
    for mode, color in zip(modes, colors(len(modes)), strict=True):
        of_mode = part[part["mode"] == mode]
        x = of_mode["x"].to_numpy(dtype=float)
        y = of_mode[shown.column].to_numpy(dtype=float) * shown.factor
        half = None
        if shown.spread is not None:
            half = np.nan_to_num(of_mode[shown.spread].to_numpy(dtype=float)) / 2 * shown.factor
            half = np.minimum(half, 0.99 * y)
        axes.errorbar(x, y, yerr=half, color=color, marker="o", markersize=4, label=mode)
    axes.set_xscale("log")
    ticks = _ticks(part["x"])
    axes.set_xticks(ticks, [in_thousands(size) for size in ticks])
    if shown.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(in_thousands))
    else:
        axes.set_ylim(0, 1.08 * float(part[shown.column].max()) * shown.factor)
    axes.minorticks_off()
    axes.set_ylabel(f"{shown.label} (logarithmic)" if shown.logarithmic else shown.label)
    if len(modes) > 1 and shown == QUANTITIES[0]:
        axes.legend()


def _draw_one_size(axes: Axes, part: pd.DataFrame, shown: Quantity) -> None:
    """Draw a bar per mode: a line would have one point."""
    values = part[shown.column].to_numpy(dtype=float) * shown.factor
    shades = colors(len(part))
    bars(axes, part["mode"].tolist(), values, [quantity(value) for value in values], shades)
    axes.set_xlabel(shown.label)


def _ticks(sizes: Iterable[float]) -> list[float]:
    """Return the sizes whose labels do not run into each other."""
    kept: list[float] = []
    for size in sorted(set(sizes)):
        if not kept or size >= LEAST_RATIO * kept[-1]:
            kept.append(size)
    return kept
