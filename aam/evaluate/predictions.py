"""Tables of cross-validated predictions; apart from the scores, so that training ignores those."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.util.atomic import write_tsv

PROBABILITY = "probability:"
"""Prefix of the columns that hold the probability of a class."""
QUANTILE = "quantile:"
"""Prefix of the columns that hold a predicted quantile, `quantile:0.05` for instance."""
TARGET = "target"
"""Column that names the target of a row, where a task has several."""

CROSS_VALIDATION = "cross_validation.tsv"
"""File of a fine-tuned model directory, and of a super learner: its cross-validated predictions."""


def class_names(predictions: pd.DataFrame) -> list[str]:
    """Return the classes that a table of predictions has probabilities of."""
    names = map(str, predictions.columns)
    return [name.removeprefix(PROBABILITY) for name in names if name.startswith(PROBABILITY)]


def class_probabilities(predictions: pd.DataFrame, classes: list[str]) -> NDArray[np.float64]:
    """Return the probabilities of N samples and C classes, [N, C]."""
    return predictions[[PROBABILITY + name for name in classes]].to_numpy(dtype=np.float64)


def numbers(column: pd.Series) -> NDArray[np.float64]:
    """Return the numbers of a column that may hold them as text."""
    return pd.to_numeric(column).to_numpy(dtype=np.float64)


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
    write_tsv(path, predictions, float_format="%.9g")
