"""The files of a task's folds, as the stages after them read them."""

from pathlib import Path

import numpy as np
import pandas as pd

TEST = -1
"""Fold of the samples that are held out for testing."""

OBSERVED = "observed:"
"""Prefix of the columns that hold one of several targets."""

CATEGORY = "category:"
"""Prefix of the columns that hold a category of the metadata."""


def read_folds(path: Path) -> pd.DataFrame:
    """Read the folds of a task.

    Returns
    -------
    pandas.DataFrame
        Index `sample-id`; `fold` (int, -1: held out for testing), and as text `observed`, `group`
        (empty without groups), `observed:<column>` where there are several targets, and
        `category:<column>` (empty where missing).
    """
    frame = pd.read_csv(path, sep="\t", dtype=str, na_filter=False).set_index("sample-id")
    return frame.astype({"fold": np.int64})


def read_members(path: Path) -> pd.Series:
    """Read which samples belong to the folds of a task, with a target or without.

    Returns
    -------
    pandas.Series
        Fold (int64, -1: held out for testing) by `sample-id`.
    """
    return read_folds(path)["fold"]
