"""UniFrac matrices as training reads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.unifrac.store import read_distances, read_faith_pd

FAITH_PD = "faith_pd"
DISTANCES_AT_ONCE = 1 << 20
"""Distances that are read at a time where all pairs are summed up."""


def load_matrices(
    paths: Sequence[Path],
    metrics: Sequence[str],
    views: int,
    sample_ids: Sequence[str],
    is_in: NDArray[np.bool_] | None = None,
) -> tuple[dict[str, NDArray[np.float32]], dict[str, NDArray[np.float32]]]:
    """Read the distances of all metrics and views.

    Parameters
    ----------
    paths
        Parquet files, metric by metric, within a metric view by view.
    metrics
        Names of the metrics.
    views
        Number V of views.
    sample_ids
        The N samples that the files must hold, in their order.
    is_in
        True for the samples whose mean and deviation standardize values, [N]; None: all.

    Returns
    -------
    distances, values
        Per metric the matrices [V, N, N]; for Faith's PD the standardized values [N, 1], the
        mean of the views.
    """
    assert len(paths) == len(metrics) * views, "one file per metric and view"
    distances: dict[str, NDArray[np.float32]] = {}
    values: dict[str, NDArray[np.float32]] = {}
    for number, metric in enumerate(metrics):
        files = paths[number * views : (number + 1) * views]
        read = [read_faith_pd(f) if metric == FAITH_PD else read_distances(f) for f in files]
        for (ids, _), path in zip(read, files, strict=True):
            assert list(ids) == list(sample_ids), f"{path} holds other samples than the store"
        stacked = np.stack([matrix for _, matrix in read])
        if metric == FAITH_PD:
            mean_N1 = stacked.mean(axis=0)[:, None]
            scale = mean_N1 if is_in is None else mean_N1[is_in]
            values[metric] = ((mean_N1 - scale.mean()) / scale.std()).astype(np.float32)
        else:
            distances[metric] = stacked.astype(np.float32, copy=False)
    return distances, values


def pair_variances(
    distances: Mapping[str, NDArray[np.float32]], samples: NDArray[np.int64]
) -> dict[str, float]:
    """Return the variance of each metric over pairs of some samples, in view 0.

    A few rows are read at a time, so the matrices may be mapped from files.
    """
    return {
        metric: max(_pair_variance(matrix[0], samples), 1e-6)
        for metric, matrix in distances.items()
    }


def _pair_variance(matrix_NN: NDArray[np.float32], samples: NDArray[np.int64]) -> float:
    """Merge means and squared deviations of blocks of rows (Chan et al. 1979)."""
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
