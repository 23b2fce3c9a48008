"""Rarefaction curves, with what the chosen depth keeps and drops."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import EngFormatter, PercentFormatter
from numpy.typing import NDArray

from aam.data.nouns import OF_ASVS, Nouns
from aam.data.table import read_biom
from aam.report.figures.style import BLACK, BLUE, VERMILION, add_tooltips, saved_figure


def draw(
    curve: pd.DataFrame, dropped: pd.DataFrame, depth: int, path: Path, table: Path | None = None
) -> None:
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
    table
        BIOM file of the imported table, which says what its features are called; None: ASVs.
    """
    nouns = OF_ASVS if table is None else Nouns.of_table(read_biom(table).facts)
    reads = curve.groupby("sample-id")["depth"].max()
    with saved_figure(path, 3.6, columns=2, width_ratios=(3, 2)) as (_, (curves, kept)):
        _draw_curves(curves, curve, set(dropped["sample-id"]), depth, nouns.many)
        _draw_kept_share(kept, reads.to_numpy(), depth)
        for axes in (curves, kept):
            axes.axvline(depth, color=BLACK, linewidth=1, linestyle="--")
            axes.set_xlabel("depth (reads)")
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _draw_curves(
    axes: Axes, curve: pd.DataFrame, dropped: set[str], depth: int, features: str
) -> None:
    """Draw a curve per sample; those of dropped samples end in a point."""
    lines = {
        str(name): part[["depth", "richness"]].to_numpy(dtype=float)
        for name, part in curve.groupby("sample-id")
    }
    kept_lines = {name: line for name, line in lines.items() if name not in dropped}
    dropped_lines = {name: line for name, line in lines.items() if name in dropped}
    # The more curves there are, the fainter each is.
    alpha = float(np.clip(12 / max(len(kept_lines), 1), 0.04, 0.6))
    _draw_lines(axes, kept_lines, colors=BLUE, linewidths=0.8, alpha=alpha)
    _draw_lines(axes, dropped_lines, colors=VERMILION, linewidths=0.9)
    if dropped_lines:
        depths, richness = np.transpose([line[-1] for line in dropped_lines.values()])
        axes.scatter(depths, richness, s=10, color=VERMILION, zorder=3)
    axes.plot([], [], color=BLUE, label="kept")
    if dropped:
        axes.plot([], [], color=VERMILION, marker="o", markersize=3, label="dropped: too few reads")
    axes.plot([], [], color=BLACK, linestyle="--", linewidth=1, label=f"chosen depth, {depth}")
    _limit_curves(axes, curve, depth)
    title = f"Rarefaction curves of {len(lines)} samples"
    axes.set(ylabel=f"expected richness ({features})", title=title)
    axes.legend(loc="lower right")


def _draw_lines(axes: Axes, lines: Mapping[str, NDArray[np.float64]], **look: Any) -> None:
    """Draw curves that look alike, each of which tells its sample's name and reads."""
    drawn = LineCollection(list(lines.values()), **look)
    texts = [f"{name}: {line[-1, 0]:.0f} reads" for name, line in lines.items()]
    add_tooltips(drawn, texts)
    axes.add_collection(drawn)


def _limit_curves(axes: Axes, curve: pd.DataFrame, depth: int) -> None:
    """Let the axes end where most curves do, or at three times the depth, if that is earlier."""
    reads = curve.groupby("sample-id")["depth"].max()
    right = min(float(reads.max()), max(3.0 * depth, float(reads.median()))) * 1.04
    shown = curve.loc[curve["depth"] <= max(right, depth), "richness"]
    axes.set_xlim(0, max(right, 1.04 * depth))
    axes.set_ylim(0, 1.05 * max(float(shown.max()), 1.0))


def _draw_kept_share(axes: Axes, reads_N: NDArray[np.int64], depth: int) -> None:
    """Draw the share of samples that have enough reads for each depth."""
    depths = np.unique(np.append(reads_N, depth))
    too_few = np.searchsorted(np.sort(reads_N), depths, side="left")
    kept_share = 1 - too_few / len(reads_N)
    chosen_share = float(np.mean(reads_N >= depth))
    # The line begins at depth 0, which all samples have, and falls to 0 behind the last depth.
    axes.step([0, *depths, depths[-1]], [1, *kept_share, 0], where="pre", color=BLUE)
    axes.plot([depth], [chosen_share], "o", color=BLACK, markersize=4)
    right = min(float(depths[-1]), max(4.0 * depth, float(np.quantile(reads_N, 0.95))))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    title = f"Depth {depth} keeps {chosen_share:.1%}"
    axes.set(xlim=(0, 1.04 * right), ylim=(0, 1.08), ylabel="samples kept", title=title)
