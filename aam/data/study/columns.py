"""What each metadata column of a study could be: a target, a group, or neither."""

import difflib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from aam.data.cell_values import (
    FEW_NUMBERS,
    Numbers,
    are_codes,
    are_dates,
    find_sentinels,
    group_alike,
    is_unknown,
    read_numbers,
)
from aam.data.metadata import declared_type
from aam.data.roles import (
    UnitName,
    are_states,
    circumstance,
    is_blank,
    is_technical,
    names_study,
    names_units,
    study_rank,
    unit_name,
)
from aam.util.errors import InputError, first_few, first_names, problem, problems

logger = logging.getLogger(__name__)

FOLDS = 5
"""Folds of a proposed task, and samples that a class needs for it."""
MOST_CLASSES = 20
"""Classes that a task may have."""
FEW_DECIMALS = 5
"""Different numbers, some with decimals, from which on they are measurements and no codes."""
MOST_GROUPS = 0.8
"""Groups per sample above which nearly every sample is of another group."""
LEAST_COARSE = 2 * FOLDS
"""Groups that a coarser unit, such as a home, has to have to stand in the place of a finer one."""
UNREAD_HINT = (
    "write numbers, or empty these cells; to predict the values as classes, write 'categorical' "
    "for the column in a line '#q2:types'"
)
"""What to do with values of a column of numbers that are none."""
Kind = Literal["number", "classes", "one value", "names", "empty"]


@dataclass(frozen=True, eq=False)
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
    values: pd.Series
    """The text of each sample, None where missing."""
    unread: pd.Series
    """Number of samples by each value of a column of numbers that is no number, which a run
    refuses."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the values: how numbers are written, which look odd."""

    @property
    def frequent(self) -> list[str]:
        """The classes with samples enough to be predicted.

        Words such as unknown, and blanks, are left out where two other classes remain.
        """
        names = [str(name) for name, count in self.counts.items() if count >= FOLDS]
        known = [name for name in names if not is_unknown(name) and not is_blank(name)]
        return known if len(known) > 1 else names

    def __str__(self) -> str:
        text = f"{self.name}: {self.kind}"
        if self.kind == "classes":
            text += " " + ", ".join(f"{name} ({n})" for name, n in self.counts.head(8).items())
            text += ", …" if len(self.counts) > 8 else ""
        elif self.kind == "number":
            numbers = read_numbers(self.values.dropna()).values
            text += f" from {numbers.min():g} to {numbers.max():g}"
            if len(self.unread):
                text += f"; {self.unread_text}"
        elif self.kind == "names":
            text += f", {len(self.counts)} different ones"
        text += f"; {self.missing} missing" if self.missing else ""
        return "; ".join([text, *self.notes])

    @property
    def unread_text(self) -> str:
        """The values that are no numbers, with their numbers of samples."""
        shown = first_few(f"{value!r} ({size})" for value, size in self.unread.items())
        total = int(self.unread.sum())
        which = "value that is no number" if total == 1 else "values that are no numbers"
        return f"{total} {which}: {shown}"


def column_of(values: pd.Series) -> Column:
    """Return what a column of texts, with None where missing, could be.

    The type that `#q2:types` declares decides. Without one, a column is of numbers if they are
    more than half of its values and more than `FEW_NUMBERS` different ones, or at least
    `FEW_DECIMALS` with decimals, or all of its values and none repeats; numbers with zeros in front
    are codes. Dates are names.

    Parameters
    ----------
    values
        A column of metadata.
    """
    given = values.dropna()
    counts = given.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    declared = declared_type(values)
    numbers = read_numbers(given.astype(object))
    is_read = numbers.values.notna()
    is_code = declared is None and are_codes(counts.index)
    is_date = declared is None and are_dates(counts.index)
    classes_fit = len(counts) <= MOST_CLASSES and len(counts) > 1 and counts.iloc[1] > 1
    different = given[is_read].nunique()
    # More different values than classes can have are the values of a measurement.
    # Codes of classes are whole numbers: a pH of ten different values is a measurement, too.
    has_decimals = bool((numbers.values.dropna() % 1 > 0).any())
    enough = FEW_DECIMALS if has_decimals else FEW_NUMBERS + 1
    mostly_numbers = is_read.mean() > 0.5 and different >= enough
    kind: Kind = "names"
    if len(counts) < 2:
        kind = "one value" if len(counts) else "empty"
    elif declared == "numeric":
        kind = "number"
    elif is_date:
        kind = "names"
    elif declared is None and not is_code and (mostly_numbers or is_read.all() and not classes_fit):
        kind = "number"
    elif classes_fit:
        kind = "classes"
    unread = counts[counts.index.isin(given[~is_read])] if kind == "number" else counts.iloc[:0]
    notes = tuple(_notes(kind, counts, numbers, declared, is_code=is_code, is_date=is_date))
    name = str(values.name)
    return Column(name, kind, counts, int(values.isna().sum()), values, unread, notes)


