"""Tasks for the columns of a study that a run accepts, found by dividing samples as it does."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pandas as pd

from aam.config.questions import STUDIES
from aam.config.sections.task import Folds
from aam.config.settings.tasks import FoldsSettings
from aam.data.cell_values import read_numbers
from aam.data.fold_checks import LEAST_STUDIES
from aam.data.roles import are_states, finding_rank, is_id, is_of_archive, is_technical, names_units
from aam.data.splits import divide
from aam.data.study.columns import (
    FOLDS,
    UNREAD_HINT,
    Column,
    propose_grouping,
    task_kind,
    unit_columns,
)
from aam.data.target_columns import require_varied
from aam.util.errors import InputError, first_few, problem

LEAST_NUMBERS = 30
"""Samples with a number that a task needs."""
LEAST_OF_CLASS = 5
"""Samples of each of two classes, or with numbers, that a study needs to count."""
MOST_UNGROUPED = 0.2
"""Share of the samples without a group from which on a task has no groups: leaving them out would
cost too much."""
ACTIVE = 2
"""Tasks of a new configuration that are not comments, where no columns are named."""


def propose_targets(columns: list[Column]) -> list[str]:
    """Return the columns that a new configuration predicts where none are named.

    Parameters
    ----------
    columns
        All columns of the metadata.
    """
    together = propose_grouping(columns)
    accepted: list[str] = []
    for column in rank_suited(columns, together):
        if len(accepted) == ACTIVE:
            break
        with suppress(InputError):
            draft_task(column, together)
            accepted.append(column.name)
    return accepted


def rank_suited(columns: list[Column], together: Column | None) -> list[Column]:
    """Return the columns that are proposed without being asked for, the likeliest first.

    Parameters
    ----------
    columns
        All columns of the metadata.
    together
        The column whose samples stay together, which is no target; None: there is none.
    """
    ranked = sorted(columns, key=lambda one: (_finding_rank(one), one.missing))
    return [column for column in ranked if column is not together and _suits(column)]


def _suits(column: Column) -> bool:
    """Return whether a column is proposed without being asked for."""
    name = column.name
    if is_technical(name) or is_of_archive(name) or is_id(name) or unit_columns([column]):
        return False
    # Where nearly every sample has a value of its own, numbers of patients are still no numbers.
    if names_units(name) and not are_states(map(str, column.counts.index)):
        return False
    if column.kind == "number":
        return column.counts.sum() - column.unread.sum() >= LEAST_NUMBERS
    return task_kind(column) is not None


def _finding_rank(column: Column) -> int:
    """Return how likely a column is what a study was made for; `Subject` may be a diagnosis."""
    is_diagnosis = names_units(column.name) and are_states(map(str, column.counts.index))
    return 0 if is_diagnosis else finding_rank(column.name)


@dataclass(frozen=True)
class TaskDraft:
    """A task that a run accepts."""

    column: Column
    kind: str
    k: int
    """Number of folds."""
    together: Column | None
    """Column whose samples stay together."""
    where: dict[str, list[str]]
    """Values that a sample must have, by column."""
    comments: list[str]
    """What was decided, and what looks odd."""

    @property
    def groups(self) -> str | None:
        """Name of the column whose samples stay together."""
        return None if self.together is None else self.together.name

    @property
    def samples(self) -> pd.Series:
        """Values of the target, of the samples of the task."""
        given = self.column.values.dropna()
        if self.column.name in self.where:
            given = given[given.isin(self.where[self.column.name])]
        if self.together is not None:
            given = given[self.together.values.loc[given.index].notna()]
        return given


def draft_task(column: Column, together: Column | None, *, must_group: bool = False) -> TaskDraft:
    """Return a task for a column that a run accepts, as far as these samples can tell.

    Classes of few samples are left out, those of one group, and those that would lie in one fold;
    so are samples without a group.

    Parameters
    ----------
    column
        The column to predict.
    together
        The column whose samples stay together; None: there is none.
    must_group
        Whether that column was asked for.

    Raises
    ------
    InputError
        No folds can be made of its samples, some of its values are no numbers, or too many of its
        samples have no value in a column of groups that was asked for.
    """
    kind = task_kind(column)
    if kind is None:
        where = f"metadata column '{column.name}'"
        raise problem(where, column.unread_text, "numbers alone", UNREAD_HINT)
    given = column.values.dropna()
    wanted: dict[str, list[str]] = {}
    comments = list(column.notes)
    groups = None if together is None else together.values.loc[given.index]
    if groups is not None and groups.isna().mean() > MOST_UNGROUPED:
        unknown = f"no value in {groups.isna().sum()} of {len(groups)} samples"
        if must_group:
            raise problem(
                f"groups '{groups.name}' of '{column.name}'",
                unknown,
                f"a value in {1 - MOST_UNGROUPED:.0%} of the samples or more",
                "fill it in: samples of one subject have the same value",
            )
        comments.append(
            f"no groups: `{groups.name}` has {unknown}; fill it in where samples belong together, "
            "or the scores will be too good"
        )
        groups = None
    if groups is not None and groups.isna().any():
        without = int(groups.isna().sum())
        comments.append(f"left out: samples without a value in `{groups.name}` ({without})")
        groups = groups.dropna()
        given = given.loc[groups.index]
        wanted[str(groups.name)] = sorted({*groups})
    if kind == "classification":
        classes, k = _accepted_classes(column, given, groups)
        left_out = [f"{name!r} ({n})" for name, n in column.counts.items() if name not in classes]
        if left_out:
            wanted[column.name] = classes
            comments.append(f"left out: {first_few(left_out)}")
    else:
        k = _folds_of(given, groups, kind)
    return TaskDraft(column, kind, k, None if groups is None else together, wanted, comments)


def _accepted_classes(
    column: Column, given: pd.Series, groups: pd.Series | None
) -> tuple[list[str], int]:
    """Return the frequent classes of which folds can be made, and how many folds."""
    classes = column.frequent
    while True:
        kept = given[given.isin(classes)]
        try:
            return classes, _folds_of(kept, groups, "classification")
        except InputError:
            if len(classes) < 3:
                raise
        # What is left without the class of the fewest groups, and among these of few samples.
        sizes = kept.value_counts()
        spread = sizes if groups is None else groups.loc[kept.index].groupby(kept).nunique()
        narrowest = min(classes, key=lambda name: (spread.get(name, 0), sizes.get(name, 0), name))
        classes = [name for name in classes if name != narrowest]


def _folds_of(given: pd.Series, groups: pd.Series | None, kind: str) -> int:
    """Return how many folds the samples of a task get, after making them as a run does.

    Raises
    ------
    InputError
        A run would refuse the task.
    """
    column = str(given.name)
    require_varied(given, column)
    observed = read_numbers(given).values if kind == "regression" else given
    known = given if groups is None else groups.loc[given.index]
    k = max(min(FOLDS, known.nunique() if groups is not None else len(known)), 2)
    task = FoldsSettings(
        columns=[column],
        where={},
        kind=kind,
        classes=None,
        categories=[],
        folds=Folds(
            k=k,
            groups=None if groups is None else str(groups.name),
            stratified=kind == "classification",
        ),
        logarithm=False,
    )
    divide(known.to_frame(), observed.to_frame(column), task)
    return k


def propose_studies(draft: TaskDraft, candidates: Sequence[Column]) -> Column | None:
    """Return the first column whose values can be left out one by one; None: none can.

    Three of its values have samples enough of two classes, or with different numbers, few samples
    lack one, and few are of groups that lie in two.

    Parameters
    ----------
    draft
        The task.
    candidates
        Columns that divide samples as studies do, the surest first.
    """
    target = draft.column.name
    given = draft.samples
    for column in candidates:
        study = column.values.loc[given.index]
        if column.name in (target, draft.groups) or study.isna().mean() > MOST_UNGROUPED:
            continue
        if draft.kind == "classification":
            is_frequent = pd.crosstab(study, given) >= LEAST_OF_CLASS
            counted = int((is_frequent.sum(axis=1) > 1).sum())
        else:
            counted = int((given.groupby(study).nunique() >= LEAST_OF_CLASS).sum())
        if counted >= LEAST_STUDIES and _can_leave_out(draft, given, column):
            return column
    return None


def _can_leave_out(draft: TaskDraft, given: pd.Series, studies: Column) -> bool:
    """Return whether a run accepts a column as the studies of a task."""
    target = draft.column.name
    values = {target: given, studies.name: studies.values.loc[given.index]}
    if draft.together is not None:
        values[draft.together.name] = draft.together.values.loc[given.index]
    rows = pd.DataFrame(values).dropna()
    observed = rows[target]
    if draft.kind == "regression":
        observed = read_numbers(rows[target]).values
    task = FoldsSettings(
        columns=[target],
        where={},
        kind=draft.kind,
        classes=None,
        categories=[],
        folds=Folds(column=studies.name),
        logarithm=False,
        question=STUDIES,
        known=draft.groups,
    )
    try:
        kept, _, _ = divide(rows, observed.to_frame(target), task)
    except InputError:
        return False
    # People in several studies are left out of all but one.
    return len(kept) >= (1 - MOST_UNGROUPED) * len(rows)
