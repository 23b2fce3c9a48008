"""Training curves of one run, or of the runs of all folds."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from aam.evaluate.figures.style import BLACK, GREY, colors, saved_panels, tell
from aam.evaluate.labels import OTHER_METRICS, plain, quantity


@dataclass(frozen=True)
class Panel:
    """What one pair of axes shows."""

    title: str
    label: str
    pattern: str
    """Pattern of the names of what it shows."""
    scale: float = 1.0
    """Factor from the recorded unit to the one of the label."""
    least_top: float | None = None
    """The axis begins at zero and ends here or higher; None: it fits the values."""
    noisy: bool = False
    """A running median is drawn over the values, which are faint."""


PANELS = (
    Panel("Loss", "loss", r"loss|.*_loss"),
    Panel("Distances between held-out samples", "Pearson r, predicted and true", r".*_pearson"),
    Panel("Masked nucleotides of held-out samples", "accuracy", r"nucleotide_.*accuracy.*"),
    Panel("Learning rate", "learning rate", "learning_rate", least_top=0.0),
    Panel("Gradient", "norm before clipping", "gradient_norm", noisy=True),
    Panel("Throughput", "samples per s", "samples_per_s", least_top=0.0, noisy=True),
    Panel("Memory", "GiB", r"memory_mb|peak_memory_mb", scale=2**-10, least_top=0.0),
    Panel("Waiting for data", "% of the time", "loading_share", 100.0, least_top=10.0, noisy=True),
)
LEAST_SMOOTHED = 30
"""Points of a run from which on a running median says more than they do."""

NAMES = {
    "loss": "total",
    "nucleotide_accuracy": "model",
    "nucleotide_baseline_accuracy": "most frequent base",
    "nucleotide_accuracy_unseen_asvs": "model, ASVs not in training",
    **OTHER_METRICS,
    "memory_mb": "process",
    "peak_memory_mb": "peak on the device",
}


def draw(history: pd.DataFrame, path: Path) -> None:
    """Draw what was recorded: losses, quality on held-out samples, what the run took.

    Parameters
    ----------
    history
        `name`, `split`, `epoch` and `value` of each record; NaN was not measured. Where several
        runs are in one table, `fold`, `recipe` and `model` tell them apart.
    path
        The figure to write.
    """
    history = history.dropna(subset=["value"])
    parts = [(panel, history[history["name"].str.fullmatch(panel.pattern)]) for panel in PANELS]
    parts = [(panel, part) for panel, part in parts if len(part)]
    columns = 3 if len(parts) == 3 else 2
    row_in = 2.7 if parts else 0.3
    with saved_panels(path, len(parts) or 1, row_in, 0.2, columns=columns) as (_, all_axes):
        if not parts:  # The recipe `kernel` is fitted at once.
            all_axes[0].set_title("Nothing was trained step by step.")
            all_axes[0].set_axis_off()
        for axes, (panel, part) in zip(all_axes, parts, strict=False):
            _draw_panel(axes, panel, part.assign(value=part["value"] * panel.scale))


def _draw_panel(axes: Axes, panel: Panel, part: pd.DataFrame) -> None:
    names = list(dict.fromkeys(sorted(part["name"], key=lambda name: (name != "loss", name))))
    palette = dict(
        zip(names, [BLACK, *colors(6)] if names[0] == "loss" else colors(7), strict=False)
    )
    runs = ["name", "split", *(key for key in ("fold", "recipe", "model") if key in part)]
    number = part.groupby(runs[2:]).ngroups if len(runs) > 2 else 1
    recipes = sorted(part["recipe"].unique()) if "recipe" in part else []
    alone = part["split"].nunique() == 1
    smoothed = panel.noisy and len(part) >= LEAST_SMOOTHED * number
    labelled: set[str] = set()
    part = part.sort_values("name", key=lambda name: name.map(names.index), kind="stable")
    for key, line in part.groupby(runs, sort=False):
        name = str(key[0])
        split = str(key[1])
        measured = name.removesuffix("_loss").removesuffix("_pearson")
        label = NAMES.get(measured, plain(measured))
        if not alone:
            label += f", {split}"
        color = GREY if "baseline" in name else palette.get(name, GREY)
        if len(recipes) > 1:
            recipe = str(line["recipe"].iloc[0])
            place = names.index(name) * len(recipes) + recipes.index(recipe)
            label = f"{label}, {recipe}"
            color = colors(7)[place % 7]
        is_validation = split == "validation"
        if smoothed:
            axes.plot(line["epoch"], line["value"], color=GREY, alpha=0.4 / number, linewidth=0.7)
        value = line["value"]
        if smoothed:
            width = max(5, len(value) // 15)
            value = value.rolling(width, center=True, min_periods=1).median()
        drawn = axes.plot(
            line["epoch"],
            value,
            color=color,
            linestyle="--" if "baseline" in name or (is_validation and not alone) else "-",
            marker="o" if is_validation and "baseline" not in name else None,
            markersize=3,
            alpha=1.0 if number == 1 else 0.55,
            linewidth=1.4 if number == 1 else 0.9,
            label=None if label in labelled else label,
        )
        fold = f", fold {line['fold'].iloc[0]}" if "fold" in line else ""
        tell(drawn, [f"{label}{fold}: {quantity(line['value'].iloc[-1])} at the end"])
        labelled.add(label)
    _scale(axes, panel, part["value"].to_numpy())
    title = panel.title + (", running median" if smoothed else "")
    title += f", {part['fold'].nunique()} folds" if number > 1 else ""
    axes.set(title=title, xlabel="epoch", ylabel=panel.label, xlim=(0, None))
    if len(labelled) > 1:
        if panel.label == "accuracy":
            low, high = axes.get_ylim()
            axes.set_ylim(max(0.0, low - 0.35 * (high - low)), high)
        axes.legend()


def _scale(axes: Axes, panel: Panel, values: NDArray[np.float64]) -> None:
    if panel.label in ("loss", "norm before clipping") and 0 < 20 * values.min() < values.max():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    elif panel.least_top is not None:
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.set_ylim(0, max(panel.least_top, axes.get_ylim()[1]))
