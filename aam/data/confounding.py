"""Stand-in, to be replaced by the module of the branch `data`."""

from collections.abc import Collection
from typing import Any

import pandas as pd


def confounders(
    target: pd.Series, metadata: pd.DataFrame, *, kind: str, exclude: Collection[str], seed: int
) -> list[dict[str, Any]]:
    """Return the columns that have a value of their own for each value of the target."""
    return [
        {"column": str(name), "score": 1.0, "kind": "exact"}
        for name in metadata.columns
        if name not in exclude and target.groupby(metadata[name]).nunique().max() == 1
    ]
