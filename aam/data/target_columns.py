"""The columns of the metadata that a task predicts, checked."""

import logging
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from aam.data.cell_values import (
    LARGEST,
    NUMBER,
    are_codes,
    find_sentinels,
    group_alike,
    is_unknown,
    read_numbers,
)
from aam.data.metadata import metadata_column
from aam.util.errors import InputError, count_names, first_few, first_names, problem
from aam.util.notes import CAUTION

logger = logging.getLogger(__name__)
FEW_VALUES = 20
"""Different values up to which a column of numbers and words may be one of classes."""


@dataclass(frozen=True, eq=False)
class BeforeRarefaction:
    """The samples that a task had before rarefaction, which messages name where it is the cause."""

    metadata: pd.DataFrame
    """That of all samples of the table."""
    depth: int | None = None
    """Reads that rarefaction draws from each sample, where known."""

    @property
    def act(self) -> str:
        """Rarefaction, with its depth where that is known."""
        return "rarefaction" if self.depth is None else f"rarefaction at depth {self.depth}"

    @property
    def hint(self) -> str:
        """What makes it keep more samples."""
        return f"lower rarefaction.depth{'' if self.depth is None else f' below {self.depth}'}"

    def where(self, where: Mapping[str, Sequence[str]]) -> "BeforeRarefaction":
        """Return the samples that `where` of a task keeps, perhaps none."""
        kept = self.metadata
        for column, wanted in where.items():
            values = metadata_column(kept, column)
            kept = kept[values.isin(spellings_of(wanted, values))]
        return BeforeRarefaction(kept, self.depth)

    def counts(self, column: str) -> pd.Series:
        """Return the number of samples by the value of a column."""
        return metadata_column(self.metadata, column).value_counts()


def samples_where(
    metadata: pd.DataFrame,
    where: Mapping[str, Sequence[str]],
    before: BeforeRarefaction | None = None,
) -> pd.DataFrame:
    """Return the samples that have one of the wanted values in every column that is named.

    Parameters
    ----------
    metadata
        That of all samples.
    where
        Wanted values by column, as `where` of a task has them. A number is also found in another
        spelling, such as 1.0 for 1, if it has just one in the column.
    before
        The samples before rarefaction, for messages.

    Raises
    ------
    InputError
        No sample has a wanted value of a column.
    """
    for column, wanted in where.items():
        values = metadata_column(metadata, column)
        kept = metadata[values.isin(spellings_of(wanted, values))]
        if not len(kept):
            # Rarefaction may have dropped them: what the whole table has says so.
            raise _nothing_kept(column, wanted, values, before and before.where(where))
        absent = [one for one in wanted if not values.isin(spellings_of([one], values)).any()]
        if absent:
            logger.warning(
                "metadata column '%s': no sample has %s, which `where` of the task names; the "
                "others are taken; correct it if it is misspelt, its values are %s",
                column,
                first_names(absent),
                first_names(values.dropna().unique(), limit=10),
            )
        metadata = kept
    return metadata


def spellings_of(wanted: Iterable[str], values: pd.Series) -> list[str]:
    """Return the values of a column that a configuration names.

    Parameters
    ----------
    wanted
        Values as the configuration has them.
    values
        The column.

    Returns
    -------
    list of str
        For each the value itself, letters in their composed form. Where no sample has it and all
        values are numbers without zeros in front, the one spelling of the same number; true and
        false in any case.
    """
    names = [unicodedata.normalize("NFC", one) for one in wanted]
    given = [str(value) for value in values.dropna().unique()]
    absent = [one for one in names if one not in given]
    if not absent or are_codes(given):
        return names
    if {one.casefold() for one in given} <= {"true", "false"}:
        folded = {one.casefold() for one in absent}
        return names + [one for one in given if one.casefold() in folded]
    numbers = read_numbers(pd.Series([*given, *absent], dtype=object))
    # With units or decimal commas two spellings are not certainly the same number.
    if numbers.how or numbers.values.isna().any():
        return names
    for number in numbers.values[len(given) :]:
        same = [
            value for value, other in zip(given, numbers.values, strict=False) if other == number
        ]
        names += same if len(same) == 1 else []
    return names


