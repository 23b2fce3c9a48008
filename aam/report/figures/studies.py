"""A bar for each study: how it is predicted by models that never saw it, and by those that did."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from aam.evaluate.task_report import Studies, TaskReport
from aam.report.figures.bars import draw_bars, share_axis
from aam.report.figures.style import BLACK, BLUE, VERMILION, add_tooltips, saved_figure
from aam.report.labels import DASH, choose_decimals, name_and_unit, shorten, to_words

MOST_STUDIES = 40
"""Studies of a panel, the largest; the table of the page has all."""


def draw(report: TaskReport, path: Path) -> None:
    """Draw a panel per target.

    Parameters
    ----------
    report
        The scores of the task that leaves out whole studies.
    path
        The figure to write.
    """
    panels = []
    for key, target in report.by_key():
        assert target.studies is not None, "the task leaves out studies"
        panels.append((key.column, target.column, target.studies))
    heights = [1.2 + 0.24 * min(len(studies.studies), MOST_STUDIES) for *_, studies in panels]
    grid: dict[str, Any] = {"rows": len(panels), "height_ratios": heights}
    with saved_figure(path, sum(heights) + 0.3, **grid) as (figure, all_axes):
        for axes, (title, column, studies) in zip(all_axes, panels, strict=True):
            _draw_studies(axes, report.kind, column, studies)
            several = f"{shorten(to_words(title), 30)}: " if title else ""
            shown = f"{len(studies.scored)} of {len(studies.studies)} studies have a score"
            if len(studies.studies) > MOST_STUDIES:
                shown += f"; the {MOST_STUDIES} largest"
            axes.set_title(f"{several}{shorten(to_words(studies.column), 30)}, {shown}")
        figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _draw_studies(axes: Axes, kind: str, column: str, studies: Studies) -> None:
    """Draw the scores of a target, the largest study on top."""
    shown = studies.studies[:MOST_STUDIES]
    is_number = kind == "regression"
    decimals = choose_decimals(studies.unseen.score) if is_number else 2

    def write(value: float | None) -> str:
        return DASH if value is None else f"{value:,.{decimals}f}"

    names = [f"{shorten(one.study, 28)} (n={one.n})" for one in shown]
    values = [float("nan") if one.unseen is None else one.unseen for one in shown]
    draw_bars(axes, names, values, [""] * len(shown), [BLUE] * len(shown))
    within_by_row = {row: one.within for row, one in enumerate(shown) if one.within is not None}
    # A white edge tells a dot from the bar that it lies on, whatever the colours look like.
    dots = axes.scatter(
        list(within_by_row.values()),
        list(within_by_row),
        s=34,
        color=VERMILION,
        edgecolors="white",
        linewidths=1,
        zorder=3,
        label="other samples of the study were seen",
    )
    tips = (f"{names[row]}: {write(value)}" for row, value in within_by_row.items())
    add_tooltips(dots, tips)
    for row, one in enumerate(shown):
        # Texts stand behind the bar and its dot.
        end = max([score for score in (one.unseen, one.within) if score is not None], default=0.0)
        text = "one class: no score"
        if one.unseen is not None:
            text = f"{write(one.unseen)} ({write(one.within)})"
        axes.annotate(
            text, (end, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.axvline(
        studies.unseen.guessing.score,
        color=BLACK,
        linestyle="--",
        linewidth=0.9,
        label="guessing",
        zorder=2,
    )
    axes.barh([0], [0], color=BLUE, label="the study was never seen")
    if is_number:
        unit = name_and_unit(column)[1]
        counted = "" if unit is None else f", {unit}"
        axes.set_xlabel(f"mean absolute error{counted} (lower is better); in brackets the dot")
        ends = [*within_by_row.values(), *(value for value in values if value == value)]
        axes.set_xlim(0, 1.3 * max(ends))
    else:
        share_axis(axes, "balanced accuracy (higher is better); in brackets the dot")
