"""The most important ASVs of a task, on the part of the tree that leads to them.

Shape suffixes: A ASVs in the order of the tree, C explained outputs.
"""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from aam.config.names import AAM
from aam.data.trees import read_tree
from aam.evaluate.importance import DIRECTION, MOST_IMPORTANT, TAXON, direction_columns
from aam.evaluate.task_report import TaskReport
from aam.report.figures.style import (
    BLUE,
    VERMILION,
    add_tooltips,
    draw_cells,
    saved_figure,
)
from aam.report.figures.trees import draw_tree
from aam.report.labels import format_quantity, shorten, taxon_name, to_words
from aam.report.page.answers import is_stopped
from aam.report.page.details import HIDDEN_IMPORTANCES

SENTENCE_IN = 0.8
"""Height of a figure that is a sentence."""
SHOWN_OUTPUTS = 12
"""Most outputs whose directions are shown: those with the largest."""


def draw(
    importance: pd.DataFrame,
    tree: Path,
    check: Mapping[str, Any],
    report: TaskReport,
    path: Path,
) -> None:
    """Draw the tree, the direction per output where there are several, and the importance.

    A task with a red light, of several targets one that has no other, gets a sentence instead.

    Parameters
    ----------
    importance
        An `importance.tsv`, of which the first rows are shown.
    tree
        The tree of the study, a Newick file.
    check
        An `importance_check.json`.
    report
        The scores of the task.
    path
        The figure to write.
    """
    if all(is_stopped(report.kind, target) for target in report.targets):
        _write_sentence(path)
        return
    importance = importance.head(MOST_IMPORTANT)
    pruned = read_tree(tree, importance["feature-id"].tolist())
    pruned.prune()
    names = [node.name for node in pruned.postorder() if node.is_tip()]
    table = importance.set_index("feature-id").loc[names]
    directions = direction_columns(importance)
    has_several_outputs = len(directions) > 1
    widths = [3.0, 4.0]
    if has_several_outputs:
        widths = [3.0, 0.5 + 0.2 * min(len(directions), SHOWN_OUTPUTS), 3.6]
    height_in = max(3.0, 1.6 + 0.19 * len(names))
    grid: dict[str, Any] = {"columns": len(widths), "width_ratios": widths, "sharey": True}
    with saved_figure(path, height_in, **grid) as (_, panels):
        draw_tree(panels[0], pruned)
        if has_several_outputs:
            _draw_directions(panels[1], table[directions])
        _draw_bars(panels[-1], table, check)
        _label_tips(panels, table)


def _label_tips(panels: Sequence[Axes], table: pd.DataFrame) -> None:
    """Write the names of the ASVs between the tree and the panel next to it."""
    # Matplotlib labels the first of shared axes alone, and the labels belong right of the tree.
    panels[1].tick_params(axis="y", left=False, labelleft=True)
    panels[1].set_yticks(range(len(table)), _labels(table))
    panels[0].tick_params(axis="y", left=False, labelleft=False)
    panels[-1].tick_params(axis="y", left=False)
    panels[0].set_ylim(len(table) - 0.4, -0.6)


def _write_sentence(path: Path) -> None:
    """Save a figure that says why there is none."""
    with saved_figure(path, SENTENCE_IN) as (_, (axes,)):
        axes.set_axis_off()
        axes.set_title("\n".join(textwrap.wrap(HIDDEN_IMPORTANCES, 90)), fontweight="normal")


def _labels(table: pd.DataFrame) -> list[str]:
    """Return shortened IDs; or the name of the taxon with the first letters of the ID."""
    if TAXON not in table:
        return [shorten(name, 16) for name in table.index]
    taxa = table[TAXON].fillna("").map(taxon_name)
    pairs = zip(taxa, table.index, strict=True)
    return [f"{shorten(taxon, 30)} ({name[:8]})" if taxon else name[:8] for taxon, name in pairs]


def _draw_directions(axes: Axes, direction: pd.DataFrame) -> None:
    """Draw which outputs each ASV raises or lowers, for the outputs of the largest directions."""
    by_size = direction.abs().max().sort_values(ascending=False, kind="stable").index
    kept = [name for name in direction.columns if name in set(by_size[:SHOWN_OUTPUTS])]
    values_AC = direction[kept].to_numpy(float)
    largest = float(np.abs(values_AC).max()) or 1.0
    outputs = [to_words(name.removeprefix(f"{DIRECTION}:")) for name in kept]
    texts = [
        f"{direction.index[row]}\n{'raises' if value > 0 else 'lowers'} {outputs[column]}"
        for (row, column), value in np.ndenumerate(values_AC)
    ]
    draw_cells(axes, values_AC, "RdBu", (-largest, largest), texts)
    labels = [shorten(name, 16) for name in outputs]
    axes.set_xticks(range(len(kept)), labels, rotation=90)
    axes.grid(visible=False)
    axes.set_title("Direction\nblue raises")


def _draw_bars(axes: Axes, table: pd.DataFrame, check: Mapping[str, Any]) -> None:
    """Draw the importance of each ASV; the colour is its direction where there is one output."""
    size = table["importance"].to_numpy(float)
    bar_colors: Any = BLUE
    if DIRECTION in table:
        raises = table[DIRECTION].to_numpy(float) >= 0
        bar_colors = np.where(raises, BLUE, VERMILION).tolist()
        handles = [Patch(color=BLUE, label="raises"), Patch(color=VERMILION, label="lowers")]
        # The legend stands above the bars, as it would hide some of them inside.
        title = shorten(to_words(check["outputs"][0]), 24)
        axes.legend(handles=handles, title=title, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    drawn = axes.barh(range(len(size)), size, color=bar_colors, height=0.68)
    first_lines = table[TAXON].fillna("") + "\n" if TAXON in table else [""] * len(size)
    rows = zip(first_lines, table.index, size, strict=True)
    texts = [f"{first}{name}\n{format_quantity(value)}" for first, name, value in rows]
    add_tooltips(drawn, texts)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.05 * size.max() if size.max() > 0 else 1)
    axes.set_xlabel("mean size of attribution")
    agreement = format_quantity(check["gradients"])
    axes.set_title(
        f"{AAM} alone, {check['samples']} samples\nrank correlation\nwith removal {agreement}"
    )
