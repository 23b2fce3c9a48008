"""Stand-in, to be replaced by the module of the branch `data`."""

from collections.abc import Collection
from typing import Any

import pandas as pd


def confounders(
    target: pd.Series,
    metadata: pd.DataFrame,
    *,
    kind: str,
    exclude: Collection[str],
    seed: int,
    groups: pd.Series | None = None,
) -> list[dict[str, Any]]:
    """Return nothing."""
    return []
