"""Distances between samples as training reads them, in memory or mapped from files."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.config.metrics import FAITH_PD
from aam.train.data.mapped_distances import GB, ITEM_BYTES, MappedMatrix, checked_rows, map_matrices
from aam.train.data.sampler import Blocks
from aam.unifrac.store import read_faith_pd

logger = logging.getLogger(__name__)
DISTANCES_AT_ONCE = 1 << 20
"""Distances that are read at a time where all pairs are summed up."""
Matrix = NDArray[np.floating] | MappedMatrix
"""Distances [N, N], for indices made by `numpy.ix_`."""
Views = NDArray[np.float32] | list[MappedMatrix]
"""The matrices of V views."""


@dataclass(frozen=True)
class Maps:
    """Where distances go that memory has no room for.

    The folder is for the converted files alone. Where all distances together take more than
    `memory` bytes, all are mapped. Batches are drawn from `blocks`; None: from all samples.
    """

    folder: Path
    memory: float
    blocks: Blocks | None = None


def load_matrices(
    paths: Sequence[Path],
    metrics: Sequence[str],
    views: int,
    sample_ids: Sequence[str],
    is_in: NDArray[np.bool_] | None = None,
    maps: Maps | None = None,
) -> tuple[dict[str, Views], dict[str, NDArray[np.float32]]]:
    """Read the distances of all metrics and views, or map them.

    The Parquet files lie metric by metric, within a metric view by view. Returned are per metric
    the matrices [N, N] of V views, and for Faith's PD the values [N, 1], the mean of the views,
    standardized by the samples `is_in` [N], or by all.
    """
    assert len(paths) == len(metrics) * views, "one file per metric and view"
    files = {metric: paths[n * views : (n + 1) * views] for n, metric in enumerate(metrics)}
    values = {}
    if FAITH_PD in files:
        values[FAITH_PD] = _faith_pd(files.pop(FAITH_PD), sample_ids, is_in)
    needed = ITEM_BYTES * len(sample_ids) ** 2 * views * len(files)
    if maps is None or needed <= maps.memory:
        return {metric: _read(own, sample_ids) for metric, own in files.items()}, values
    logger.info(
        "distances of %.3g GB are mapped from files: more than the %.3g GB of memory for them; "
        "batches are of %s",
        *(needed / GB, maps.memory / GB, "any samples" if maps.blocks is None else "blocks"),
    )
    sources = {f"{m}-view{view}": path for m, own in files.items() for view, path in enumerate(own)}
    found = map_matrices(maps.folder, sources, sample_ids, maps.blocks)
    return {m: [found[f"{m}-view{view}"] for view in range(views)] for m in files}, values


def _faith_pd(
    paths: Sequence[Path], sample_ids: Sequence[str], is_in: NDArray[np.bool_] | None
) -> NDArray[np.float32]:
    read = [read_faith_pd(path) for path in paths]
    for (ids, _), path in zip(read, paths, strict=True):
        assert ids == list(sample_ids), f"{path} holds other samples than the store"
    mean_N1 = np.stack([values_N for _, values_N in read]).mean(axis=0)[:, None]
    scale = mean_N1 if is_in is None else mean_N1[is_in]
    return ((mean_N1 - scale.mean()) / scale.std()).astype(np.float32)


def _read(paths: Sequence[Path], sample_ids: Sequence[str]) -> NDArray[np.float32]:
    """Return the matrices [V, N, N] of some files, each read to where it stays."""
    samples = len(sample_ids)
    matrix_VNN = np.empty((len(paths), samples, samples), np.float32)
    for matrix_NN, path in zip(matrix_VNN, paths, strict=True):
        for first, rows_RN in checked_rows(path, sample_ids):
            matrix_NN[first : first + len(rows_RN)] = rows_RN
    return matrix_VNN


def mapped_mb(distances: Mapping[str, Views]) -> float:
    """Return the size of the distances that are mapped from files, in MB of 2^20 bytes."""
    parts = [matrix for views in distances.values() for matrix in views]
    return sum(part.bytes / 2**20 for part in parts if isinstance(part, MappedMatrix))


def pair_variances(
    distances: Mapping[str, NDArray[np.floating] | list[MappedMatrix]], samples: NDArray[np.int64]
) -> dict[str, float]:
    """Return the variance of each metric over pairs of some samples, in view 0."""
    return {m: max(_pair_variance(views[0], samples), 1e-6) for m, views in distances.items()}


def _pair_variance(matrix_NN: Matrix, samples: NDArray[np.int64]) -> float:
    """Merge means and squared deviations of blocks of rows (Chan et al. 1979), in their order."""
    rows_at_once = max(1, DISTANCES_AT_ONCE // len(samples))
    number, mean, square = 0, 0.0, 0.0
    for first in range(0, len(samples), rows_at_once):
        # Row i of the block meets the samples behind it: those of the columns are behind `first`.
        block = matrix_NN[np.ix_(samples[first : first + rows_at_once], samples[first:])]
        values = block[np.triu(np.ones(block.shape, bool), 1)].astype(np.float64)
        if not len(values):
            continue
        added, shift = len(values), values.mean() - mean
        square += ((values - values.mean()) ** 2).sum()
        square += shift**2 * number * added / (number + added)
        number += added
        mean += shift * added / number
    return square / max(number, 1)
