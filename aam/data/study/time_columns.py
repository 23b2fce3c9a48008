"""Which column says when samples were taken, and what a task can ask of people over time."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from aam.config.questions import FORECAST
from aam.config.sections.task import Folds
from aam.config.settings.tasks import FoldsSettings
from aam.data.cell_values import read_numbers
from aam.data.roles import time_rank
from aam.data.splits import divide
from aam.data.study.columns import Column, lies_within, unit_columns
from aam.data.study.drafts import TaskDraft
from aam.data.times import AUTO, read_cut, read_times
from aam.util.errors import InputError, first_few, first_names

LEAST_PEOPLE = 5
"""People with samples of two times, below which nothing that is said of them can be tested."""
MOST_UNTIMED = 0.2
"""Share of the samples without a time from which on a column is not proposed."""
LEAST_OWN_TIMES = 0.5
"""Times per sample of the people who have several, below which a column does not tell them
apart."""
ALMOST_ALL = 0.9
"""Part of the times that the finest column tells, with which a likelier name is preferred."""


@dataclass(frozen=True, eq=False)
class TimeColumn:
    """A column that says when samples were taken."""

    column: Column
    time: pd.Series
    """The time of each sample, NaN where there is none."""


def find_time_columns(
    columns: Sequence[Column], together: Column | None
) -> tuple[list[TimeColumn], list[str]]:
    """Return the columns that say when samples of a person were taken, and why others do not.

    The times of at least `LEAST_PEOPLE` people with several samples differ, and most of their
    samples have a time of their own. Columns that tell nearly as many times as the finest are
    ranked by their names (`aam.data.roles.time_rank`).

    Parameters
    ----------
    columns
        Columns of the metadata.
    together
        The column of people, whose samples stay together; None: there is none.
    """
    named = [one for one in columns if time_rank(one.name) is not None and one is not together]
    if together is None or not named:
        return [], []
    people = together.values.dropna()
    if (people.value_counts() > 1).sum() < LEAST_PEOPLE:
        return [], []
    inside = [one.name for one in unit_columns([*columns]) if lies_within(one, together)]
    if inside:
        shared = f"each `{together.name}` has several values of {first_few(inside)}"
        return [], [f"{shared}, whose samples do not follow each other"]
    found: list[TimeColumn] = []
    refused: list[str] = []
    for column in named:
        time = read_times(column.values)
        why = _why_no_course(column, time, people)
        if why is None:
            found.append(TimeColumn(column, time))
        else:
            refused.append(f"`{column.name}`: {why}")
    told = [_count_times(one.time, people) for one in found]
    is_fine = [count >= ALMOST_ALL * max(told) for count in told]

    def rank(position: int) -> tuple[bool, int, int]:
        return not is_fine[position], time_rank(found[position].column.name) or 0, -told[position]

    return [found[position] for position in sorted(range(len(found)), key=rank)], refused


def _count_times(time: pd.Series, people: pd.Series) -> int:
    """Return how many different pairs of a person and a time there are."""
    return len(pd.DataFrame({"person": people, "time": time}).dropna().drop_duplicates())


def _why_no_course(column: Column, time: pd.Series, people: pd.Series) -> str | None:
    """Return why the values of a column say nothing of a course; None: they do."""
    given = column.values.loc[people.index].dropna()
    unread = given[time.loc[given.index].isna()]
    if len(unread) > MOST_UNTIMED * max(len(given), 1):
        shown = first_names(dict.fromkeys(unread), limit=2)
        verb = "is no time" if unread.nunique() == 1 else "are no times"
        return f"{shown} {verb}; write numbers, such as days, or dates as 2014-02-07"
    known = time.loc[people.index].dropna()
    if len(known) < (1 - MOST_UNTIMED) * len(people):
        return f"no value in {len(people) - len(known)} of {len(people)} samples"
    of_known = people.loc[known.index]
    is_repeated = of_known.groupby(of_known).transform("size") > 1
    known = known[is_repeated]
    of_known = of_known[is_repeated]
    times = known.groupby(of_known).nunique()
    several = int((times > 1).sum())
    if several < LEAST_PEOPLE:
        return f"{several} of {len(times)} `{people.name}` with several samples have two times"
    if times.sum() < LEAST_OWN_TIMES * len(known):
        return f"{len(known)} samples have {times.sum()} times of their `{people.name}`"
    return None


@dataclass(frozen=True, eq=False)
class Course:
    """What a task asks of people over time."""

    time: str | None
    """The column of times; None: nothing is asked."""
    has_forecast: bool
    """Whether later samples are also predicted from earlier ones."""
    why_not: str | None
    """Why there are no times, or no forecast."""


def propose_course(draft: TaskDraft, times: Sequence[TimeColumn]) -> Course:
    """Return what a task asks of people over time.

    Nothing is asked of a target that is a time itself, as a calendar tells it. A forecast is asked
    for where the target changes within people who have samples before and after one time, and a run
    accepts it.

    Parameters
    ----------
    draft
        The task.
    times
        The columns of `find_time_columns`.
    """
    target = draft.column
    together = draft.together
    if together is None or not times:
        return Course(None, has_forecast=False, why_not=None)
    if any(one.column is target for one in times):
        why = f"no `time`: `{target.name}` is a time itself, which a calendar tells"
        return Course(None, has_forecast=False, why_not=why)
    chosen = times[0]
    name = chosen.column.name
    given = draft.samples
    known = chosen.time.loc[given.index].dropna()
    people = together.values.loc[known.index]
    if (known.groupby(people).nunique() > 1).sum() < LEAST_PEOPLE:
        why = f"no `time`: few `{together.name}` have labels at two times of `{name}`"
        return Course(None, has_forecast=False, why_not=why)
    refusal = _why_no_forecast(draft, given.loc[known.index], people, chosen)
    return Course(
        name,
        has_forecast=refusal is None,
        why_not=None if refusal is None else f"no `forecast`: {refusal}",
    )


def _why_no_forecast(
    draft: TaskDraft, given: pd.Series, people: pd.Series, chosen: TimeColumn
) -> str | None:
    """Return why later samples of known people cannot be forecast; None: they can."""
    target = draft.column.name
    kind = draft.kind
    changing = int((given.groupby(people).nunique() > 1).sum())
    if changing < LEAST_PEOPLE:
        return (
            f"`{target}` changes within {changing} of {people.nunique()} `{people.name}`, so "
            "that a person's last value tells it"
        )
    text = chosen.column.values.loc[given.index]
    cut = read_cut(AUTO, text)
    assert cut is not None, "samples of a task with times have some"
    time = chosen.time.loc[given.index]
    later = {*people[time > cut]}
    known = len(later & {*people[time <= cut]})
    if known < LEAST_PEOPLE:
        return f"{known} `{people.name}` have samples before and after one time"
    observed = read_numbers(given).values if kind == "regression" else given
    task = FoldsSettings(
        columns=[target],
        where={},
        kind=kind,
        classes=None,
        categories=[],
        folds=Folds(k=draft.k, groups=str(people.name), stratified=kind == "classification"),
        logarithm=False,
        question=FORECAST,
        time=chosen.column.name,
        forecast=AUTO,
    )
    rows = pd.DataFrame({str(people.name): people, chosen.column.name: text})
    try:
        divide(rows, observed.to_frame(target), task)
    except InputError as error:
        return error.actual or str(error)
    return None
