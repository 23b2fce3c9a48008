"""Distances between all samples, as training reads them into memory.

Shape suffixes: V views, N samples, R rows.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.config.metrics import FAITH_PD
from aam.distances.store import distance_rows, read_faith_pd
from aam.util.errors import count_names, problem

DISTANCES_AT_ONCE = 1 << 20
"""Distances that are read at a time where all pairs are summed up."""
GB = 2**30


def load_matrices(
    paths: Sequence[Path],
    metrics: Sequence[str],
    views: int,
    sample_ids: Sequence[str],
    is_in: NDArray[np.bool_] | None = None,
    room_bytes: float = math.inf,
) -> tuple[dict[str, NDArray[np.float32]], dict[str, NDArray[np.float32]], tuple[float, float]]:
    """Read the distances of all metrics and views.

    Parameters
    ----------
    paths
        Parquet files, metric by metric, within a metric view by view.
    metrics
        Names of the metrics.
    views
        Number of views.
    sample_ids
        IDs of the samples, in the order of the store.
    is_in
        Samples [N] that standardize Faith's PD; None: all.
    room_bytes
        Memory that the matrices may take.

    Returns
    -------
    distances : dict
        Per metric the matrices [V, N, N], fp32.
    values : dict
        For Faith's PD the standardized values [N, 1], the mean of the views, fp32; otherwise empty.
    faith_pd_scale : tuple
        Mean and standard deviation that Faith's PD was standardized by; 0 and 1 where it is not
        learned.

    Raises
    ------
    InputError
        The matrices take more memory than there is room for, or a distance is not finite.
    """
    assert len(paths) == len(metrics) * views, "one file per metric and view"
    files = {metric: paths[n * views : (n + 1) * views] for n, metric in enumerate(metrics)}
    faith_pd_files = files.pop(FAITH_PD, None)
    matrices = [path for view_paths in files.values() for path in view_paths]
    needed = np.dtype(np.float32).itemsize * len(sample_ids) ** 2 * len(matrices)
    if needed > room_bytes:
        raise problem(
            matrices[0],
            f"distances that take {needed / GB:.3g} GB of memory, in {len(matrices)} such files",
            f"at most {room_bytes / GB:.3g} GB, what there is for them",
            "set pretraining.targets: batch, which needs no distances of all samples; or allow "
            "more memory: runtime.max_memory_gb where it is set, else the memory of the job",
        )
    values = {}
    faith_pd_scale = 0.0, 1.0
    if faith_pd_files is not None:
        values[FAITH_PD], faith_pd_scale = _faith_pd(faith_pd_files, sample_ids, is_in)
    distances = {metric: _read(view_paths, sample_ids) for metric, view_paths in files.items()}
    return distances, values, faith_pd_scale


def _faith_pd(
    paths: Sequence[Path], sample_ids: Sequence[str], is_in: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float32], tuple[float, float]]:
    """Return the means [N, 1] of all views, standardized by the samples that are in, and how."""
    views = []
    for path in paths:
        ids, values_N = read_faith_pd(path)
        assert ids == list(sample_ids), f"{path} holds other samples than the store"
        views.append(values_N)
    mean_N1 = np.stack(views).mean(axis=0)[:, None]
    scaling = mean_N1 if is_in is None else mean_N1[is_in]
    mean, deviation = scaling.mean(), scaling.std() or 1.0
    return ((mean_N1 - mean) / deviation).astype(np.float32), (float(mean), float(deviation))


def _read(paths: Sequence[Path], sample_ids: Sequence[str]) -> NDArray[np.float32]:
    """Return the matrices [V, N, N] of some files, each read to where it stays."""
    samples = len(sample_ids)
    matrix_VNN = np.empty((len(paths), samples, samples), np.float32)
    for matrix_NN, path in zip(matrix_VNN, paths, strict=True):
        first = 0
        other = f"{path} holds other samples than the store"
        for names, rows_RN in distance_rows(path):
            assert names == list(sample_ids[first : first + len(names)]), other
            assert rows_RN.shape[1] == samples, other
            bad_R = ~np.isfinite(rows_RN).all(axis=1)
            if bad_R.any():
                raise problem(
                    path,
                    "distances that are not finite, of "
                    + count_names("sample", np.array(names)[bad_R].tolist()),
                    "numbers of 0 or more",
                    "delete the file and run again: the unifrac stage writes none such",
                )
            matrix_NN[first : first + len(names)] = rows_RN
            first += len(names)
        assert first == samples, other
    return matrix_VNN


def pair_variances(
    distances: Mapping[str, NDArray[np.floating]], samples: NDArray[np.int64]
) -> dict[str, float]:
    """Return the variance of each metric over pairs of some samples, in view 0.

    Parameters
    ----------
    distances
        Per metric the matrices [V, N, N].
    samples
        Positions of the samples in these.

    Returns
    -------
    dict
        Variance per metric, 1e-6 at least.
    """
    variances = {}
    for metric, matrix_VNN in distances.items():
        variances[metric] = max(_pair_variance(matrix_VNN[0], samples), 1e-6)
    return variances


def _pair_variance(matrix_NN: NDArray[np.floating], samples: NDArray[np.int64]) -> float:
    """Merge means and squared deviations of blocks of rows (Chan et al. 1979), in their order."""
    rows_at_once = max(1, DISTANCES_AT_ONCE // len(samples))
    number = 0
    mean = 0.0
    square = 0.0
    for first in range(0, len(samples), rows_at_once):
        # Every pair is met once: row i of the block is paired with the columns behind it, and the
        # columns begin with the sample `first`.
        block = matrix_NN[np.ix_(samples[first : first + rows_at_once], samples[first:])]
        values = block[np.triu(np.ones(block.shape, bool), 1)].astype(np.float64)
        if not len(values):
            continue
        added = len(values)
        shift = values.mean() - mean
        square += ((values - values.mean()) ** 2).sum()
        square += shift**2 * number * added / (number + added)
        number += added
        mean += shift * added / number
    return square / max(number, 1)
