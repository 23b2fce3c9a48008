"""Distances that need no tree, from a sparse table, row by row.

With a and b the reads of two samples:

* bray_curtis: sum |a-b| / sum (a+b); Bray and Curtis 1957, doi:10.2307/1942268
* robust_aitchison: the Euclidean distance of the robust centred log-ratios, log(a) less its mean
  over the features that the sample has; Martino et al. 2019, doi:10.1128/mSystems.00016-19. They
  then complete the matrix. Here nothing is completed: a feature that a sample lacks has 0, which
  is the geometric mean of the sample's own reads.

Shape suffixes: N samples, R of them, F features.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from aam.data.table import FeatureTable
from aam.unifrac.store import Rows

METRICS = ("bray_curtis", "robust_aitchison")


class Sparse:
    """The engine of these metrics. It holds the table twice, and no more rows than are asked for.

    The work for a sample is the number of entries in the columns of its features. Sums run in the
    order of the features, so the matrix is symmetric to the last bit.
    """

    name = "aam"

    @contextmanager
    def distances(self, table: FeatureTable, metric: str) -> Iterator[Rows]:
        """Yield distances, float64 [N, N], that are computed when rows are asked for."""
        assert metric in METRICS
        of_counts = _BrayCurtis if metric == "bray_curtis" else _RobustAitchison
        yield of_counts(table.counts)


class _BrayCurtis:
    """Rows of Bray-Curtis distances; whole numbers until the division, so they are exact."""

    def __init__(self, counts_NF: csr_array) -> None:
        self.by_sample = counts_NF
        self.by_feature = csc_array(counts_NF)
        self.total_N = np.asarray(counts_NF.sum(axis=1)).ravel()
        self.shape: tuple[int, ...] = (counts_NF.shape[0],) * 2

    def __getitem__(self, rows: slice) -> NDArray[np.float64]:
        return np.stack([self._row(row) for row in range(*rows.indices(self.shape[0]))])

    def _row(self, row: int) -> NDArray[np.float64]:
        span = slice(self.by_sample.indptr[row], self.by_sample.indptr[row + 1])
        others = self.by_feature[:, self.by_sample.indices[span]]
        own = np.repeat(self.by_sample.data[span], np.diff(others.indptr))
        shared_N = np.bincount(
            others.indices, np.minimum(own, others.data), minlength=self.shape[0]
        )
        both_N = self.total_N[row] + self.total_N
        return (both_N - 2 * shared_N) / both_N


class _RobustAitchison:
    """Rows of robust Aitchison distances."""

    def __init__(self, counts_NF: csr_array) -> None:
        self.ratios_NF = robust_log_ratios(counts_NF)
        self.by_feature = csr_array(self.ratios_NF.T)
        rows = _row_of_entries(self.ratios_NF)
        # Summed in the order of the product below, so that equal samples are at distance 0.
        self.square_N = np.bincount(rows, self.ratios_NF.data**2, minlength=self.ratios_NF.shape[0])
        self.shape: tuple[int, ...] = (counts_NF.shape[0],) * 2

    def __getitem__(self, rows: slice) -> NDArray[np.float64]:
        numbers_R = np.arange(*rows.indices(self.shape[0]))
        product_RN = (self.ratios_NF[rows] @ self.by_feature).toarray()
        square_RN = self.square_N[rows, None] + self.square_N - 2 * product_RN
        square_RN[np.arange(len(numbers_R)), numbers_R] = 0.0
        return np.sqrt(np.maximum(square_RN, 0.0))


def robust_log_ratios(counts_NF: csr_array) -> csr_array:
    """Return the robust centred log-ratios [N, F] of reads; absent features are not stored."""
    rows = _row_of_entries(counts_NF)
    logs = np.log(counts_NF.data.astype(np.float64))
    present_N = np.diff(counts_NF.indptr)
    mean_N = np.bincount(rows, logs, minlength=len(present_N)) / np.maximum(present_N, 1)
    return csr_array(
        (logs - mean_N[rows], counts_NF.indices, counts_NF.indptr), shape=counts_NF.shape
    )


def _row_of_entries(table: csr_array) -> NDArray[np.int64]:
    return np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
