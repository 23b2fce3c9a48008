"""Embeddings of the samples that a model was trained on: how far new samples lie from them.

The file is in the safetensors format: `embedding` [R, D] in fp32, and `distance` [R], from each
sample to the nearest other one.

Shape suffixes: N samples, R of them kept as references, M new samples, D width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from aam.model.tensors import read_tensors, write_tensors

VERSION = 1
REFERENCES = 2000
"""Samples that are kept at most."""
ROWS_PER_LOOK = 1024
"""Samples whose distances to all references exist at a time."""
LEAST_VARIANCE = 1e-6
"""Of a dimension, in units of the mean over all: one that stands still must not count most."""


def reference_rows(number: int) -> NDArray[np.int64]:
    """Return which of `number` samples are kept, evenly spread over their order, [R]."""
    return np.linspace(0, number - 1, min(number, REFERENCES)).astype(np.int64)


def write_reference(path: Path, embedding_ND: NDArray[np.floating]) -> None:
    """Write the references among some samples, atomically and byte-reproducibly.

    Parameters
    ----------
    path
        The file.
    embedding_ND
        Embeddings of two samples at least; those of `reference_rows` are kept.
    """
    assert len(embedding_ND) > 1, "a sample's nearest other needs a second one"
    kept_RD = np.ascontiguousarray(embedding_ND[reference_rows(len(embedding_ND))], np.float32)
    nearest = _nearest(kept_RD, kept_RD, _variance(kept_RD), themselves=True)
    distance_R = np.concatenate(list(nearest))
    parts = {"embedding": torch.from_numpy(kept_RD), "distance": torch.from_numpy(distance_R)}
    write_tensors(path, parts, {"version": VERSION})


@dataclass(frozen=True, eq=False)
class Reference:
    """The samples that a model was trained on, or some of them.

    Attributes
    ----------
    embedding_RD
        Their embeddings, fp32.
    distance_R
        From each to the nearest other one, every dimension in units of its standard deviation.
    """

    embedding_RD: NDArray[np.float32]
    distance_R: NDArray[np.float32]

    @classmethod
    def open(cls, path: Path) -> "Reference":
        """Read a file of `write_reference`.

        Raises
        ------
        InputError
            When there is no such file, or it holds something else.
        """
        _, tensors = read_tensors(
            path,
            version=VERSION,
            what="reference samples",
            hint="give the model directory that fine-tuning wrote, with all of its files",
        )
        return cls(tensors["embedding"].numpy(), tensors["distance"].numpy())

    def novelty(self, embedding_MD: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return how new samples are, from 0 to 1, [M].

        The distance to the nearest reference, as a rank: the share of the references that lie
        nearer to their own nearest other one. Samples of the same study are spread over 0 to 1.

        Parameters
        ----------
        embedding_MD
            Embeddings by the encoder that made the references'.
        """
        ordered_R = np.sort(self.distance_R)
        nearest = _nearest(np.asarray(embedding_MD), self.embedding_RD, self._variance_D)
        ranks = [np.searchsorted(ordered_R, distance_W, side="left") for distance_W in nearest]
        return np.concatenate([np.empty(0), *ranks]) / len(ordered_R)

    @cached_property
    def _variance_D(self) -> NDArray[np.float64]:
        return _variance(self.embedding_RD)


def _variance(embedding_RD: NDArray[np.float32]) -> NDArray[np.float64]:
    variance_D = embedding_RD.var(axis=0, dtype=np.float64)
    return np.maximum(variance_D, LEAST_VARIANCE * variance_D.mean() or 1.0)


def _nearest(
    embedding_MD: NDArray[np.floating],
    reference_RD: NDArray[np.float32],
    variance_D: NDArray[np.float64],
    *,
    themselves: bool = False,
) -> Iterator[NDArray[np.float32]]:
    """Yield the distance to the nearest reference, piece by piece.

    By differences, not by products: the distance of a sample to itself has to be 0.
    """
    for first in range(0, len(embedding_MD), ROWS_PER_LOOK):
        rows_WD = embedding_MD[first : first + ROWS_PER_LOOK]
        distance_WR = cdist(rows_WD, reference_RD, "seuclidean", V=variance_D)
        if themselves:
            own = np.arange(len(rows_WD))
            distance_WR[own, first + own] = np.inf
        yield distance_WR.min(axis=1).astype(np.float32)