def _notes(
    kind: Kind,
    counts: pd.Series,
    numbers: Numbers,
    declared: str | None,
    *,
    is_code: bool,
    is_date: bool,
) -> Iterator[str]:
    """Yield what a reader should know of the values of a column."""
    if is_date:
        yield "dates or times"
    if is_code and kind in ("classes", "names"):
        yield "numbers with zeros in front are taken for codes"
    if kind == "number":
        if numbers.how:
            yield f"read {numbers.how}"
        for value, size in find_sentinels(numbers.values.dropna()).items():
            yield f"{value:g} ({size}) may stand for a missing value"
        return
    if kind == "classes" and not is_code and declared is None and len(counts) > 2:
        if numbers.values.notna().all():
            yield "a few different numbers are taken for classes"
    for group in group_alike(counts.index) if kind in ("classes", "names") else ():
        yield f"{' and '.join(map(repr, group))} may be one value"
    unknown = [value for value in counts.index if is_unknown(value)]
    if kind == "classes" and unknown:
        yield f"{first_names(unknown)} may stand for a missing value"


def columns_of(metadata: pd.DataFrame) -> list[Column]:
    """Return what each column could be.

    Parameters
    ----------
    metadata
        Text by sample ID, with None where missing.
    """
    return [column_of(metadata[name]) for name in metadata]


def unit_columns(columns: list[Column]) -> list[Column]:
    """Return the columns that may say which samples belong together, the likeliest first.

    Names of persons, animals and homes come before other IDs, and the finer unit before the
    coarser one. A column of numbers with decimals is a measurement, one of which nearly every
    sample has a value of its own (`MOST_GROUPS`) keeps nothing together, and one of states, such
    as case and control, is a diagnosis whatever its name. A technical name, such as `studyid`, says
    nothing where the values divide the samples as persons do (`technical_columns`).

    Parameters
    ----------
    columns
        Columns of the metadata.
    """
    technical = technical_columns(columns)
    possible = [(rank, one) for one in columns if (rank := _unit_name(one)) is not None]
    possible += [
        (UnitName.ABOUT_UNITS, one)
        for one in columns
        if is_technical(one.name) and one not in technical and unit_name(one.name) is None
    ]
    return [one for _, one in sorted(possible, key=lambda pair: (pair[0], -len(pair[1].counts)))]


def propose_grouping(columns: list[Column]) -> Column | None:
    """Return the column whose samples should stay together; None: no column can say so.

    It is the likeliest of `unit_columns`. Where its units lie in coarser ones, as people live in
    homes, the coarsest of at least `LEAST_COARSE` values is returned: whatever a home shares may
    be learned from one of its people.

    Parameters
    ----------
    columns
        Columns of the metadata.
    """
    possible = unit_columns(columns)
    if not possible:
        return None
    coarsest = possible[0]
    for other in possible[1:]:
        if len(other.counts) >= LEAST_COARSE and names_units(other.name):
            if lies_within(coarsest, other):
                coarsest = other
    return coarsest


def lies_within(column: Column, other: Column) -> bool:
    """Return whether every value of a column has one value of another, which has fewer values."""
    if len(other.counts) >= len(column.counts):
        return False
    return _is_constant_within(column, other)


def technical_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns on how, where or in which study samples were processed.

    Their names say so, but values may know better: the study ID of a clinic is often that of a
    person. So a column of at least `FOLDS` values of several samples is none where a column that
    names units has the same groups; nor is one of studies where whatever is said of the sex or the
    birth of a being is the same in all samples of a value, and no unit is finer.

    Parameters
    ----------
    columns
        Columns of the metadata.
    """
    return [one for one in columns if is_technical(one.name) and not _names_beings(one, columns)]


def study_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that divide samples into studies, cohorts, centers or runs, surest first.

    Parameters
    ----------
    columns
        Columns of the metadata.
    """
    ranked = [(rank, one) for one in columns if (rank := study_rank(one.name)) is not None]
    beings = [one for _, one in ranked if is_technical(one.name) and _names_beings(one, columns)]
    suited = [(rank, one) for rank, one in ranked if one.kind == "classes" and one not in beings]
    return [one for _, one in sorted(suited, key=lambda pair: pair[0])]


