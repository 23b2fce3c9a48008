"""UniFrac of many samples by blocks of rows and columns; the unweighted as products of matrices.

With t the summed lengths of a sample's branches, and s of those that samples i and j share, their
distance is (t_i + t_j - 2 s) / (t_i + t_j - s). All s together are P L P', where P [N, E] says
which samples have which branches, and the diagonal matrix L holds the lengths. Branches that many
samples have are a dense product, the others a sparse one. A branch that one sample alone has
counts in t, but never in s.

Lengths are rounded to whole multiples of a power of two, such that all branches together have about
2^51 of them. So float64 holds every sum exactly, and no bit depends on the order of sums: neither
on threads, steps or jobs, nor on the library of NumPy's products. `aam.distances.minima` has
weighted UniFrac.

Shape suffixes: N samples, R of them in rows, C of them in columns, F features, E branches, K of
them that many samples have, S stripes.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from threadpoolctl import threadpool_limits

from aam.config.metrics import Parameters
from aam.data.table import FeatureTable
from aam.data.trees import find_branches
from aam.distances.minima import WEIGHTED, Abundances
from aam.distances.packages import scratch_folder
from aam.distances.store import Values
from aam.distances.stripes import (
    Striped,
    StripeMatrix,
    Stripes,
    compute_in_steps,
    count_stripes,
    divide_stripes,
)
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)
Floats = NDArray[np.float64]
UNWEIGHTED = "unweighted"
COMPUTED = (UNWEIGHTED, *WEIGHTED)
"""The metrics that the engine computes."""
COMMON = 1 / 16
"""Fraction of the samples from which on a branch belongs to the dense product. There it costs each
pair 0.03 ns; in the sparse product it costs 6 ns, but only those pairs that both have it."""
LENGTH_BITS = 51
"""Bits of the summed length of all branches, so that float64 holds the sum for two samples."""
ROWS = 512
COLUMNS = 2048
"""Samples of a block of distances that a thread computes at a time."""
BYTES_PER_DISTANCE = 4
"""Memory of a distance in a stripe."""


@dataclass(frozen=True, eq=False)
class Presence:
    """Which samples have which branches; lengths in whole units."""

    total_N: Floats
    """Summed lengths of the branches that a sample has."""
    common_bits: NDArray[np.uint8]
    """Whether a sample has the branches that many have: K bits per row."""
    common_length_K: Floats
    rare_NE: csr_array
    """1 where a sample has one of the other branches that two samples or more have, int8."""
    rare_length_E: Floats

    @classmethod
    def from_table(cls, table: FeatureTable, tree: TreeNode) -> "Presence":
        """Find the branches above the features of every sample.

        Parameters
        ----------
        table
            Its samples become the rows.
        tree
            Its tips are the features of the table.
        """
        above_FE, length_E = find_branches(tree, table.feature_ids)
        above_FE = above_FE.astype(np.int32)
        length_E = whole_units(length_E)
        counts = table.counts
        has_NF = csr_array(
            (np.ones(counts.nnz, np.int32), counts.indices, counts.indptr), counts.shape
        )
        samples = counts.shape[0]
        total_N = np.empty(samples)
        frequency_E = np.zeros(len(length_E), np.int64)
        for rows in _blocks(samples):
            has_RE = _ones(has_NF[rows] @ above_FE)
            total_N[rows] = has_RE @ length_E
            frequency_E += np.bincount(has_RE.indices, minlength=len(length_E))
        shared_E = frequency_E >= 2
        common_E = shared_E & (frequency_E >= COMMON * samples)
        common = np.flatnonzero(common_E)
        rare = np.flatnonzero(shared_E & ~common_E)
        above_common = above_FE[:, common]
        above_rare = above_FE[:, rare]
        bits = []
        rare_rows = []
        for rows in _blocks(samples):
            has_RF = has_NF[rows]
            bits.append(np.packbits((has_RF @ above_common).toarray() > 0, axis=1))
            rare_rows.append(_ones(has_RF @ above_rare))
        return cls(
            total_N=total_N,
            common_bits=np.concatenate(bits),
            common_length_K=length_E[common],
            rare_NE=csr_array(vstack(rare_rows, "csr")),
            rare_length_E=length_E[rare],
        )

    def describe(self) -> str:
        """Return how many branches belong to which product, for the log."""
        common, rare = len(self.common_length_K), len(self.rare_length_E)
        return f"{common} branches of many samples, {rare} of few"

    def distances(self, row_R: NDArray[np.int64], column_C: NDArray[np.int64]) -> Floats:
        """Return the distances [R, C] of some samples to others."""
        common_RK = self._unpack_common(row_R) * self.common_length_K
        rare_RE = self.rare_NE[row_R].astype(np.float64)
        rare_RE.data *= self.rare_length_E[rare_RE.indices]
        distance_RC = np.empty((len(row_R), len(column_C)))
        for first in range(0, len(column_C), COLUMNS):
            part = slice(first, first + COLUMNS)
            others = column_C[part]
            shared_RC = common_RK @ self._unpack_common(others).T
            shared_RC += (rare_RE @ self.rare_NE[others].T).toarray()
            present_RC = self.total_N[row_R, None] + self.total_N[others]
            present_RC -= shared_RC
            # In place, to save memory: with s subtracted once more this is t_i + t_j - 2 s.
            np.subtract(present_RC, shared_RC, out=shared_RC)
            np.divide(shared_RC, present_RC, out=distance_RC[:, part])
        return distance_RC

    def _unpack_common(self, samples: NDArray[np.int64]) -> Floats:
        """Return 1 where some samples have one of the K common branches, else 0."""
        bits = np.unpackbits(self.common_bits[samples], axis=1, count=len(self.common_length_K))
        return bits.astype(np.float64)


@dataclass(frozen=True)
class Products:
    """The engine of UniFrac, but the generalized, for tables of any size; it needs no program."""

    threads: int = 1
    scratch: Path | None = None
    """Folder for temporary files: up to 4 N^2 bytes for N samples; None: the system's."""
    memory_bytes: int = 3 << 29
    """Memory that distances may take before they are written; it decides the number of steps."""
    name = "products"

    @contextmanager
    def compute(
        self, table: FeatureTable, tree: TreeNode | None, metric: str, parameters: Parameters
    ) -> Iterator[Values]:
        """Compute the distances between all samples of a table.

        Parameters
        ----------
        table
            Its samples become rows and columns.
        tree
            Its tips are the features of the table.
        metric
            One of `COMPUTED`.
        parameters
            None: these metrics have none.

        Yields
        ------
        Values
            Distances, float32 [N, N].
        """
        samples = len(table.sample_ids)
        if samples == 1:
            yield np.zeros((1, 1), dtype=np.float32)
            return
        whole = (0, count_stripes(samples))
        with self.compute_stripes(table, tree, metric, parameters, *whole) as striped:
            yield StripeMatrix(striped)

    @contextmanager
    def compute_stripes(
        self,
        table: FeatureTable,
        tree: TreeNode | None,
        metric: str,
        parameters: Parameters,
        start: int,
        stop: int,
    ) -> Iterator[Striped]:
        """Compute a range of the stripes of a distance matrix.

        Parameters
        ----------
        table, tree, metric, parameters
            As for `compute`.
        start, stop
            The first stripe, and the one after the last.

        Yields
        ------
        Striped
            The stripes, in memory or in temporary files.
        """
        assert metric in COMPUTED
        assert not parameters
        assert tree is not None
        contents: Presence | Abundances
        if metric == UNWEIGHTED:
            contents = Presence.from_table(table, tree)
        else:
            contents = Abundances.from_table(table, tree, metric)
        samples = len(table.sample_ids)
        logger.info("%s", contents.describe())
        ranges = divide_stripes(start, stop, BYTES_PER_DISTANCE * samples, self.memory_bytes)
        step = partial(self._step, contents)
        with (
            scratch_folder(self.scratch) as folder,
            compute_in_steps(ranges, step, folder) as striped,
        ):
            yield striped

    def _step(self, contents: Presence | Abundances, start: int, stop: int) -> Stripes:
        samples = len(contents.total_N)
        striped = Stripes(start, stop, samples)

        def compute_rows(first: int) -> None:
            row_R = np.arange(first, min(first + ROWS, samples))
            # What the stripes of the first row begin with, up to where those of the last row end.
            column_C = np.arange(first + start + 1, first + stop + len(row_R)) % samples
            striped.put_rows(first, contents.distances(row_R, column_C))

        # Every thread has products of its own: those of NumPy would otherwise use all cores each.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(compute_rows, range(0, samples, ROWS)):
                pass
        return striped


def whole_units(length_E: Floats) -> Floats:
    """Return lengths as whole numbers in a unit that is a power of two; they sum to about 2^51."""
    _, exponent = np.frexp(length_E.sum())
    return np.rint(np.ldexp(length_E, LENGTH_BITS - exponent))


def _blocks(samples: int) -> Iterator[slice]:
    for first in range(0, samples, COLUMNS):
        yield slice(first, first + COLUMNS)


def _ones(counts: csr_array) -> csr_array:
    """Return 1 where a matrix has an entry."""
    ones = np.ones(len(counts.data), np.int8)
    return csr_array((ones, counts.indices, counts.indptr), counts.shape)