def _nothing_kept(
    column: str, wanted: Sequence[str], values: pd.Series, before: BeforeRarefaction | None
) -> InputError:
    lost = 0 if before is None else len(before.metadata)
    if before is not None and lost:
        return problem(
            f"metadata column '{column}'",
            f"{first_names(wanted)} in none of the samples that {before.act} keeps; before it "
            f"there were {lost}",
            "samples with a value that `where` of the task names",
            f"{before.hint}, or correct the values of `where`",
        )
    return problem(
        f"metadata column '{column}'",
        f"{count_names('value', values.dropna().unique())} in {len(values)} samples",
        f"{first_names(wanted)}, as `where` of the task says",
        "correct the values of `where`, or leave it out; values that YAML reads as numbers or "
        "dates, such as 010 and 12:30, need quotes",
    )


def observed_values(
    metadata: pd.DataFrame,
    kind: str,
    columns: Sequence[str],
    classes: Sequence[str] | None = None,
    *,
    before: BeforeRarefaction | None = None,
    where: Iterable[str] = (),
) -> pd.DataFrame:
    """Return the values of all targets, without the samples that lack one of them.

    Warns of classes that may be one or may stand for a missing value, of numbers that may stand
    for one, and of numbers that are written in a way of their own.

    Parameters
    ----------
    metadata
        That of the samples that a task wants.
    kind
        regression, classification or ordinal.
    columns
        Columns to predict.
    classes
        Classes of an ordinal target; None: there are none to check.
    before
        The samples that the task wanted before rarefaction, for messages.
    where
        The columns of `where` of the task, for messages.

    Returns
    -------
    pandas.DataFrame
        A column per target: float64 and finite for numbers, else text.

    Raises
    ------
    InputError
        A target cannot be predicted: it is missing, the same in all samples, no number, or a value
        is no class of the task.
    """
    wheres = list(where)
    read = [_observed(metadata, kind, column, classes, before, wheres) for column in columns]
    # Samples that lack one of several targets are left out of all.
    values = pd.concat(read, axis=1, join="inner")
    values = values.loc[metadata.index[metadata.index.isin(values.index)]]
    if not len(values):
        raise problem(
            f"metadata columns {', '.join(repr(column) for column in columns)}",
            "no sample that has a value in each of them",
            "samples that have all the targets",
            "make a task of each column, or fill in the metadata",
        )
    for column in columns:
        require_varied(values[column], column)
    return values


def _observed(
    metadata: pd.DataFrame,
    kind: str,
    column: str,
    classes: Sequence[str] | None,
    before: BeforeRarefaction | None,
    where: Sequence[str],
) -> pd.Series:
    values = metadata_column(metadata, column)
    name = f"metadata column '{column}'"
    given = values[values.notna()].astype(object)
    if not len(given):
        raise _no_values(column, len(values), before)
    if kind == "regression":
        given = _numbers(given, column)
    else:
        _warn_of_classes(given, column)
    _require_varied(given, column, before, where)
    others = sorted(set(given) - set(classes)) if kind == "ordinal" and classes else []
    if others:
        actual = f"values that are no class of the task: {first_names(others)}"
        expected = f"one of its classes, {first_names(classes or [], limit=20)}"
        hint = (
            "put them into the task's classes, in their order and as the metadata write them, or "
            "empty these cells"
        )
        raise problem(name, actual, expected, hint)
    return given


def _no_values(column: str, samples: int, before: BeforeRarefaction | None) -> InputError:
    where = f"metadata column '{column}'"
    expected = "a value in at least two of them"
    lost = None if before is None else int(before.counts(column).sum())
    if before is None or lost:
        kept = "rarefaction" if before is None else before.act
        ago = "" if lost is None else f"; before it {lost} samples had one"
        hint = "lower rarefaction.depth" if before is None else before.hint
        return problem(
            where,
            f"no value in any of the {samples} samples that {kept} keeps{ago}",
            expected,
            f"choose another column, {hint}, or fill in the metadata",
        )
    actual = f"no value in any of the {samples} samples"
    return problem(where, actual, expected, "choose another column, or fill in the metadata")


