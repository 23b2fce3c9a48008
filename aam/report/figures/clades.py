"""The clades that say something of a label, in all samples.

Shape suffixes: V clades, N samples.
"""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from aam.data.folds import OBSERVED
from aam.data.predictions import TARGET
from aam.data.trees import read_tree
from aam.evaluate.task_report import TaskReport
from aam.report.figures.style import saved_figure
from aam.report.figures.trees import draw_tree
from aam.report.labels import shorten, to_words
from aam.report.page.answers import is_stopped
from aam.report.page.named_clades import short_name
from aam.util.scikit_bio import TreeNode

MOST_SHOWN = 12
"""Clades of a target that are shown."""
NAME = 34
"""Letters of the name of a clade."""
NOTHING = "Nothing can be told of single clades."
"""What stands in the place of a figure."""


def draw(
    clades: pd.DataFrame,
    samples: pd.DataFrame,
    tree: Path,
    report: TaskReport,
    path: Path,
) -> None:
    """Draw a tree of the clades, and the log-ratio of each in every sample, sorted by the label.

    Where nothing is named, and under a red light, a sentence stands in the place of the figure.

    Parameters
    ----------
    clades, samples
        Tables of `aam.stages.clades`.
    tree
        Its Newick file. Of a single clade, or features that all hang on the root, none is drawn.
    report
        The scores of the task.
    path
        The figure to write.
    """
    shown = {}
    for target in report.targets:
        if is_stopped(report.kind, target):
            continue
        rows = clades
        if TARGET in clades:
            rows = clades[clades[TARGET] == target.column]
        if len(rows):
            shown[target.column] = rows.head(MOST_SHOWN)
    if not shown:
        with saved_figure(path, 0.6) as (_, (axes,)):
            axes.set_axis_off()
            axes.set_title("\n".join(textwrap.wrap(NOTHING, 90)), fontweight="normal")
        return
    trees = {column: _prune(tree, rows) for column, rows in shown.items()}
    heights = [len(rows) for rows in shown.values()]
    height_in = sum(1.1 + 0.26 * rows for rows in heights)
    grid: dict[str, Any] = {"height_ratios": [2 + rows for rows in heights]}
    if any(trees.values()):
        grid |= {"columns": 2, "width_ratios": [1.0, 5.0]}
    with saved_figure(path, height_in, rows=len(shown), **grid) as (_, panels):
        width = len(panels) // len(shown)
        for number, (column, rows) in enumerate(shown.items()):
            row = panels[number * width : (number + 1) * width]
            pruned = trees[column]
            if pruned is not None:
                names = [tip.name for tip in pruned.tips()]
                rows = rows.set_index("representative").loc[names].reset_index()
                draw_tree(row[0], pruned)
                _leave_the_tree(row[0], len(rows))
            elif len(row) > 1:
                row[0].set_axis_off()
            name = OBSERVED + column if OBSERVED + column in samples else "observed"
            _draw_clades(row[-1], rows, samples, samples[name], report.kind)
            row[-1].set_title(f"Samples by {to_words(column)}")


def _prune(tree: Path, rows: pd.DataFrame) -> TreeNode | None:
    """Return the tree of some clades; None where it says nothing of them."""
    part = read_tree(tree, rows["representative"].tolist())
    part.prune()
    is_star = all(child.is_tip() for child in part.children)
    return None if is_star else part


def _leave_the_tree(axes: Axes, tips: int) -> None:
    """Take away all but the tree, in rows as high as those of an image."""
    axes.set_ylim(tips - 0.5, -0.5)
    axes.set_title("")
    axes.set_axis_off()


def _draw_clades(
    axes: Axes, rows: pd.DataFrame, samples: pd.DataFrame, observed: pd.Series, kind: str
) -> None:
    """Draw the clades of a target."""
    names = rows["clade"].astype(str).tolist()
    value_VN = samples[names].to_numpy(np.float64).T
    if kind == "regression":
        observed = pd.to_numeric(observed)
        order = np.argsort(observed.to_numpy(np.float64), kind="stable")
    else:
        labels = observed.astype(str).to_numpy()
        order = np.lexsort((value_VN[0], labels))
    spread_V = np.maximum(value_VN.std(axis=1), 1e-9)
    scaled_VN = (value_VN - value_VN.mean(axis=1, keepdims=True)) / spread_V[:, None]
    image = axes.imshow(
        scaled_VN[:, order],
        aspect="auto",
        interpolation="nearest",
        cmap="RdBu_r",
        vmin=-2.5,
        vmax=2.5,
    )
    axes.grid(visible=False)
    axes.set_yticks(range(len(names)), [_label(row) for _, row in rows.iterrows()])
    places, texts = _ticks(observed.iloc[order], kind)
    axes.set_xticks(places, texts)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.01, fraction=0.03)
    bar.set_label("log-ratio, in sd")


def _label(row: pd.Series) -> str:
    """Return the name and the size of a clade."""
    return f"{shorten(short_name(row), NAME)} ({row['features']:.0f})"


def _ticks(observed: pd.Series, kind: str) -> tuple[list[float], list[str]]:
    """Return where the labels stand below sorted samples, and what they are."""
    if kind == "regression":
        places = np.unique(np.linspace(0, len(observed) - 1, 6).astype(int))
        return places.astype(float).tolist(), [f"{observed.iloc[at]:g}" for at in places]
    labels = observed.astype(str).to_numpy()
    names = list(dict.fromkeys(labels.tolist()))
    middles = [float(np.flatnonzero(labels == name).mean()) for name in names]
    return middles, [shorten(name, 16) for name in names]
