"""Tables of cross-validated predictions.

They are stored separately from the scores, so that a change to the scoring does not repeat training
runs.

Shape suffixes: N samples, C classes.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from aam.data.cell_values import NUMBER
from aam.util.atomic import write_tsv

PROBABILITY = "probability:"
"""Prefix of the columns that hold the probability of a class."""
QUANTILE = "quantile:"
"""Prefix of the columns that hold a predicted quantile, `quantile:0.05` for instance."""
TARGET = "target"
"""Column that names the target of a row, where a task has several."""
UNNESTED = "unnested"
"""Column of predictions of mixed recipes whose weights rest on models that saw the fold."""
DRAW = "draw:"
"""Prefix of the columns of predictions by single networks, of several that are averaged."""
GROUP = "group"
"""Column that says which samples belong together; a sample that is alone has its ID there."""

REPRESENTATIVE = "representative"
"""Column of a table of clades: the most frequent feature of each."""
NAMES = (
    *("sample-id", "feature-id", "task", "name", "model", TARGET, "taxon"),
    *("clade", REPRESENTATIVE),
)
"""Columns of names, in any file of results."""
CLADE_OF_TARGET = "clade:"
"""Beginning of a column of the features of clades: what follows is the target."""
CLASSES = ("observed", "predicted", "unnested", "likeliest", "prediction_set")
"""Columns of classes, in a file of results that has probabilities of classes."""
_WRITTEN_NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?(e[-+]?\d+)?"
"""A number as pandas writes it, without zeros in front."""
CROSS_VALIDATION = "cross_validation.tsv"
"""File of a fine-tuned model directory, and of a super learner: its cross-validated predictions."""
SEPARATOR = "|"
"""Between the classes of a set; in the name of one it has a backslash before it."""
UNSEEN_ASVS = "unseen_asvs"
"""Column of predictions for another table: fraction of the reads whose ASV training never saw."""
NEAR_READS = "near_reads"
"""Column of predictions for another table: fraction of the reads whose ASV training saw, or that
differ little from one that it saw."""
FEW_NEAR = 0.5
"""Fraction of near reads below which a sample is given neither an interval nor a set.

`python -m benchmarks.near_reads` measures it: none of the 1657 samples of three studies that were
predicted from the other half of their study lies below 0.74.
"""
LEAST_PROBABILITY = 1e-12
"""What a probability of 0 counts as where its logarithm is taken."""


def mean_recall(truth: NDArray[Any], guess: NDArray[Any]) -> float:
    """Return the mean recall of the classes that occur.

    Parameters
    ----------
    truth, guess
        Names or numbers of the observed and predicted classes, [N].
    """
    is_right = truth == guess
    return float(np.mean([is_right[truth == name].mean() for name in np.unique(truth)]))


def class_order(names: Iterable[str]) -> list[str]:
    """Return different classes in the order that they have where nobody gives them one.

    Parameters
    ----------
    names
        Names of classes, each once or more often.

    Returns
    -------
    list of str
        Sorted by their numbers where all are numbers, so that 10 comes behind 2, else as text.
    """
    different = set(map(str, names))
    if all(re.fullmatch(NUMBER, name) for name in different):
        return sorted(different, key=lambda name: (float(name), name))
    return sorted(different)


def join_classes(names: Iterable[str]) -> str:
    r"""Return a set of classes as a file has it: `a|b`.

    Parameters
    ----------
    names
        Names of the classes. A bar or a backslash in a name gets a backslash before it, so that
        `split_classes` returns what went in.
    """
    return SEPARATOR.join(re.sub(r"([|\\])", r"\\\1", name) for name in names)


def split_classes(text: str) -> list[str]:
    """Return the names of the classes of a set that `join_classes` wrote.

    Parameters
    ----------
    text
        The set as a file has it.
    """
    return [re.sub(r"\\(.)", r"\1", name) for name in re.findall(r"(?:\\.|[^|\\])+", text)]


def class_codes(names: ArrayLike, classes: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of each name among the classes, int64 [N].

    Parameters
    ----------
    names
        Names of classes, [N].
    classes
        All classes, in order.
    """
    code_by_name = {name: code for code, name in enumerate(classes)}
    codes = [code_by_name[name] for name in np.asarray(names).astype(str)]
    return np.array(codes, dtype=np.int64)


