"""Speed of the modes of training."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

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
            throughput.set_title(GROUPS[name] + batch)
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
