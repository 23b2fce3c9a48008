"""Training curves of one run, or of the runs of all folds."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from aam.evaluate.figures.style import BLACK, GREY, colors, picture
from aam.evaluate.labels import plain


@dataclass(frozen=True)
class Panel:
    """What one pair of axes shows."""

    title: str
    label: str
    holds: Callable[[str], bool]
    suffix: str = ""


PANELS = (
    Panel("Loss", "loss", lambda name: name == "loss" or name.endswith("_loss"), "_loss"),
    Panel(
        "Distances between held-out samples",
        "Pearson r, predicted and true",
        lambda name: name.endswith("_pearson"),
        "_pearson",
    ),
    Panel(
        "Masked nucleotides of held-out samples",
        "accuracy",
        lambda name: name.startswith("nucleotide_") and "accuracy" in name,
    ),
    Panel("Learning rate", "learning rate", lambda name: name == "learning_rate"),
    Panel("Gradient", "norm before clipping", lambda name: name == "gradient_norm"),
)

NAMES = {
    "loss": "total",
    "nucleotide_accuracy": "model",
    "nucleotide_baseline_accuracy": "commonest base",
    "nucleotide_accuracy_unseen_asvs": "model, ASVs not in training",
    "faith_pd": "Faith's PD",
}


def draw(history: pd.DataFrame, path: Path) -> None:
    """Draw what was recorded: losses, quality on held-out samples, learning rate, gradient.

    Parameters
    ----------
    history
        Columns `epoch`, `split` (train or validation), `name`, `value`; `fold` where several
        runs are in one table.
    path
        PNG to write.
    """
    names = history["name"].unique()
    panels = [panel for panel in PANELS if any(map(panel.holds, names))]
    assert panels, "nothing recorded"
    columns = 3 if len(panels) == 3 else min(2, len(panels))
    rows = -(-len(panels) // columns)
    with picture(path, 2.7 * rows + 0.2, rows=rows, columns=columns) as (_, all_axes):
        for axes, panel in zip(all_axes, panels, strict=False):
            _draw_panel(axes, panel, history[history["name"].map(panel.holds)])
        for axes in all_axes[len(panels) :]:
            axes.set_visible(False)


def _draw_panel(axes: Axes, panel: Panel, part: pd.DataFrame) -> None:
    names = list(dict.fromkeys(sorted(part["name"], key=lambda name: (name != "loss", name))))
    palette = dict(
        zip(names, [BLACK, *colors(6)] if names[0] == "loss" else colors(7), strict=False)
    )
    runs = ["name", "split"] + (["fold"] if "fold" in part else [])
    number = part["fold"].nunique() if "fold" in part else 1
    alone = part["split"].nunique() == 1
    labelled: set[str] = set()
    part = part.sort_values("name", key=lambda name: name.map(names.index), kind="stable")
    for key, line in part.groupby(runs, sort=False):
        name, split = str(key[0]), str(key[1])
        label = NAMES.get(name.removesuffix(panel.suffix), plain(name.removesuffix(panel.suffix)))
        if not alone:
            label += f", {split}"
        is_validation = split == "validation"
        axes.plot(
            line["epoch"],
            line["value"],
            color=GREY if "baseline" in name else palette.get(name, GREY),
            linestyle="--" if "baseline" in name or (is_validation and not alone) else "-",
            marker="o" if is_validation and "baseline" not in name else None,
            markersize=3,
            alpha=1.0 if number == 1 else 0.55,
            linewidth=1.4 if number == 1 else 0.9,
            label=None if label in labelled else label,
        )
        labelled.add(label)
    values = part["value"].to_numpy()
    if panel.label in ("loss", "norm before clipping") and values.min() > 0:
        if np.max(values) > 20 * np.min(values):
            axes.set_yscale("log")
    elif panel.label == "learning rate":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylim(bottom=0)
    axes.set_title(panel.title + (f", {number} folds" if number > 1 else ""))
    axes.set_xlabel("epoch")
    axes.set_ylabel(panel.label)
    axes.set_xlim(left=0)
    if len(labelled) > 1:
        if panel.label == "accuracy":
            low, high = axes.get_ylim()
            axes.set_ylim(max(0.0, low - 0.35 * (high - low)), high)
        axes.legend()
