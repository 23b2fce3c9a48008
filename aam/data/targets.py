"""The column of the metadata that a task predicts, checked."""

import difflib

import numpy as np
import pandas as pd

from aam.util.errors import InputError, first_names, problem

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def metadata_column(metadata: pd.DataFrame, column: str) -> pd.Series:
    """Return a column, or say which names come close.

    Raises
    ------
    InputError
        If there is no such column.
    """
    if column in metadata.columns:
        return metadata[column]
    names = [str(name) for name in metadata.columns]
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(column.casefold(), list(folded), n=3)
    hint = (
        f"did you mean {' or '.join(repr(folded[name]) for name in close)}?"
        if close
        else "correct the name in the configuration, or add the column to the metadata"
    )
    raise problem(
        f"metadata column '{column}'",
        "no such column",
        f"one of the metadata's columns, {first_names(names, limit=20)}",
        hint,
    )


def observed_numbers(metadata: pd.DataFrame, column: str) -> pd.Series:
    """Return the values of a numeric target, without the samples that have none.

    Parameters
    ----------
    metadata
        Text per sample and column, null where missing.
    column
        Name of the target.

    Returns
    -------
    pandas.Series
        float64, all finite, not all the same.

    Raises
    ------
    InputError
        If values are missing everywhere, not numbers, infinite, or all the same.
    """
    text = _given(metadata, column)
    stripped = text.str.strip()
    is_number = stripped.str.fullmatch(NUMBER).astype(bool)
    values = stripped.where(is_number, "nan").astype(np.float64)
    bad = text[~np.isfinite(values)]
    if len(bad):
        raise problem(
            f"metadata column '{column}'",
            f"{_examples(bad)} of {len(text)} values that are not finite numbers",
            "numbers, with a decimal point, in every sample that has a value",
            "correct the values, leave the cells empty where there is none, "
            "or set the task's kind to classification",
        )
    return _varied(values, column)


def observed_classes(metadata: pd.DataFrame, column: str) -> pd.Series:
    """Return the classes of a target, without the samples that have none.

    Parameters
    ----------
    metadata
        Text per sample and column, null where missing.
    column
        Name of the target.

    Returns
    -------
    pandas.Series
        Text, of two classes at least.

    Raises
    ------
    InputError
        If values are missing everywhere, or all the same.
    """
    return _varied(_given(metadata, column), column)


def _given(metadata: pd.DataFrame, column: str) -> pd.Series:
    values = metadata_column(metadata, column)
    given = values[values.notna()].astype(object)
    if not len(given):
        raise problem(
            f"metadata column '{column}'",
            f"no value in any of the {len(values)} samples that rarefaction keeps",
            "a value in at least two of them",
            "choose another column, lower rarefaction.depth, or fill in the metadata",
        )
    return given


def _varied(values: pd.Series, column: str) -> pd.Series:
    if values.nunique() < 2:
        raise _constant(values, column)
    return values


def _constant(values: pd.Series, column: str) -> InputError:
    return problem(
        f"metadata column '{column}'",
        f"the one value '{values.iloc[0]}' in all {len(values)} samples that have one",
        "at least two different values",
        "choose a column that varies: there is nothing to predict in this one",
    )


def _examples(bad: pd.Series) -> str:
    return first_names(f"{value!r} in {sample}" for sample, value in bad.items())
