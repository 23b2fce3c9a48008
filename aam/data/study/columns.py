"""What each metadata column of a study could be: a target, a group, or neither."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from aam.data.confounding import is_technical
from aam.util.errors import first_few, problem, problems

FOLDS = 5
"""Folds of a proposed task, and samples that a class needs for it."""
MOST_CLASSES = 20
"""Classes that a task may have."""
GROUPING = re.compile(
    "subject|individual|patient|participant|person|donor|animal|mouse|mice|family|household",
    re.IGNORECASE,
)
"""Names of columns that may say whom or what a sample is of."""
GROUP_ID = re.compile(
    rf"({GROUPING.pattern})s?([ _.-]?(id|ids|no|nr|num|number|name|code|identifier))?$"
    "|^host$|host_id|[_ .-]id$",
    re.IGNORECASE,
)
"""Names of columns that do, also where they hold numbers or few values: a patient's history or
weight is none of them."""
MOST_GROUPS = 0.8
"""Groups per sample above which nearly every sample is of another group."""
Kind = Literal["number", "classes", "one value", "names", "empty"]


@dataclass(frozen=True)
class Column:
    """One metadata column, and what it could be."""

    name: str
    """Its name in the metadata."""
    kind: Kind
    """What its values are: numbers or classes, which can be predicted, or none of these."""
    counts: pd.Series
    """Number of samples by value, the most frequent value first; missing values are left out."""
    missing: int
    """Number of samples without a value."""

    @property
    def frequent(self) -> list[str]:
        """The classes with samples enough to be predicted."""
        return [str(name) for name, count in self.counts.items() if count >= FOLDS]

    def __str__(self) -> str:
        text = f"{self.name}: {self.kind}"
        if self.kind == "classes":
            text += " " + ", ".join(f"{name} ({n})" for name, n in self.counts.head(8).items())
            text += ", …" if len(self.counts) > 8 else ""
        elif self.kind == "number":
            values = pd.to_numeric(self.counts.index.to_series())
            text += f" from {values.min():g} to {values.max():g}"
        elif self.kind == "names":
            text += f", {len(self.counts)} different ones"
        return text + (f"; {self.missing} missing" if self.missing else "")


def column_of(values: pd.Series) -> Column:
    """Return what a column of texts, with None where missing, could be."""
    counts = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    kind: Kind = "names"
    are_numbers = pd.to_numeric(counts.index.to_series(), errors="coerce").notna().all()
    if len(counts) < 2:
        kind = "one value" if len(counts) else "empty"
    elif are_numbers and len(counts) > MOST_CLASSES // 2:
        kind = "number"
    elif len(counts) <= MOST_CLASSES and counts.iloc[1] > 1:
        kind = "classes"
    return Column(str(values.name), kind, counts, int(values.isna().sum()))


def columns_of(metadata: pd.DataFrame) -> list[Column]:
    """Return what each column could be.

    Parameters
    ----------
    metadata
        Text by sample ID, with None where missing.
    """
    return [column_of(metadata[name]) for name in metadata]


def grouping(columns: list[Column]) -> Column | None:
    """Return the column whose samples should stay together, by its name and its repeated values.

    A column of numbers with decimals is a measurement and never proposed, nor is one of which
    nearly every sample has a value of its own (`MOST_GROUPS`).

    Parameters
    ----------
    columns
        Columns of the metadata.
    """
    return max(filter(_may_group, columns), key=lambda one: len(one.counts), default=None)


def _may_group(column: Column) -> bool:
    """Return whether a column may say which samples are of one person, animal or family."""
    groups = len(column.counts)
    if groups < 2 or groups > MOST_GROUPS * column.counts.sum() or is_technical(column.name):
        return False
    numbers = pd.to_numeric(column.counts.index.to_series(), errors="coerce")
    if (numbers % 1 > 0).any():
        return False
    if GROUP_ID.search(column.name):
        return True
    # A column on a family's history has a few answers; one that names families has many names.
    is_many_names = groups > MOST_CLASSES // 2 and bool(numbers.isna().all())
    return is_many_names and GROUPING.search(column.name) is not None


def require_targets(columns: list[Column], names: Sequence[str], where: Path) -> None:
    """Check that columns of the metadata can be predicted.

    Parameters
    ----------
    columns
        All columns of the metadata.
    names
        Those to predict.
    where
        The file of the metadata.

    Raises
    ------
    InputError
        There is no such column, or its values are too few or too many; all problems in one.
    """
    by_name = {column.name: column for column in columns}
    errors = []
    for name in names:
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, n=1)
            hint = f"did you mean '{near[0]}'?" if near else "correct the name"
            expected = f"one of its columns, {first_few(by_name, limit=20)}"
            errors.append(problem(where, f"no column '{name}'", expected, hint))
            continue
        column = by_name[name]
        expected = f"numbers, or two classes or more of at least {FOLDS} samples each"
        hint = "name another column, or fill it in"
        if column.kind == "empty":
            errors.append(problem(f"{where}, column '{name}'", "no values", expected, hint))
        elif task_kind(column) is None:
            errors.append(problem(f"{where}, column '{name}'", str(column), expected, hint))
    if errors:
        raise problems(errors)


def task_kind(column: Column) -> str | None:
    """Return as what a column could be predicted."""
    if column.kind == "number":
        return "regression"
    if column.kind == "classes" and len(column.frequent) > 1:
        return "classification"
    return None
