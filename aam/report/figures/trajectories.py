"""What is observed and predicted of some people over time, a panel for each.

Shape suffixes: N samples, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.lines import Line2D

from aam.data.metadata import metadata_column
from aam.data.predictions import by_target, class_codes, class_names, class_probabilities, numbers
from aam.data.times import read_as_dates, read_times
from aam.evaluate.task_report import People, TaskReport
from aam.report.figures.style import BLACK, BLUE, GREY, add_tooltips, colors, saved_figure
from aam.report.labels import DASH, format_quantity, name_and_unit, shorten, to_words

MOST_PEOPLE = 6
"""People that have a panel."""
COLUMNS = 3
MANY_TIMES = 3
"""Times that people need to be drawn, where as many people as there are panels have them."""


@dataclass(frozen=True)
class _Axis:
    """What the vertical axes of the panels of a target show."""

    label: str
    classes: Sequence[str]
    """Classes in the order of their colours; of numbers there are none."""
    chance: float | None
    """Where chance lies; None: no such line is drawn."""


@dataclass(frozen=True)
class _Person:
    """The samples of a person that have a time, the earliest first."""

    name: str
    samples: pd.DataFrame
    """`time`, `text` of it, `observed`, `shown` on the vertical axis, and `error`."""


def draw(report: TaskReport, predictions: pd.DataFrame, metadata: pd.DataFrame, path: Path) -> None:
    """Draw the course of a few people, from the best predicted to the worst.

    Of the people with three times or more (of two, where few have three), ranked by the mean error
    of their samples, those at even distances of the ranks have a panel. So the figure shows the
    range, and no choice of the writer.

    Parameters
    ----------
    report
        The scores of a task with times.
    predictions
        The cross-validated predictions of its answer; rows of fold -1 are left out.
    metadata
        Metadata of the samples, with a column `sample_id`.
    path
        The figure to write; it says so where nobody has two samples with a time.
    """
    by_sample = metadata.set_index("sample_id")
    drawn = []
    for key, target in report.by_key():
        assert target.people is not None, "the task has times"
        table = by_target(predictions)[key.column]
        table = table[table["fold"] >= 0].reset_index(drop=True)
        axis, samples = _show(report.kind, target.column, table)
        # Samples of other tasks may write times another way.
        times = metadata_column(by_sample, target.people.time).loc[samples["sample-id"]]
        found = _people(samples, target.people, by_sample, times)
        drawn.append((key.column, target.people, axis, found, read_as_dates(times)))
    if not any(found for *_, found, _ in drawn):
        with saved_figure(path, 0.6) as (_, (axes,)):
            axes.set_axis_off()
            axes.text(0, 0.5, "Nobody has two samples with a time.", va="center")
        return
    rows = [-(-max(len(_choose(found)), 1) // COLUMNS) for *_, found, _ in drawn]
    height_in = 2.1 * sum(rows) + 0.8
    with saved_figure(path, height_in, rows=sum(rows), columns=COLUMNS) as (figure, all_axes):
        first = 0
        titles = []
        for (name, people, axis, found, are_dates), count in zip(drawn, rows, strict=True):
            panels = all_axes[COLUMNS * first : COLUMNS * (first + count)]
            _draw_people(panels, people, axis, _choose(found), are_dates=are_dates)
            first += count
            several = f"{shorten(to_words(name), 30)}: " if name else ""
            titles.append(f"{several}{_title(people, found)}")
        figure.suptitle("\n".join(titles), x=0.01, ha="left", fontsize=10)
        figure.legend(handles=_handles(drawn[0][2]), loc="outside lower center", ncols=4)


def _show(kind: str, column: str, table: pd.DataFrame) -> tuple[_Axis, pd.DataFrame]:
    """Return what the vertical axis shows, and what each sample has on it."""
    names = [] if kind == "regression" else class_names(table)
    rows = pd.DataFrame({"sample-id": table["sample-id"], "observed": table["observed"]})
    if kind == "regression":
        rows["observed"] = numbers(table["observed"])
        rows["shown"] = numbers(table["predicted"])
        rows["error"] = (rows["observed"] - rows["shown"]).abs()
        words, unit = name_and_unit(column)
        label = shorten(words, 24) if unit is None else f"{shorten(words, 20)}, {unit}"
        return _Axis(label, (), None), rows
    share_NK = class_probabilities(table, names)
    code_N = class_codes(table["observed"], names)
    right_N = share_NK[np.arange(len(code_N)), code_N]
    rows["error"] = 1.0 - right_N
    if len(names) == 2:
        rows["shown"] = share_NK[:, 1]
        return _Axis(f"probability of {shorten(names[1], 14)}", names, 0.5), rows
    rows["shown"] = right_N
    return _Axis("probability of observed", names, 1 / len(names)), rows


def _people(
    samples: pd.DataFrame, people: People, metadata: pd.DataFrame, times: pd.Series
) -> list[_Person]:
    """Return the people with times enough, the best predicted first."""
    person = metadata_column(metadata, people.column).loc[samples["sample-id"]]
    table = samples.assign(
        person=person.to_numpy(), time=read_times(times).to_numpy(), text=times.to_numpy()
    )
    table = table[table["time"].notna()].sort_values("time", kind="stable")
    counts = table.groupby("person")["time"].nunique()
    least = MANY_TIMES if (counts >= MANY_TIMES).sum() >= MOST_PEOPLE else 2
    error = table.groupby("person")["error"].mean()[counts >= least]
    ranked = error.sort_values(kind="stable").index
    return [_Person(str(name), table[table["person"] == name]) for name in ranked]


def _choose(ranked: Sequence[_Person]) -> list[_Person]:
    """Return people at even distances of their ranks, the first and the last among them."""
    if len(ranked) <= MOST_PEOPLE:
        return list(ranked)
    positions = np.linspace(0, len(ranked) - 1, MOST_PEOPLE).round().astype(int)
    return [ranked[position] for position in positions]


def _title(people: People, found: Sequence[_Person]) -> str:
    """Say how many people are shown, and which."""
    shown = len(_choose(found))
    order = "from the best predicted to the worst" if shown > 1 else "with several times"
    return f"{shown} of {people.people} people ({shorten(to_words(people.column), 24)}), {order}"


def _draw_people(
    panels: Sequence[Axes],
    people: People,
    axis: _Axis,
    chosen: Sequence[_Person],
    *,
    are_dates: bool,
) -> None:
    """Draw a panel per person, with one scale for all of them."""
    for axes in panels[len(chosen) :]:
        axes.set_visible(False)
    for position, (axes, person) in enumerate(zip(panels, chosen, strict=False)):
        _draw_person(axes, axis, person)
        count = len(person.samples)
        axes.set_title(f"{shorten(person.name, 20)} (n={count})", fontsize=9)
        if position % COLUMNS == 0:
            axes.set_ylabel(axis.label)
        if position + COLUMNS >= len(chosen):
            axes.set_xlabel(shorten(to_words(people.time), 28))
        if are_dates:
            locator = AutoDateLocator(maxticks=5)
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    limits = [axes.get_ylim() for axes, _ in zip(panels, chosen, strict=False)]
    if axis.classes:
        limits = [(-0.06, 1.06)]
    for axes in panels[: len(chosen)]:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _draw_person(axes: Axes, axis: _Axis, person: _Person) -> None:
    """Draw what is predicted as a line, and what is observed as dots."""
    table = person.samples
    predicted = table.groupby("time")["shown"].mean()
    style: dict[str, Any] = {"color": GREY if axis.classes else BLUE, "linewidth": 1.2, "zorder": 2}
    axes.plot(predicted.index, predicted.to_numpy(), **style)
    if axis.chance is not None:
        axes.axhline(axis.chance, color=BLACK, linestyle="--", linewidth=0.8, zorder=1)
    if axis.classes:
        palette = colors(len(axis.classes))
        dots = axes.scatter(
            table["time"],
            table["shown"],
            s=22,
            c=[palette[code] for code in class_codes(table["observed"], axis.classes)],
            edgecolors="white",
            linewidths=0.5,
            zorder=3,
        )
    else:
        observed = table.groupby("time")["observed"].mean()
        axes.plot(observed.index, observed.to_numpy(), color=BLACK, linewidth=0.6, zorder=1)
        dots = axes.scatter(table["time"], table["observed"], s=14, color=BLACK, zorder=3)
    add_tooltips(dots, [_tooltip(axis, row) for _, row in table.iterrows()])


def _tooltip(axis: _Axis, row: pd.Series) -> str:
    """Return the words under the pointer at a sample."""
    if axis.classes:
        return f"{row['text']}: {row['observed']}, {axis.label} {row['shown']:.2f}"
    observed, predicted = (
        DASH if pd.isna(value) else format_quantity(value)
        for value in (row["observed"], row["shown"])
    )
    return f"{row['text']}: observed {observed}, predicted {predicted}"


def _handles(axis: _Axis) -> list[Line2D]:
    """Return what the legend shows."""
    marks: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 5}
    if not axis.classes:
        return [
            Line2D([], [], color=BLACK, label="observed", **marks),
            Line2D([], [], color=BLUE, linewidth=1.2, label="predicted, never seen in training"),
        ]
    palette = colors(len(axis.classes))
    handles = [
        Line2D([], [], color=color, label=shorten(name, 20), **marks)
        for name, color in zip(axis.classes, palette, strict=True)
    ][:7]
    line = Line2D([], [], color=BLACK, linestyle="--", linewidth=0.8, label="chance")
    return [*handles, line]