def _names_beings(column: Column, columns: Sequence[Column]) -> bool:
    """Return whether the values of a technical column are those of persons or animals."""
    if not FOLDS <= len(column.counts) <= MOST_GROUPS * column.counts.sum():
        return False
    units = [one for one in columns if _unit_name(one) == UnitName.UNIT]
    if any(_is_constant_within(column, one) and _is_constant_within(one, column) for one in units):
        return True
    if not names_study(column.name) or any(lies_within(one, column) for one in units):
        return False
    of_beings = [
        one
        for one in columns
        if circumstance(one.name) in ("sex", "birth") and one.kind != "one value"
    ]
    return bool(of_beings) and all(_is_constant_within(column, one) for one in of_beings)


def _is_constant_within(column: Column, other: Column) -> bool:
    """Return whether all samples with a value of a column have the same value of another."""
    pairs = pd.DataFrame({"group": column.values, "value": other.values}).dropna()
    # What few samples say says nothing of the others: a coarser unit would leave them out.
    is_complete = len(pairs) >= MOST_GROUPS * column.counts.sum()
    return is_complete and bool((pairs.groupby("group")["value"].nunique() == 1).all())


def _unit_name(column: Column) -> UnitName | None:
    """Return how surely a column says which samples are of one unit; None: it does not."""
    rank = unit_name(column.name)
    groups = len(column.counts)
    if rank is None or groups < 2 or groups > MOST_GROUPS * column.counts.sum():
        return None
    numbers = read_numbers(column.counts.index.to_series().astype(object)).values
    if (numbers % 1 > 0).any():
        return None
    if names_units(column.name):
        is_state = groups < FOLDS and are_states(map(str, column.counts.index))
        return None if is_state else rank
    # A column on a family's history has a few answers; one that names families has many names.
    return rank if groups > MOST_CLASSES // 2 and bool(numbers.isna().all()) else None


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
            errors.append(_no_column(name, by_name, where))
            continue
        column = by_name[name]
        at = f"{where}, column '{name}'"
        expected = f"numbers, or two classes or more of at least {FOLDS} samples each"
        hint = "name another column, or fill it in"
        if column.kind == "empty":
            errors.append(problem(at, "no values", expected, hint))
        elif len(column.unread):
            errors.append(problem(at, column.unread_text, "numbers alone", UNREAD_HINT))
        elif task_kind(column) is None:
            if "dates or times" in column.notes:
                hint = "name another column, or write 'categorical' for it in a line '#q2:types'"
            actual = str(column)
            if column.kind in ("names", "one value"):
                actual += f" (such as {first_names(column.counts.index, limit=3)})"
            errors.append(problem(at, actual, expected, hint))
    if errors:
        raise problems(errors)
    for name in names:
        for note in by_name[name].notes:
            logger.warning("%s, column '%s': %s", where, name, note)


def require_groups(columns: list[Column], name: str, targets: Sequence[str], where: Path) -> Column:
    """Return the column that says which samples belong together.

    Parameters
    ----------
    columns
        All columns of the metadata.
    name
        The one that was asked for.
    targets
        Columns to predict.
    where
        The file of the metadata.

    Raises
    ------
    InputError
        There is no such column, it is one to predict, or it has fewer than two values.
    """
    by_name = {column.name: column for column in columns}
    if name not in by_name:
        raise _no_column(name, by_name, where)
    expected = "a column of two values or more that says which samples are of one subject"
    hint = "name another column, or write `false` if each sample is of a subject of its own"
    if name in targets:
        raise problem(f"groups '{name}'", "a column to predict", expected, hint)
    if len(by_name[name].counts) < 2:
        raise problem(f"groups '{name}'", str(by_name[name]), expected, hint)
    return by_name[name]


def _no_column(name: str, by_name: Mapping[str, Column], where: Path) -> InputError:
    near = difflib.get_close_matches(name, by_name, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "correct the name"
    expected = f"one of its columns, {first_few(by_name, limit=20)}"
    return problem(where, f"no column '{name}'", expected, hint)


def task_kind(column: Column) -> str | None:
    """Return as what a column could be predicted."""
    if column.kind == "number" and not len(column.unread):
        return "regression"
    if column.kind == "classes" and len(column.frequent) > 1:
        return "classification"
    return None
