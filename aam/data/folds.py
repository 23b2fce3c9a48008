"""The files of a task's folds, and which of its samples belong together."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Names = Sequence[str] | NDArray[np.object_]
"""IDs, groups or classes of samples."""
TEST = -1
"""Fold of the samples that are held out for testing."""
OBSERVED = "observed:"
"""Prefix of the columns that hold one of several targets."""
CATEGORY = "category:"
"""Prefix of the columns that hold a category of the metadata."""


def folder_of_fold(fold: int) -> str:
    """Return the name of the folder of what was trained without a fold."""
    return f"fold{fold}"


def read_folds(path: Path) -> pd.DataFrame:
    """Read the folds of a task, or the file of their members.

    Parameters
    ----------
    path
        Either file of the stage `folds`.

    Returns
    -------
    pandas.DataFrame
        By sample ID. `fold` is int64, and alone in the file of the members. The other columns are
        text: `observed`; `group`, which is the value of the fold where `folds.column` names the
        folds and no groups are given, and empty where a sample is of its own;
        `observed:<column>` where there are several targets; `category:<column>`.
    """
    frame = pd.read_csv(path, sep="\t", dtype=str, na_filter=False).set_index("sample-id")
    return frame.astype({"fold": np.int64})


def units_of(group: pd.Series) -> pd.Series:
    """Return what says which samples belong together, by sample ID.

    Parameters
    ----------
    group
        The column `group` of the folds, by sample ID: "" for a sample of its own.

    Returns
    -------
    pandas.Series
        The group of each sample, or its own ID where it has none.
    """
    return group.where(group != "", group.index.to_series())
