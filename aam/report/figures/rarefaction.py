"""Rarefaction curves, with what the chosen depth keeps and drops."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import EngFormatter, PercentFormatter

from aam.report.figures.style import BLACK, BLUE, VERMILION, saved_figure, tell


def draw(curve: pd.DataFrame, dropped: pd.DataFrame, depth: int, path: Path) -> None:
    """Draw expected richness by depth, and the fraction of samples that every depth keeps.

    Parameters
    ----------
    curve
        `sample-id`, `depth` and `richness`; the last depth of a sample is all of its reads.
    dropped
        Samples with fewer reads than `depth`, in `sample-id`.
    depth
        The rarefaction depth.
    path
        The figure to write.
    """
    with saved_figure(path, 3.6, columns=2, width_ratios=(3, 2)) as (_, (curves, kept)):
        _draw_curves(curves, curve, set(dropped["sample-id"]), depth)
        _draw_kept(kept, curve.groupby("sample-id")["depth"].max().to_numpy(), depth)
        for axes in (curves, kept):
            axes.axvline(depth, color=BLACK, linewidth=1, linestyle="--")
            axes.set_xlabel("depth (reads)")
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _draw_curves(axes: Axes, curve: pd.DataFrame, dropped: set[str], depth: int) -> None:
    lines = {
        str(name): part[["depth", "richness"]].to_numpy(dtype=float)
        for name, part in curve.groupby("sample-id")
    }
    texts = {name: f"{name}: {line[-1, 0]:.0f} reads" for name, line in lines.items()}
    kept_names = [name for name in lines if name not in dropped]
    alpha = float(np.clip(12 / max(len(kept_names), 1), 0.04, 0.6))
    looks: list[tuple[list[str], dict[str, Any]]] = [
        (kept_names, {"colors": BLUE, "linewidths": 0.8, "alpha": alpha}),
        ([name for name in lines if name in dropped], {"colors": VERMILION, "linewidths": 0.9}),
    ]
    for names, look in looks:
        drawn = LineCollection([lines[name] for name in names], **look)
        tell(drawn, (texts[name] for name in names))
        axes.add_collection(drawn)
    if ends := [line[-1] for name, line in lines.items() if name in dropped]:
        depths, richness = np.transpose(ends)
        axes.scatter(depths, richness, s=10, color=VERMILION, zorder=3)
    axes.plot([], [], color=BLUE, label="kept")
    if dropped:
        axes.plot([], [], color=VERMILION, marker="o", markersize=3, label="dropped: too few reads")
    axes.plot([], [], color=BLACK, linestyle="--", linewidth=1, label=f"chosen depth, {depth}")
    reads = curve.groupby("sample-id")["depth"].max()
    right = min(float(reads.max()), max(3.0 * depth, float(reads.median()))) * 1.04
    shown = curve.loc[curve["depth"] <= max(right, depth), "richness"]
    axes.set(xlim=(0, max(right, 1.04 * depth)), ylim=(0, 1.05 * max(float(shown.max()), 1.0)))
    title = f"Rarefaction curves of {len(lines)} samples"
    axes.set(ylabel="expected richness (ASVs)", title=title)
    axes.legend(loc="lower right")


def _draw_kept(axes: Axes, reads: np.ndarray, depth: int) -> None:
    depths = np.unique(np.append(reads, depth))
    share = 1 - np.searchsorted(np.sort(reads), depths, side="left") / len(reads)
    at_depth = float(np.mean(reads >= depth))
    axes.step([0, *depths, depths[-1]], [1, *share, 0], where="pre", color=BLUE)
    axes.plot([depth], [at_depth], "o", color=BLACK, markersize=4)
    right = min(float(depths[-1]), max(4.0 * depth, float(np.quantile(reads, 0.95))))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    title = f"Depth {depth} keeps {at_depth:.1%}"
    axes.set(xlim=(0, 1.04 * right), ylim=(0, 1.08), ylabel="samples kept", title=title)
