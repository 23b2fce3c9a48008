"""Speed of the modes of training."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from aam.report.figures.style import BLUE, GREEN, draw_bars, saved_figure
from aam.report.labels import format_quantity, shorten, to_words

GROUPS = {
    "order": "Changes added up",
    "alone": "Each change alone in the naive step",
    "batch": "The last modes",
}


def draw(speed: pd.DataFrame, path: Path) -> None:
    """Draw throughput and peak memory of every mode, one row of panels per group.

    Parameters
    ----------
    speed
        The speed table, with the columns of `aam.bench.ablation.COLUMNS`.
    path
        The figure to write.
    """
    groups = [(name, speed[speed["group"] == name]) for name in dict.fromkeys(speed["group"])]
    heights = [0.55 + 0.27 * len(part) for _, part in groups]
    grid: dict[str, Any] = {"columns": 2, "width_ratios": (3, 2), "height_ratios": heights}
    rate = speed["samples_per_s"].to_numpy(dtype=float)
    measured = rate[rate > 0]
    low = float(10 ** np.floor(np.log10(measured.min() / 2))) if len(measured) else 1.0
    high = float(measured.max()) if len(measured) else 10.0
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
            throughput.set_title(GROUPS[name] + batch)
            memory.set(xlim=(0, 1.3 * memory_gb or 1.0), title="Memory" if number == 0 else "")
        throughput.set_xlabel("samples per second, and times the naive step's")
        memory.set_xlabel("peak memory (GiB)")


def _draw_modes(throughput: Axes, memory: Axes, part: pd.DataFrame, low: float) -> None:
    """Draw the modes of one group, their throughput from `low` on."""
    sizes = part["batch_size"].tolist()
    names = [shorten(to_words(str(name)), 40) for name in part["name"]]
    if len(set(sizes)) > 1:
        names = [f"{name}, {size}" for name, size in zip(names, sizes, strict=True)]
    rate = part["samples_per_s"].to_numpy(dtype=float)
    speedup = part["speedup"].to_numpy(dtype=float)
    times = [f" ({format_quantity(factor)}×)" if np.isfinite(factor) else "" for factor in speedup]
    texts = [
        f"{format_quantity(value)}{text}" if np.isfinite(value) else "not run"
        for value, text in zip(rate, times, strict=True)
    ]
    draw_bars(throughput, names, rate, texts, [BLUE] * len(names), left=low)
    memory_gb = part["peak_memory_mb"].to_numpy(dtype=float) / 1024
    texts = [format_quantity(value) if np.isfinite(value) else "" for value in memory_gb]
    draw_bars(memory, [""] * len(names), memory_gb, texts, [GREEN] * len(names))
