"""Tables of cross-validated predictions.

SubprocessRunner from the scores, so that training does not depend on how it is scored.
"""

from pathlib import Path

import pandas as pd

from aam.util.atomic import atomic_path

PROBABILITY = "probability:"
"""Prefix of the columns that hold the probability of a class."""

QUANTILE = "quantile:"
"""Prefix of the columns that hold a predicted quantile, `quantile:0.05` for instance."""

TARGET = "target"
"""Column that names the target of a row, where a task has several."""


def class_names(predictions: pd.DataFrame) -> list[str]:
    """Return the classes that a table of predictions has probabilities of."""
    names = map(str, predictions.columns)
    return [name.removeprefix(PROBABILITY) for name in names if name.startswith(PROBABILITY)]


def by_target(predictions: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each target, in the order of appearance; all as "" where there is one."""
    if TARGET not in predictions:
        return {"": predictions}
    parts = predictions.groupby(TARGET, sort=False)
    return {str(name): part.drop(columns=TARGET) for name, part in parts}


def read_predictions(path: Path) -> pd.DataFrame:
    """Read a `predictions.tsv`: names stay strings; fold, probabilities, quantiles are numbers."""
    table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    names = map(str, table.columns)
    numeric = ["fold", *(name for name in names if name.startswith((PROBABILITY, QUANTILE)))]
    return table.assign(**{name: pd.to_numeric(table[name]) for name in numeric})


def write_predictions(path: Path, predictions: pd.DataFrame) -> None:
    """Write a `predictions.tsv` atomically; numbers have nine digits, as fp32 does."""
    with atomic_path(path) as partial:
        predictions.to_csv(partial, sep="\t", index=False, float_format="%.9g", lineterminator="\n")
