"""Named bars, and what is drawn as bars: scores of methods, and the speed of modes of training."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter
from numpy.typing import ArrayLike, NDArray

from aam.data.predictions import TARGET
from aam.evaluate.scores import HEADLINE
from aam.report.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    add_tooltips,
    saved_figure,
    saved_panels,
)
from aam.report.labels import (
    format_quantity,
    format_score,
    label_models,
    row_label,
    shorten,
    to_words,
)

MODE_GROUPS = {
    "order": "Changes added up",
    "alone": "Each change alone in the naive step",
    "batch": "The last modes",
}
"""Titles of the groups of modes of training."""


def draw_accuracy(accuracy: pd.DataFrame, path: Path) -> None:
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


def draw_speed(speed: pd.DataFrame, path: Path) -> None:
    """Draw throughput and peak memory of every mode, one row of panels per group.

    Parameters
    ----------
    speed
        The speed table, with the columns of `benchmarks.speed.ablation.COLUMNS`.
    path
        The figure to write.
    """
    groups = [(name, speed[speed["group"] == name]) for name in dict.fromkeys(speed["group"])]
    heights = [0.55 + 0.27 * len(part) for _, part in groups]
    grid: dict[str, Any] = {"columns": 2, "width_ratios": (3, 2), "height_ratios": heights}
    low, high = _rate_limits(speed["samples_per_s"].to_numpy(dtype=float))
    memory_gb = float(np.nan_to_num(speed["peak_memory_mb"].to_numpy(dtype=float)).max()) / 1024
    height_in = 0.3 + sum(heights)
    with saved_figure(path, height_in, rows=len(groups), **grid) as (_, all_axes):
        for number, (name, part) in enumerate(groups):
            throughput, memory = all_axes[2 * number : 2 * number + 2]
            _draw_modes(throughput, memory, part, low)
            throughput.set_xscale("log")
            throughput.set_xlim(low, high * (high / low) ** 0.4)
            throughput.xaxis.set_major_formatter(EngFormatter(sep=""))
            sizes = sorted(set(part["batch_size"]))
            batch = f" (batch {sizes[0]})" if len(sizes) == 1 else " (samples per step)"
            throughput.set_title(MODE_GROUPS[name] + batch)
            memory.set(xlim=(0, 1.3 * memory_gb or 1.0), title="Memory" if number == 0 else "")
        last_throughput, last_memory = all_axes[-2:]
        last_throughput.set_xlabel("samples per second, and times the naive step's")
        last_memory.set_xlabel("peak memory (GiB)")


def _rate_limits(rate: NDArray[np.float64]) -> tuple[float, float]:
    """Return a power of ten below all measured rates, and the highest of them."""
    measured = rate[rate > 0]
    if not len(measured):
        return 1.0, 10.0
    return float(10 ** np.floor(np.log10(measured.min() / 2))), float(measured.max())


def _draw_modes(throughput: Axes, memory: Axes, part: pd.DataFrame, low: float) -> None:
    """Draw the modes of one group, their throughput from `low` on."""
    sizes = part["batch_size"].tolist()
    names = [shorten(to_words(str(name)), 40) for name in part["name"]]
    if len(set(sizes)) > 1:
        names = [f"{name}, {size}" for name, size in zip(names, sizes, strict=True)]
    rate = part["samples_per_s"].to_numpy(dtype=float)
    speedup = part["speedup"].to_numpy(dtype=float)
    rate_texts = [_describe_rate(*pair) for pair in zip(rate, speedup, strict=True)]
    draw_bars(throughput, names, rate, rate_texts, [BLUE] * len(names), left=low)
    memory_gb = part["peak_memory_mb"].to_numpy(dtype=float) / 1024
    memory_texts = [format_quantity(value) if np.isfinite(value) else "" for value in memory_gb]
    draw_bars(memory, [""] * len(names), memory_gb, memory_texts, [GREEN] * len(names))


def _describe_rate(rate: float, speedup: float) -> str:
    """Return samples per second, with how many times the naive step's they are, if known."""
    if not np.isfinite(rate):
        return "not run"
    times = f" ({format_quantity(speedup)}×)" if np.isfinite(speedup) else ""
    return f"{format_quantity(rate)}{times}"


def draw_bars(
    axes: Axes,
    names: Sequence[str],
    values: ArrayLike,
    texts: Sequence[str],
    bar_colors: Sequence[Any],
    errors: ArrayLike | None = None,
    left: float = 0.0,
) -> None:
    """Draw named horizontal bars, the first on top, each with a text behind its end.

    Parameters
    ----------
    axes
        Where to draw.
    names
        Names of the bars.
    values
        Where they end; NaN: a text alone at `left`.
    texts
        Texts behind the ends.
    bar_colors
        Colours of the bars.
    errors
        Lengths of whiskers to both sides; None: there are none.
    left
        Where the axis begins.
    """
    lengths = np.nan_to_num(np.asarray(values, dtype=float), nan=left)
    half = np.zeros(len(lengths))
    if errors is not None:
        half = np.nan_to_num(np.asarray(errors, float))
    rows = np.arange(len(names))
    look: dict[str, Any] = {"height": 0.68, "error_kw": {"ecolor": BLACK, "elinewidth": 1}}
    drawn = axes.barh(rows, lengths, xerr=half, color=list(bar_colors), **look)
    add_tooltips(drawn, (f"{name}: {text}" for name, text in zip(names, texts, strict=True)))
    for row, end, text in zip(rows, lengths + half, texts, strict=True):
        axes.annotate(
            text, (end, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_yticks(rows, list(names))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    right = float((lengths + half).max())
    axes.set_xlim(left, 1.28 * right if right > left else left + 1)


def share_axis(axes: Axes, label: str) -> None:
    """Label the axis of bars that end between 0 and 1, with room for their texts.

    Parameters
    ----------
    axes
        The axes with the bars.
    label
        What is shown.
    """
    axes.set(xlabel=label, xlim=(0, 1.12), xticks=np.linspace(0, 1, 6))
