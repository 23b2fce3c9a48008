"""Tables of cross-validated predictions.

Apart from the scores, so that training does not depend on how it is scored.
"""

from pathlib import Path

import pandas as pd

from aam.util.atomic import atomic_path

PROBABILITY = "probability:"
"""Prefix of the columns that hold the probability of a class."""


def class_names(predictions: pd.DataFrame) -> list[str]:
    """Return the classes that a table of predictions has probabilities of."""
    names = map(str, predictions.columns)
    return [name.removeprefix(PROBABILITY) for name in names if name.startswith(PROBABILITY)]


def read_predictions(path: Path) -> pd.DataFrame:
    """Read a `predictions.tsv`: names stay strings, `fold` and probabilities are numbers."""
    table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    numeric = ["fold", *(PROBABILITY + name for name in class_names(table))]
    return table.assign(**{name: pd.to_numeric(table[name]) for name in numeric})


def write_predictions(path: Path, predictions: pd.DataFrame) -> None:
    """Write a `predictions.tsv` atomically; numbers have six digits, enough for any target here."""
    with atomic_path(path) as partial:
        predictions.to_csv(partial, sep="\t", index=False, float_format="%.6g", lineterminator="\n")
