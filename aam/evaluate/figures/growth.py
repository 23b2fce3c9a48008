"""Time and memory of every stage against the size of a study."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from aam.evaluate.figures.style import GREY, colors, saved_figure
from aam.evaluate.labels import plain

SHOWN = 10
"""Stages that have a colour: those that take longest on the largest study."""
MARKERS = "osD^v<>PX*"


def draw_growth(growth: pd.DataFrame, fits: pd.DataFrame, path: Path) -> None:
    """Draw seconds and peak memory with their fits, to twice the largest study.

    Parameters
    ----------
    growth
        Columns `stage`, `samples`, `work_s`, `peak_mb`.
    fits
        Columns `stage`, `quantity` (``seconds``, ``memory_mb``), `exponent`, `factor`, `constant`.
    path
        PNG to write.
    """
    largest = growth[growth["samples"] == growth["samples"].max()]
    ordered = largest.sort_values("work_s", ascending=False, kind="stable")["stage"]
    stages = [stage for stage in dict.fromkeys(ordered) if stage in set(fits["stage"])][:SHOWN]
    with saved_figure(path, 6.2, columns=2) as (figure, (seconds, memory)):
        _draw(seconds, growth, fits, stages, ("work_s", "seconds", 1.0))
        _draw(memory, growth, fits, stages, ("peak_mb", "memory_mb", 1 / 1024))
        seconds.set_ylabel("seconds of work")
        memory.set_ylabel("peak memory (GiB)")
        memory.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        seconds.set_title("Time, and exponent of the fit")
        memory.set_title("Memory, and exponent above the imports")
        for axes in (seconds, memory):
            axes.set_xlabel("samples, and as many ASVs")
            axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.14), ncols=2, fontsize=7)


def _draw(
    axes: Axes,
    growth: pd.DataFrame,
    fits: pd.DataFrame,
    stages: Sequence[str],
    names: tuple[str, str, float],
) -> None:
    """Draw points and fits of one quantity: its column, its name in the fits, and its unit."""
    column, quantity, unit = names
    others = growth[~growth["stage"].isin(stages)]
    axes.plot(others["samples"], others[column] * unit, ".", color=GREY, label="all others")
    sizes = np.geomspace(growth["samples"].min(), 2 * growth["samples"].max(), 50)
    for stage, color, marker in zip(stages, colors(len(stages)), MARKERS, strict=False):
        part = growth[growth["stage"] == stage]
        fit = fits[(fits["stage"] == stage) & (fits["quantity"] == quantity)].iloc[0]
        label = f"{plain(stage)} {fit['exponent']:.2f}"
        points = part[column].to_numpy(dtype=float) * unit
        axes.plot(part["samples"], points, marker, color=color, markersize=4, label=label)
        line = fit["constant"] + fit["factor"] * sizes ** fit["exponent"]
        axes.plot(sizes, line * unit, color=color, linewidth=1.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(_in_thousands))
    axes.yaxis.set_major_formatter(FuncFormatter(_in_thousands))
    axes.minorticks_off()


def _in_thousands(value: float, _position: int | None = None) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