def _numbers(text: pd.Series, column: str) -> pd.Series:
    numbers = read_numbers(text)
    is_read = numbers.values.notna()
    if not is_read.all():
        raise problem(
            f"metadata column '{column}'",
            f"{(~is_read).sum()} of {len(text)} values that are no numbers, or beyond "
            f"{LARGEST:g}: {_examples(text[~is_read])}",
            "numbers, with a decimal point, in every sample that has a value",
            "correct the values, or leave the cells empty where there is none"
            + (
                ", or set the task's kind to classification" if text.nunique() <= FEW_VALUES else ""
            ),
        )
    if numbers.how:
        odd = text[~text.str.strip().str.fullmatch(NUMBER).astype(bool)].iloc[0]
        logger.warning(
            "metadata column '%s': numbers were read %s, %r as %g; write them with a decimal "
            "point and nothing else to have them otherwise",
            column,
            numbers.how,
            odd,
            numbers.values[text == odd].iloc[0],
        )
    far = find_sentinels(numbers.values)
    if far:
        logger.warning(
            "metadata column '%s': %s far from all other numbers may stand for a missing value, "
            "and was taken for a number; empty these cells if it does",
            column,
            first_few(f"{value:g} in {_samples(size)}" for value, size in far.items()),
            extra=CAUTION,
        )
    return numbers.values


def _warn_of_classes(given: pd.Series, column: str) -> None:
    """Warn of classes that look like one, or like a missing value."""
    counts = given.value_counts()
    for group in group_alike(counts.index):
        logger.warning(
            "metadata column '%s': the classes %s look like one and were taken for different ones; "
            "write them in one way if they are one",
            column,
            first_few(f"{value!r} in {_samples(counts[value])}" for value in group),
            extra=CAUTION,
        )
    unknown = [value for value in counts.index if is_unknown(value)]
    if unknown:
        logger.warning(
            "metadata column '%s': %s may stand for a missing value and was taken for a class; "
            "empty these cells, or leave the class out with `where`",
            column,
            first_few(f"{value!r} in {_samples(counts[value])}" for value in unknown),
            extra=CAUTION,
        )


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"


def _require_varied(
    given: pd.Series, column: str, before: BeforeRarefaction | None, where: Sequence[str]
) -> None:
    """Check that a target varies, and blame what has made it one value."""
    counts = pd.Series(dtype=int) if before is None else before.counts(column)
    if given.nunique() > 1 or before is None or len(counts) < 2:
        which = "that `where` of the task keeps" if where else "that have one"
        require_varied(given, column, which)
        return
    # The text of the metadata, since a number would be shown in another form.
    one = metadata_column(before.metadata, column).loc[given.index].iloc[0]
    lost = first_few(f"{size} of {name!r}" for name, size in counts.items() if name != one)
    raise problem(
        f"metadata column '{column}'",
        f"the one value '{one}' in all {len(given)} samples that {before.act} keeps; it drops "
        f"{lost}",
        "at least two different values",
        f"{before.hint}, or choose a column that varies",
    )


def require_varied(values: pd.Series, column: str, which: str = "that have one") -> None:
    """Check that the values of a target are not all the same.

    Parameters
    ----------
    values
        Values of the samples.
    column
        Name of the target.
    which
        Which samples are meant, for the message.

    Raises
    ------
    InputError
        There are fewer than two different values.
    """
    if values.nunique() < 2:
        actual = f"the one value '{values.iloc[0]}' in all {len(values)} samples {which}"
        hint = "choose a column that varies: there is nothing to predict in this one"
        if "`where`" in which:
            hint = "add other values to `where`, or choose another column to predict"
        raise problem(f"metadata column '{column}'", actual, "at least two different values", hint)


def require_logarithms(values: pd.DataFrame) -> None:
    """Check that log(1 + x) exists for all values of numeric targets.

    Parameters
    ----------
    values
        Numbers of the labelled samples, a column per target.

    Raises
    ------
    InputError
        A value is not above -1.
    """
    for column in values:
        bad = values[column][values[column] <= -1]
        if len(bad):
            raise problem(
                f"metadata column '{column}'",
                f"{len(bad)} of {len(values)} values that are not above -1: {_examples(bad)}",
                "numbers above -1: a task's transform takes log(1 + x) of them",
                "choose another transform for the task, or empty these cells",
            )


def _examples(bad: pd.Series) -> str:
    """Return the different values with the samples that have them, the most frequent first."""
    samples = pd.Series(bad.index, index=bad.index).groupby(bad.to_numpy()).agg(list)
    by_size = sorted(samples.items(), key=lambda one: -len(one[1]))
    return first_few(f"{value!r} in {_named(names)}" for value, names in by_size)


def _named(samples: Sequence[str]) -> str:
    """Return the first of some samples."""
    if len(samples) == 1:
        return f"sample '{samples[0]}'"
    more = "" if len(samples) == 2 else f" and {len(samples) - 2} more"
    return f"samples '{samples[0]}', '{samples[1]}'{more}"