def class_names(predictions: pd.DataFrame) -> list[str]:
    """Return the classes that a table of predictions has probabilities of; none for numbers.

    Parameters
    ----------
    predictions
        A table with or without columns `probability:<class>`.
    """
    names = map(str, predictions.columns)
    return [name.removeprefix(PROBABILITY) for name in names if name.startswith(PROBABILITY)]


def class_probabilities(predictions: pd.DataFrame, classes: list[str]) -> NDArray[np.float64]:
    """Return the probabilities of a table, float64 [N, C].

    Parameters
    ----------
    predictions
        A table with columns `probability:<class>`.
    classes
        Names of the classes, in the order of the columns that are returned.
    """
    return predictions[[PROBABILITY + name for name in classes]].to_numpy(dtype=np.float64)


def numbers(column: pd.Series) -> NDArray[np.float64]:
    """Return the numbers of a column, float64 [N].

    Parameters
    ----------
    column
        Numbers, or text that is numbers.
    """
    return pd.to_numeric(column).to_numpy(dtype=np.float64)


def by_target(predictions: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each target, in the order of appearance.

    Parameters
    ----------
    predictions
        Rows of all targets, with a column `target` where there are several.

    Returns
    -------
    dict
        Rows without that column by target; all as "" where there is one.
    """
    if TARGET not in predictions:
        return {"": predictions}
    parts = predictions.groupby(TARGET, sort=False)
    return {str(name): part.drop(columns=TARGET) for name, part in parts}


def by_baseline(predictions: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
    """Return the rows of each baseline by target, in the order of appearance.

    Parameters
    ----------
    predictions
        Rows of all baselines, with a column `baseline`.
    """
    parts = predictions.groupby("baseline", sort=False)
    return {str(name): by_target(part.drop(columns="baseline")) for name, part in parts}


def read_results(path: Path) -> pd.DataFrame:
    """Read a TSV file of results.

    Parameters
    ----------
    path
        File of any stage.

    Returns
    -------
    pandas.DataFrame
        Names (`NAMES`), classes (`CLASSES`) next to their probabilities, or without folds where
        one is a code (`01`), and what a table of clades says of them stay text even if they look
        like numbers or missing values (`NA`).
    """
    # The header is read first, because the types of the columns depend on which there are.
    header = pd.read_csv(path, sep="\t", nrows=0)
    text = [*NAMES, *(name for name in header if str(name).startswith(CLADE_OF_TARGET))]
    has_probabilities = any(str(name).startswith(PROBABILITY) for name in header)
    # Files without folds are of clades, and do not say whether they hold numbers or classes.
    may_be_classes = "fold" not in header and not has_probabilities
    if has_probabilities or may_be_classes:
        text += CLASSES
    if REPRESENTATIVE in header:
        text.append("direction")
    types = dict.fromkeys(text, str)
    table = pd.read_csv(path, sep="\t", dtype=types, keep_default_na=False, na_values=[""])
    for name in CLASSES if may_be_classes else ():
        if name in table and table[name].dropna().str.fullmatch(_WRITTEN_NUMBER).all():
            table[name] = pd.to_numeric(table[name])
    return table


def read_predictions(path: Path) -> pd.DataFrame:
    """Read a table of predictions.

    Parameters
    ----------
    path
        A file that `write_predictions` wrote.

    Returns
    -------
    pandas.DataFrame
        Text, but for fold, probabilities and quantiles, which are numbers.

    Raises
    ------
    KeyError, ValueError
        The file is no such table.
    """
    # Everything is text at first: classes may be called `01` or `NA`.
    table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    names = map(str, table.columns)
    numeric = ["fold", *(name for name in names if name.startswith((PROBABILITY, QUANTILE)))]
    return table.assign(**{name: pd.to_numeric(table[name]) for name in numeric})


def write_predictions(path: Path, predictions: pd.DataFrame) -> None:
    """Write a table of predictions as TSV, atomically.

    Parameters
    ----------
    path
        File to write.
    predictions
        The table; its numbers have nine digits, as fp32 does.
    """
    write_tsv(path, predictions, float_format="%.9g")
