"""The columns of the metadata that a task predicts, checked."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from aam.data.metadata import metadata_column
from aam.util.errors import count_names, first_few, first_names, problem

LARGEST = 1e30
"""Largest size of a number to predict."""
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def samples_where(metadata: pd.DataFrame, where: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return the samples that have one of the wanted values in every column that is named.

    Parameters
    ----------
    metadata
        That of all samples.
    where
        Wanted values by column, as `where` of a task has them.

    Raises
    ------
    InputError
        No sample has a wanted value of a column.
    """
    for column, wanted in where.items():
        values = metadata_column(metadata, column)
        kept = metadata[values.isin(wanted)]
        if not len(kept):
            raise problem(
                f"metadata column '{column}'",
                f"{count_names('value', values.dropna().unique())} in {len(metadata)} samples",
                f"{first_names(wanted)}, as `where` of the task says",
                "correct the values of `where`, or leave it out",
            )
        metadata = kept
    return metadata


def observed_values(
    metadata: pd.DataFrame, kind: str, columns: Sequence[str], classes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the values of all targets, without the samples that lack one of them.

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
    read = [_observed(metadata, kind, column, classes) for column in columns]
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
    metadata: pd.DataFrame, kind: str, column: str, classes: Sequence[str] | None
) -> pd.Series:
    values = metadata_column(metadata, column)
    where = f"metadata column '{column}'"
    given = values[values.notna()].astype(object)
    if not len(given):
        actual = f"no value in any of the {len(values)} samples that rarefaction keeps"
        hint = "choose another column, lower rarefaction.depth, or fill in the metadata"
        raise problem(where, actual, "a value in at least two of them", hint)
    if kind == "regression":
        given = _numbers(given, column)
    require_varied(given, column)
    others = sorted(set(given) - set(classes)) if kind == "ordinal" and classes else []
    if others:
        actual = f"values that are no class of the task: {first_names(others)}"
        expected = f"one of its classes, {first_names(classes or [], limit=20)}"
        hint = "put them into the task's classes, in their order, or empty these cells"
        raise problem(where, actual, expected, hint)
    return given


def _numbers(text: pd.Series, column: str) -> pd.Series:
    stripped = text.str.strip()
    is_number = stripped.str.fullmatch(NUMBER).astype(bool)
    values = stripped.where(is_number, "nan").astype(np.float64)
    # The square of an error has to be a number, too.
    bad = text[~(values.abs() <= LARGEST)]
    if len(bad):
        raise problem(
            f"metadata column '{column}'",
            f"{len(bad)} of {len(text)} values that are no numbers, or beyond {LARGEST:g}: "
            f"{_examples(bad)}",
            "numbers, with a decimal point, in every sample that has a value",
            "correct the values, leave the cells empty where there is none, "
            "or set the task's kind to classification",
        )
    return values


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
    return first_few(f"{value!r} in sample '{sample}'" for sample, value in bad.items())
