"""Sentences on samples and features that were left out before anything was computed."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from aam.data.sequences import SAME_SEQUENCE


def count_names(number: int, name: str) -> str:
    """Return a number and what it counts: `1 sample`, `2 samples`."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def describe_left_out(table: pd.DataFrame) -> Iterator[str]:
    """Yield how many samples or features a table of left-out things has, and why.

    Parameters
    ----------
    table
        The table that importing writes, with the columns `what` and `why`, or that of rarefaction,
        with the column `depth`.
    """
    if "why" in table:
        # Features of one sequence are counted together, whichever they are.
        reasons = [
            "the same sequence as another" if why.startswith(SAME_SEQUENCE) else why
            for why in table["why"]
        ]
        kinds = Counter(zip(table["what"], reasons, strict=True))
        for (what, why), count in sorted(kinds.items()):
            yield f"{count_names(count, what)} with {why}"
        return
    for depth, count in sorted(Counter(table["depth"]).items()):
        samples = count_names(count, "sample")
        yield f"{samples} with fewer than {depth} reads (the rarefaction depth)"


def describe_long_branches() -> str:
    """Say that ASVs were left out because of the tree."""
    return "ASVs behind extremely long branches of the tree (rarefaction: {long_branches: drop})"
