"""Speed of the modes of training, its scaling, and accuracy of all models and baselines."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator
from numpy.typing import NDArray

from aam.evaluate.figures.style import BLUE, GREEN, GREY, bars, colors, headline_axis, picture
from aam.evaluate.labels import plain, quantity, row_label, score, short
from aam.evaluate.scores import HEADLINE

SPEED_GROUPS = {
    "order": "Changes added up",
    "alone": "Each change alone in the naive step",
    "batch": "The last modes",
    "option": "Other options",
}
SCALED = {
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


def draw_speed(speed: pd.DataFrame, path: Path) -> None:
    """Draw throughput and peak memory of every mode, one row of panels per group.

    Parameters
    ----------
    speed
        Columns `group`, `name`, `batch_size`, `samples_per_s`, `peak_memory_mb`, `speedup`; NaN
        where a mode could not run.
    path
        PNG to write.
    """
    groups = [(name, speed[speed["group"] == name]) for name in dict.fromkeys(speed["group"])]
    heights = [0.55 + 0.27 * len(part) for _, part in groups]
    grid: dict[str, Any] = {"width_ratios": (3, 2), "height_ratios": heights}
    rate = speed["samples_per_s"].to_numpy(dtype=float)
    measured = rate[rate > 0]
    low = float(10 ** np.floor(np.log10(measured.min() / 2))) if len(measured) else 1.0
    high = float(measured.max()) if len(measured) else 10.0
    memory_gb = float(np.nan_to_num(speed["peak_memory_mb"].to_numpy(dtype=float)).max()) / 1024
    with picture(path, 0.3 + sum(heights), rows=len(groups), columns=2, **grid) as (_, all_axes):
        for number, (name, part) in enumerate(groups):
            throughput, memory = all_axes[2 * number : 2 * number + 2]
            _draw_modes(throughput, memory, part, low)
            throughput.set_xscale("log")
            throughput.set_xlim(low, high * (high / low) ** 0.4)
            throughput.xaxis.set_major_formatter(FuncFormatter(_in_words))
            sizes = sorted(set(part["batch_size"]))
            batch = f" (batch {sizes[0]})" if len(sizes) == 1 else " (samples per step)"
            throughput.set_title(SPEED_GROUPS.get(name, plain(name)) + batch)
            memory.set_xlim(0, 1.3 * memory_gb or 1.0)
            memory.set_title("Memory" if number == 0 else "")
        throughput.set_xlabel("samples per second, and times the naive step's")
        memory.set_xlabel("peak memory (GiB)")


def _draw_modes(throughput: Axes, memory: Axes, part: pd.DataFrame, low: float) -> None:
    """Draw the modes of one group, their throughput from `low` on."""
    sizes = part["batch_size"].tolist()
    names = [short(plain(str(name)), 40) for name in part["name"]]
    if len(set(sizes)) > 1:
        names = [f"{name}, {size}" for name, size in zip(names, sizes, strict=True)]
    rate = part["samples_per_s"].to_numpy(dtype=float)
    texts = _with_speedup(rate, part["speedup"].to_numpy(dtype=float))
    bars(throughput, names, rate, texts, [BLUE] * len(names), left=low)
    memory_gb = part["peak_memory_mb"].to_numpy(dtype=float) / 1024
    texts = [quantity(value) if np.isfinite(value) else "" for value in memory_gb]
    bars(memory, [""] * len(names), memory_gb, texts, [GREEN] * len(names))


def draw_scaling(scaling: pd.DataFrame, path: Path) -> None:
    """Draw time, throughput and memory against size, one column of panels per experiment.

    Parameters
    ----------
    scaling
        Columns `experiment`, `mode`, `x`, `time_ms_median`, `time_ms_iqr`, `samples_per_s`,
        `peak_memory_mb`; NaN where something was not measured.
    path
        PNG to write.
    """
    found = set(scaling["experiment"])
    names = [name for name in SCALED if name in found]
    chunks = [names[i : i + PANELS_ABREAST] for i in range(0, len(names), PANELS_ABREAST)]
    rows = len(QUANTITIES) * len(chunks)
    with picture(path, 0.4 + 1.75 * rows, rows=rows, columns=PANELS_ABREAST) as (_, all_axes):
        panels = np.array(all_axes).reshape(len(chunks), len(QUANTITIES), PANELS_ABREAST)
        for chunk, of_chunk in zip(chunks, panels, strict=True):
            for column in range(PANELS_ABREAST):
                name = chunk[column] if column < len(chunk) else None
                part = scaling[scaling["experiment"] == name]
                for shown, axes in zip(QUANTITIES, of_chunk[:, column], strict=True):
                    _draw_quantity(axes, part, shown)
                if name is not None:
                    of_chunk[0, column].set_title(SCALED[name])


@dataclass(frozen=True)
class Quantity:
    """What one row of panels shows.

    Attributes
    ----------
    column, spread
        Columns of the table; None: there is none.
    label
        Of the axis.
    factor
        From the column's unit to the label's.
    logarithmic
        Whether the axis is; else it begins at zero.
    """

    column: str
    spread: str | None
    label: str
    factor: float
    logarithmic: bool


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
    axes.set_xticks(ticks, [_in_words(size) for size in ticks])
    if shown.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(_in_words))
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


def _in_words(value: float, _position: int | None = None) -> str:
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"


def _ticks(sizes: Iterable[float]) -> list[float]:
    """Return the sizes whose labels do not run into each other."""
    kept: list[float] = []
    for size in sorted(set(sizes)):
        if not kept or size >= LEAST_RATIO * kept[-1]:
            kept.append(size)
    return kept


def draw_accuracy(accuracy: pd.DataFrame, path: Path) -> None:
    """Draw the headline score of every model and baseline, one panel per task.

    Parameters
    ----------
    accuracy
        What `aam.evaluate.scores.accuracy_table` returned.
    path
        PNG to write.
    """
    tasks = list(dict.fromkeys(accuracy["task"]))
    columns = min(2, len(tasks))
    rows = -(-len(tasks) // columns)
    most = int(accuracy["task"].value_counts().max())
    height_in = rows * (1.1 + 0.3 * most)
    with picture(path, height_in, rows=rows, columns=columns) as (_, all_axes):
        for axes, task in zip(all_axes, tasks, strict=False):
            part = accuracy[accuracy["task"] == task]
            regression = part["kind"].iloc[0] == "regression"
            values = part[HEADLINE[part["kind"].iloc[0]]].to_numpy(dtype=float)
            roles = part["role"].tolist()
            bars(
                axes,
                [short(row_label(n, r)) for n, r in zip(part["name"], roles, strict=True)],
                values,
                [score(value) for value in values],
                [BLUE if role == "model" else GREY for role in roles],
                errors=part["mae_fold_sd"].to_list() if regression else None,
            )
            axes.set_title(f"{short(plain(task), 30)} (n={part['n'].iloc[0]})")
            headline_axis(axes, regression=regression)
        for axes in all_axes[len(tasks) :]:
            axes.set_visible(False)


def _with_speedup(rate: NDArray[np.float64], speedup: NDArray[np.float64]) -> list[str]:
    texts = []
    for value, factor in zip(rate, speedup, strict=True):
        if not np.isfinite(value):
            texts.append("not run")
        else:
            times = f" ({quantity(factor)}×)" if np.isfinite(factor) else ""
            texts.append(f"{quantity(value)}{times}")
    return texts
