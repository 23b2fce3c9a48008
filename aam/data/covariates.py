"""Covariates: metadata columns that are known of a sample without its features.

Shape suffixes: N samples.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.cell_values import read_numbers
from aam.data.metadata import metadata_column
from aam.data.study.columns import UNREAD_HINT, column_of
from aam.util.errors import problem

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Covariates:
    """Numbers and categories of some samples, in one order."""

    numbers: Mapping[str, NDArray[np.float64]]
    """Columns of numbers by name, NaN where missing, [N]."""
    categories: Mapping[str, NDArray[np.object_]]
    """Columns of text by name, empty where missing, [N]."""

    @property
    def samples(self) -> int:
        """Number of samples, N."""
        return len(next(iter([*self.numbers.values(), *self.categories.values()])))


def read_covariates(metadata: pd.DataFrame, columns: Sequence[str]) -> Covariates:
    """Return covariates of samples from their metadata.

    A column is one of numbers where `aam.data.study.columns.column_of` says so, else one of
    categories. Warnings name columns that can say nothing.

    Parameters
    ----------
    metadata
        Text of the samples, None or NaN where missing.
    columns
        Names of the covariates.

    Raises
    ------
    InputError
        There is no such column, or one of numbers has values that are none.
    """
    numbers = {}
    categories = {}
    for name in columns:
        values = metadata_column(metadata, name)
        column = column_of(values)
        if column.kind in ("empty", "one value", "names"):
            why = "nearly every sample has a value of its own"
            if column.kind != "names":
                why = "all samples that have a value have the same"
            logger.warning("covariate '%s' says little: %s", name, why)
        if column.kind != "number":
            categories[name] = values.fillna("").to_numpy(object)
            continue
        if len(column.unread):
            raise problem(
                f"covariate '{name}'",
                column.unread_text,
                "numbers, as most of its values are",
                UNREAD_HINT.replace("to predict the values as classes", "for categories"),
            )
        number_N = np.full(len(values), np.nan)
        is_given_N = values.notna().to_numpy()
        number_N[is_given_N] = read_numbers(values[is_given_N].astype(object)).values
        numbers[name] = number_N
    return Covariates(numbers, categories)
