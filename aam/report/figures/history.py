"""Training curves of one run, or of the runs of all folds."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from aam.config.metrics import FAITH_PD, METRICS
from aam.report.figures.style import BLACK, GREY, add_tooltips, colors, saved_panels
from aam.report.labels import format_quantity, to_words


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

OTHER_METRICS = ("bray_curtis", "robust_aitchison", FAITH_PD)
"""Metrics beside the kinds of UniFrac, which are named by their kind alone."""

NAMES = {
    "loss": "total",
    "nucleotide_accuracy": "model",
    "nucleotide_baseline_accuracy": "most frequent base",
    "nucleotide_accuracy_unseen_asvs": "model, ASVs not in training",
    **{metric: METRICS[metric].label for metric in OTHER_METRICS},
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
    parts = []
    for panel in PANELS:
        part = history[history["name"].str.fullmatch(panel.pattern)]
        if len(part):
            parts.append((panel, part.assign(value=part["value"] * panel.scale)))
    columns = 3 if len(parts) == 3 else 2
    row_in = 2.7 if parts else 0.3
    with saved_panels(path, len(parts) or 1, row_in, 0.2, columns=columns) as (_, all_axes):
        if not parts:
            # The recipe `kernel` is fitted at once.
            all_axes[0].set_title("Nothing was trained step by step.")
            all_axes[0].set_axis_off()
        for axes, (panel, part) in zip(all_axes, parts, strict=False):
            _draw_panel(axes, panel, part)


@dataclass(frozen=True)
class _Contents:
    """What the curves of a panel have in common."""

    names: list[str]
    """Names of what was recorded, the loss first."""
    keys: list[str]
    """Columns that tell the curves apart: `name` and `split`, then those of a run."""
    runs: int
    """Number of runs: of folds, recipes and models."""
    recipes: list[str]
    has_splits: bool
    """Whether there are both training and validation samples."""
    is_smoothed: bool
    """Whether running medians are drawn over the values."""

    @classmethod
    def from_records(cls, panel: Panel, part: pd.DataFrame) -> "_Contents":
        """Return what the records of a panel have in common."""
        run_keys = [key for key in ("fold", "recipe", "model") if key in part]
        runs = part.groupby(run_keys).ngroups if run_keys else 1
        names = sorted(part["name"].unique())
        if "loss" in names:
            names.remove("loss")
            names.insert(0, "loss")
        return cls(
            names=names,
            keys=["name", "split", *run_keys],
            runs=runs,
            recipes=sorted(part["recipe"].unique()) if "recipe" in part else [],
            has_splits=part["split"].nunique() > 1,
            is_smoothed=panel.noisy and len(part) >= LEAST_SMOOTHED * runs,
        )

    def curves(self, part: pd.DataFrame) -> Iterator[tuple["_Curve", pd.DataFrame]]:
        """Yield each curve with its records, in the order of the names."""
        rank = part["name"].map(self.names.index)
        ordered = part.iloc[np.argsort(rank.to_numpy(), kind="stable")]
        for key, line in ordered.groupby(self.keys, sort=False):
            name = str(key[0])
            split = str(key[1])
            recipe = str(line["recipe"].iloc[0]) if len(self.recipes) > 1 else None
            yield _Curve(name, split, recipe), line

    def label(self, curve: "_Curve") -> str:
        """Return what the legend says of a curve."""
        measured = curve.name.removesuffix("_loss").removesuffix("_pearson")
        words = [NAMES.get(measured, to_words(measured))]
        if self.has_splits:
            words.append(curve.split)
        if curve.recipe is not None:
            words.append(curve.recipe)
        return ", ".join(words)

    def color(self, curve: "_Curve") -> Any:
        """Return the colour of a curve: one for each name, or for each name and recipe."""
        position = self.names.index(curve.name)
        if curve.recipe is not None:
            number = position * len(self.recipes) + self.recipes.index(curve.recipe)
            return colors(7)[number % 7]
        palette = [BLACK, *colors(6)] if self.names[0] == "loss" else colors(7)
        if curve.is_baseline or position >= len(palette):
            return GREY
        return palette[position]


@dataclass(frozen=True)
class _Curve:
    """What one curve shows."""

    name: str
    """Name of what was recorded."""
    split: str
    recipe: str | None
    """None where the panel has no recipes to tell apart."""

    @property
    def is_baseline(self) -> bool:
        """Whether it is a constant guess, next to which the model is drawn."""
        return "baseline" in self.name

    @property
    def is_validation(self) -> bool:
        """Whether it was measured on samples that are not trained on."""
        return self.split == "validation"


def _draw_panel(axes: Axes, panel: Panel, part: pd.DataFrame) -> None:
    """Draw the curves of all runs, and scale and label the axes."""
    contents = _Contents.from_records(panel, part)
    labelled: set[str] = set()
    for curve, line in contents.curves(part):
        label = contents.label(curve)
        # A curve of another run looks the same: the legend has it once.
        legend_label = None if label in labelled else label
        labelled.add(label)
        drawn = _draw_curve(axes, contents, curve, line, legend_label)
        fold = f", fold {line['fold'].iloc[0]}" if "fold" in line else ""
        last = format_quantity(line["value"].iloc[-1])
        add_tooltips(drawn, [f"{label}{fold}: {last} at the end"])
    _scale(axes, panel, part["value"].to_numpy())
    axes.set(title=_title(panel, contents, part), xlabel="epoch", ylabel=panel.label)
    axes.set_xlim(0, None)
    if len(labelled) > 1:
        if panel.label == "accuracy":
            # The legend gets room below the curves.
            low, high = axes.get_ylim()
            axes.set_ylim(max(0.0, low - 0.35 * (high - low)), high)
        axes.legend()


def _title(panel: Panel, contents: _Contents, part: pd.DataFrame) -> str:
    title = panel.title
    if contents.is_smoothed:
        title += ", running median"
    if contents.runs > 1:
        title += f", {part['fold'].nunique()} folds"
    return title


def _draw_curve(
    axes: Axes, contents: _Contents, curve: _Curve, line: pd.DataFrame, label: str | None
) -> list[Line2D]:
    """Draw one quantity of one run over its epochs.

    Parameters
    ----------
    axes
        Where to draw.
    contents
        What the curves of the panel have in common.
    curve
        What this one shows.
    line
        Its records.
    label
        What the legend says of it; None: nothing.
    """
    value = line["value"]
    if contents.is_smoothed:
        faint = 0.4 / contents.runs
        axes.plot(line["epoch"], value, color=GREY, alpha=faint, linewidth=0.7)
        width = max(5, len(value) // 15)
        value = value.rolling(width, center=True, min_periods=1).median()
    is_dashed = curve.is_baseline or (curve.is_validation and contents.has_splits)
    has_markers = curve.is_validation and not curve.is_baseline
    is_alone = contents.runs == 1
    return axes.plot(
        line["epoch"],
        value,
        color=contents.color(curve),
        linestyle="--" if is_dashed else "-",
        marker="o" if has_markers else None,
        markersize=3,
        alpha=1.0 if is_alone else 0.55,
        linewidth=1.4 if is_alone else 0.9,
        label=label,
    )


def _scale(axes: Axes, panel: Panel, values: NDArray[np.float64]) -> None:
    """Take logarithms where values differ much, else begin at zero where the panel says so."""
    if panel.label in ("loss", "norm before clipping") and 0 < 20 * values.min() < values.max():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    elif panel.least_top is not None:
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.set_ylim(0, max(panel.least_top, axes.get_ylim()[1]))
