"""Speed of the modes of training, and accuracy of all models and baselines."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import LogFormatter
from numpy.typing import NDArray

from aam.evaluate.figures.style import BLUE, GREEN, GREY, bars, headline_axis, picture
from aam.evaluate.labels import plain, quantity, row_label, score, short
from aam.evaluate.metrics import HEADLINE


def draw_speed(speed: pd.DataFrame, path: Path) -> None:
    """Draw throughput and peak memory of every mode, in the order of the table.

    Parameters
    ----------
    speed
        Columns `name`, `batch_size`, `samples_per_s`, `peak_memory_mb`, `speedup`; NaN where a
        mode could not run.
    path
        PNG to write.
    """
    names = [
        f"{short(plain(str(row.name_)), 40)}, batch {row.batch_size}"
        for row in speed.rename(columns={"name": "name_"}).itertuples()
    ]
    rate = speed["samples_per_s"].to_numpy(dtype=float)
    memory_gb = speed["peak_memory_mb"].to_numpy(dtype=float) / 1024
    with picture(path, 1.3 + 0.36 * len(names), columns=2, width_ratios=(3, 2)) as (_, axes):
        throughput, memory = axes
        measured = rate[rate > 0]
        low = float(10 ** np.floor(np.log10(measured.min() / 2))) if len(measured) else 1.0
        high = float(measured.max()) if len(measured) else 10.0
        texts = _with_speedup(rate, speed["speedup"].to_numpy(dtype=float))
        bars(throughput, names, rate, texts, [BLUE] * len(names), left=low)
        throughput.set_xscale("log")
        throughput.set_xlim(low, high * (high / low) ** 0.35)
        throughput.xaxis.set_major_formatter(LogFormatter(labelOnlyBase=True))
        throughput.set_xlabel("samples per second (logarithmic)")
        throughput.set_title("Throughput of training (× the first mode)")
        texts = [quantity(value) if np.isfinite(value) else "not measured" for value in memory_gb]
        bars(memory, [""] * len(names), memory_gb, texts, [GREEN] * len(names))
        memory.set_xlabel("peak memory (GiB)")
        memory.set_title("Memory")


def draw_accuracy(accuracy: pd.DataFrame, path: Path) -> None:
    """Draw the headline score of every model and baseline, one panel per task.

    Parameters
    ----------
    accuracy
        What `aam.evaluate.report.accuracy_table` returned.
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
                [short(row_label(n, r), 18) for n, r in zip(part["name"], roles, strict=True)],
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
            texts.append("could not run")
        else:
            times = f" ({quantity(factor)}×)" if np.isfinite(factor) else ""
            texts.append(f"{quantity(value)}{times}")
    return texts
