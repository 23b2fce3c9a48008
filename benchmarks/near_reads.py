"""How many reads of public studies are near those of another study, or half: V4, 90 to 150 bases.

    python -m benchmarks.near_reads [../shared/data]

It prints a line per pair of tables: over the samples the mean, the least and the 5 % quantile of
the fraction of near reads (`near_reads`), the fraction of samples below `FEW_NEAR`, and the median
distance per base of the reads to the nearest ASV of training.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.importing.table import load_table, without_empty
from aam.data.predictions import FEW_NEAR
from aam.data.table import FeatureTable
from aam.reference_tree.nearest import KnownSequences, encode, reverse_complement

STUDIES = ("moving-pictures", "ecam", "oral")
PRIMER = "GTGCCAGCAGCCGCGGTAA"
"""515F, in front of the reads of all studies."""
CHANGES: dict[str, Callable[[str], str]] = {
    "other strand": reverse_complement,
    "first base cut off": lambda text: text[1:],
    "primer left on": lambda text: PRIMER + text,
    "first 90 bases": lambda text: text[:90],
    "from base 61 on": lambda text: text[60:],
}
CORPUS_SAMPLES = 100
"""Samples of each study of the corpus that are drawn."""
COLUMNS = ("trained on", "predicted", "n", "mean", "least", "5 %", "below", "distance")


def main(data: Path) -> None:
    """Print the table.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    rows = pd.DataFrame([*study_rows(data), *corpus_rows(data / "corpus")], columns=COLUMNS)
    print(rows.to_string(index=False, float_format="{:.3f}".format))


def study_rows(data: Path) -> Iterator[tuple[object, ...]]:
    """Yield the rows of halves of studies, of other studies, and of changed sequences.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    rng = np.random.default_rng(0)
    whole = {name: without_empty(load_table(data / name / "table.biom"))[0] for name in STUDIES}
    for name, table in whole.items():
        order = rng.permutation(len(table.sample_ids))
        middle = len(order) // 2
        known = table.select_samples(np.sort(order[:middle])).feature_ids
        other = table.select_samples(np.sort(order[middle:]))
        yield compare(f"half of {name}", "the other half", known, other, other.feature_ids)
        for label, change in CHANGES.items():
            texts = [change(text) for text in other.feature_ids]
            yield compare(f"half of {name}", f"the other half, {label}", known, other, texts)
    for name, table in whole.items():
        for other_name, other in whole.items():
            if name != other_name:
                yield compare(name, other_name, table.feature_ids, other, other.feature_ids)


def corpus_rows(folder: Path) -> Iterator[tuple[object, ...]]:
    """Yield the rows of every two studies of the corpus.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """
    table, _ = without_empty(load_table(folder / "table.biom"))
    metadata = pd.read_csv(folder / "metadata.tsv", sep="\t", dtype=str, index_col="sample-id")
    study_N = metadata["study"].reindex(table.sample_ids).to_numpy()
    rng = np.random.default_rng(0)
    drawn = {}
    for name in sorted(set(study_N)):
        rows = rng.permutation(np.flatnonzero(study_N == name))[:CORPUS_SAMPLES]
        drawn[name] = table.select_samples(np.sort(rows))
    for name, known in drawn.items():
        for other_name, other in drawn.items():
            if name != other_name:
                yield compare(name, other_name, known.feature_ids, other, other.feature_ids)


def compare(
    trained: str, predicted: str, known: list[str], table: FeatureTable, texts: list[str]
) -> tuple[object, ...]:
    """Return a row.

    Parameters
    ----------
    trained, predicted
        What the row calls the tables.
    known
        Sequences of training.
    table
        Reads of the samples that are predicted.
    texts
        Sequence of each of its features.
    """
    length_bp = max(map(len, known))
    nearest = KnownSequences(encode(known, length_bp)).nearest(encode(texts, length_bp))
    share_NF = table.counts / table.reads[:, None]
    near_N: NDArray[np.float64] = share_NF @ nearest.is_near_Q.astype(float)
    order = np.argsort(nearest.distance_Q)
    weight = np.cumsum(share_NF.sum(axis=0)[order])
    distance = nearest.distance_Q[order][np.searchsorted(weight, 0.5 * weight[-1])]
    least, low = np.quantile(near_N, [0, 0.05])
    below = (near_N < FEW_NEAR).mean()
    return trained, predicted, len(near_N), near_N.mean(), least, low, below, distance


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data"))
