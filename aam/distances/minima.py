"""Weighted UniFrac of many samples, by blocks.

With v = b p, the length of a branch times the fraction of a sample's reads below it, the distance
of two samples is the sum over branches of |v_i - v_j|; normalized, it is divided by that of
v_i + v_j. Branches that many samples have are compared one by one. Of the others only those that
two samples share are looked at, as |v_i - v_j| = v_i + v_j - 2 min(v_i, v_j).

Every v is rounded to a whole multiple of a power of two, such that no sample has more than 2^51 of
them. So float64 holds every sum exactly, and no bit depends on the order of sums: neither on
threads, steps or jobs, nor on the order of the samples.

Shape suffixes: N samples, R of them in rows, C of them in columns, E branches, K of them that many
samples have, B of them that one sample has.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, vstack
from scipy.spatial.distance import cdist

from aam.data.table import FeatureTable
from aam.data.trees import find_branches, fractions_below
from aam.util.scikit_bio import TreeNode

Floats = NDArray[np.float64]
NORMALIZED = "weighted_normalized"
WEIGHTED = (NORMALIZED, "weighted_unnormalized")
"""The metrics that are computed here."""
COMMON = 1 / 4
"""Fraction of the samples from which on all pairs are compared on a branch. That costs each pair
0.6 ns; otherwise it costs 10 ns, but only those pairs that both have it."""
VALUE_BITS = 51
"""Bits of the sum of a sample's values, so that float64 holds the sum of two samples."""
COLUMNS = 2048
"""Samples that are weighed, and that those of the rows are compared with, at a time."""
DENSE_COLUMNS = 128
"""Samples whose values on the K branches stay in the cache of a processor."""


@dataclass(frozen=True, eq=False)
class Abundances:
    """How much of the reads of each sample lies below which branches; v in whole units."""

    total_N: Floats
    """Sum of v over all branches."""
    common_NK: csr_array
    """v on the branches that many samples have."""
    rare_NE: csr_array
    """v on the other branches that two samples or more have."""
    unit: float
    """Length of a whole unit, a power of two."""
    normalized: bool

    @classmethod
    def from_table(cls, table: FeatureTable, tree: TreeNode, metric: str) -> "Abundances":
        """Weigh the branches above the features of every sample.

        Parameters
        ----------
        table
            Its samples become the rows.
        tree
            Its tips are the features of the table.
        metric
            One of `WEIGHTED`.
        """
        membership_FE, length_E = find_branches(tree, table.feature_ids)
        reads_N = table.reads

        def values(rows: slice) -> csr_array:
            """Return the lengths times the fractions of some samples, [R, E]."""
            value_RE = fractions_below(table.counts[rows], reads_N[rows], membership_FE)
            value_RE.data *= length_E[value_RE.indices]
            return value_RE

        # Two passes over blocks of samples: what products and selections make of all of them on the
        # way is several times as large as what is kept.
        samples = len(table.sample_ids)
        blocks = [slice(first, first + COLUMNS) for first in range(0, samples, COLUMNS)]
        frequency_E = np.zeros(len(length_E), np.int64)
        largest_sum = 0.0
        for rows in blocks:
            value_RE = values(rows)
            frequency_E += np.bincount(value_RE.indices, minlength=len(length_E))
            largest_sum = max(largest_sum, _row_sums(value_RE).max())
        _, exponent = np.frexp(largest_sum)
        shared_E = frequency_E >= 2
        common_E = shared_E & (frequency_E >= COMMON * samples)
        total = []
        common = []
        rare = []
        for rows in blocks:
            value_RE = values(rows)
            value_RE.data = np.rint(np.ldexp(value_RE.data, VALUE_BITS - exponent))
            total.append(_row_sums(value_RE))
            common.append(value_RE[:, np.flatnonzero(common_E)])
            rare.append(value_RE[:, np.flatnonzero(shared_E & ~common_E)])
        return cls(
            total_N=np.concatenate(total),
            common_NK=csr_array(vstack(common, "csr")),
            rare_NE=csr_array(vstack(rare, "csr")),
            unit=float(np.ldexp(1.0, int(exponent) - VALUE_BITS)),
            normalized=metric == NORMALIZED,
        )

    def describe(self) -> str:
        """Return how many branches are compared in which way, for the log."""
        return f"{self.common_NK.shape[1]} branches of many samples, {self.rare_NE.shape[1]} of few"

    def distances(self, row_R: NDArray[np.int64], column_C: NDArray[np.int64]) -> Floats:
        """Return the distances [R, C] of some samples to others."""
        distance_RC = np.empty((len(row_R), len(column_C)))
        row_common_RK = self.common_NK[row_R].toarray()
        row_rare_RE = self.rare_NE[row_R]
        # What the rows have on branches that are not common.
        row_rest_R = self.total_N[row_R] - row_common_RK.sum(axis=1)
        for first in range(0, len(column_C), COLUMNS):
            others = column_C[first : first + COLUMNS]
            part_RC = distance_RC[:, first : first + COLUMNS]
            rest_C = self.total_N[others].copy()
            for inner in range(0, len(others), DENSE_COLUMNS):
                within = slice(inner, inner + DENSE_COLUMNS)
                common_CK = self.common_NK[others[within]].toarray()
                rest_C[within] -= common_CK.sum(axis=1)
                part_RC[:, within] = _city_block(row_common_RK, common_CK)
            part_RC += row_rest_R[:, None] + rest_C
            for part_C, shared_C in zip(
                part_RC, _shared_rows(row_rare_RE, self.rare_NE[others]), strict=True
            ):
                part_C -= 2 * shared_C
            if self.normalized:
                part_RC /= self.total_N[row_R, None] + self.total_N[others]
            else:
                part_RC *= self.unit
        return distance_RC


def _row_sums(value_NE: csr_array) -> Floats:
    return np.asarray(value_NE.sum(axis=1), dtype=np.float64).ravel()


def _city_block(value_RK: Floats, value_CK: Floats) -> Floats:
    """Return the sums of |v_r - v_c|, [R, C]."""
    if not value_RK.shape[1]:
        return np.zeros((len(value_RK), len(value_CK)))
    return cdist(value_RK, value_CK, "cityblock")


def _shared_rows(value_RE: csr_array, value_CE: csr_array) -> Iterator[Floats]:
    """Yield, for each row, the sums of min(v_r, v_c), [C]."""
    columns = value_CE.shape[0]
    by_branch = csc_array(value_CE)
    for row in range(value_RE.shape[0]):
        span = slice(value_RE.indptr[row], value_RE.indptr[row + 1])
        others = by_branch[:, value_RE.indices[span]]
        value_B = np.repeat(value_RE.data[span], np.diff(others.indptr))
        shared = np.minimum(value_B, others.data)
        shared_C: Floats = np.bincount(others.indices, shared, minlength=columns).astype(np.float64)
        yield shared_C
