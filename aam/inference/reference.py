"""Samples that models were trained on: which of a table were among them, how far others lie away.

Shape suffixes: N training samples, R of them whose embeddings are kept, M samples of a table, W
rows of a block, D width, P parts (`aam.data.same_reads`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from aam.data.same_reads import Fingerprints, KnownSamples
from aam.data.table import FeatureTable
from aam.model.store import read_tensors, write_tensors

VERSION = 2
REFERENCES = 2000
"""Samples whose embeddings are kept at most."""
ROWS_PER_BLOCK = 1024
"""Samples whose distances to all references exist at a time."""
LEAST_VARIANCE = 1e-6
"""Least variance of a dimension, in units of the mean over all: no constant one may dominate."""


def write_reference(
    path: Path,
    embedding_ND: NDArray[np.floating],
    table: FeatureTable,
    sequences: Sequence[str],
    model: str,
) -> None:
    """Write what recognizes training samples, and at most `REFERENCES` of their embeddings.

    Parameters
    ----------
    path
        File to write.
    embedding_ND
        Embeddings of two or more training samples. Those that are kept are spread evenly over
        their order.
    table
        Reads of the same samples, in the same order, before rarefaction.
    sequences
        Sequence of every feature of the table, as the models read it.
    model
        Folder of the model whose encoder made the embeddings.
    """
    number = len(embedding_ND)
    assert number > 1, "a sample's nearest other needs a second one"
    assert number == len(table.sample_ids), "reads of other samples"
    rows_R = np.linspace(0, number - 1, min(number, REFERENCES)).astype(np.int64)
    kept_RD = np.ascontiguousarray(embedding_ND[rows_R], np.float32)
    # The nearest of all is the sample itself.
    distance_R = _nearest(kept_RD, kept_RD, left_out=1)
    fingerprints = Fingerprints.from_counts(table.counts, sequences)
    tensors = {
        "embedding": torch.from_numpy(kept_RD),
        "distance": torch.from_numpy(distance_R),
        "parts": torch.from_numpy(fingerprints.part_P),
        "offsets": torch.from_numpy(fingerprints.offsets),
    }
    about = {"version": VERSION, "model": model, "samples": table.sample_ids}
    write_tensors(path, tensors, about)


@dataclass(frozen=True, eq=False)
class Reference:
    """The samples that models were trained on."""

    embedding_RD: NDArray[np.float32]
    """Embeddings of view 0 of the samples, or of some of them."""
    distance_R: NDArray[np.float32]
    """From each to the nearest other one, every dimension in units of its standard deviation."""
    samples: KnownSamples
    """What recognizes all of them."""
    model: str
    """Folder of the model whose encoder made the embeddings."""

    @classmethod
    def open(cls, path: Path) -> "Reference":
        """Read a file of `write_reference`.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        Reference
            Its arrays must not be written to.

        Raises
        ------
        InputError
            The file is missing, damaged or of another version.
        """
        hint = "give the model directory with all of its files, or fine-tune again"
        about, tensors = read_tensors(path, version=VERSION, what="training samples", hint=hint)
        return cls(
            embedding_RD=tensors["embedding"].numpy(),
            distance_R=tensors["distance"].numpy(),
            samples=KnownSamples(
                sample_ids=frozenset(about["samples"]),
                fingerprints=Fingerprints(tensors["parts"].numpy(), tensors["offsets"].numpy()),
            ),
            model=about["model"],
        )

    def novelty(self, embedding_MD: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return how new samples are.

        Parameters
        ----------
        embedding_MD
            Embeddings of the samples, by the encoder that made those of the reference.

        Returns
        -------
        numpy.ndarray
            [M], from 0 to 1: the fraction of the references that lie nearer to their own nearest
            other one. Samples of the same study are spread over 0 to 1.
        """
        nearest_M = _nearest(np.asarray(embedding_MD), self.embedding_RD)
        rank_M = np.searchsorted(np.sort(self.distance_R), nearest_M, side="left")
        return rank_M / len(self.distance_R)


def _nearest(
    embedding_MD: NDArray[np.floating], reference_RD: NDArray[np.float32], *, left_out: int = 0
) -> NDArray[np.float32]:
    """Return the distance to the nearest reference after the `left_out` nearest ones, [M].

    By differences, not by products: the distance of a sample to itself has to be 0.
    """
    variance_D = reference_RD.var(axis=0, dtype=np.float64)
    variance_D = np.maximum(variance_D, LEAST_VARIANCE * variance_D.mean() or 1.0)
    nearest_M = np.empty(len(embedding_MD), np.float32)
    for first in range(0, len(embedding_MD), ROWS_PER_BLOCK):
        rows_WD = embedding_MD[first : first + ROWS_PER_BLOCK]
        distance_WR = cdist(rows_WD, reference_RD, "seuclidean", V=variance_D)
        nearest_M[first : first + len(rows_WD)] = np.partition(distance_WR, left_out)[:, left_out]
    return nearest_M
