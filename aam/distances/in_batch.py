"""Exact distances between the few rows of a batch, without a matrix of all samples.

Shape suffixes: B rows, F features, E branches of the tree, K branches above the rows' features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist, squareform

from aam.config.metrics import FAITH_PD, METRICS
from aam.data.trees import find_branches, read_tree
from aam.distances.formulas import FORMULAS, Floats, all_generalized

FEW_ROWS = 128
"""Rows up to which all pairs of dense rows are faster than sparse ones."""


@dataclass(frozen=True, eq=False)
class BatchDistances:
    """What computes some metrics of rows of reads, by the formulas of `aam.distances.formulas`."""

    metrics: Sequence[str]
    """Keys of `aam.config.metrics.METRICS`."""
    alpha: float
    """Exponent of generalized UniFrac."""
    above_FE: csr_array
    """1 where a branch lies above a feature; no branches where no metric needs the tree."""
    length_E: Floats
    """Lengths of the branches."""
    faith_pd_scale: tuple[float, float] = (0.0, 1.0)
    """Mean and standard deviation that Faith's PD is standardized by."""

    @classmethod
    def from_tree(
        cls, metrics: Sequence[str], tree: Path, feature_ids: Sequence[str], alpha: float
    ) -> "BatchDistances":
        """Return what computes some metrics of the rows of a dataset.

        Parameters
        ----------
        metrics
            Keys of `aam.config.metrics.METRICS`.
        tree
            File of the dataset's tree; it is read where a metric needs it.
        feature_ids
            The F features, in the order of the columns of the rows.
        alpha
            Exponent of generalized UniFrac.
        """
        if not any(METRICS[metric].phylogenetic for metric in metrics):
            return cls(metrics, alpha, csr_array((len(feature_ids), 0)), np.empty(0))
        above_FE, length_E = find_branches(read_tree(tree, feature_ids), feature_ids)
        return cls(metrics, alpha, above_FE.astype(np.float64), length_E)

    def __call__(self, counts_BF: csr_array) -> dict[str, NDArray[np.float64]]:
        """Return the metrics of some rows.

        Parameters
        ----------
        counts_BF
            Reads of the rows.

        Returns
        -------
        dict
            By metric: distances, float64 [B, B], or of Faith's PD values, standardized by
            `faith_pd_scale`, float64 [B, 1]. Unweighted UniFrac of two different rows is NaN where
            all branches of both have the length 0.
        """
        values: dict[str, NDArray[np.float64]] = {}
        if self.length_E.size:
            p_BK, length_K = self._fractions_below(counts_BF)
            values = self._tree_metrics(p_BK, length_K)
        for metric in self.metrics:
            make_matrix = FORMULAS[metric].rows
            if make_matrix is not None:
                values[metric] = np.asarray(make_matrix(counts_BF)[:])
        if FAITH_PD in self.metrics:
            mean, deviation = self.faith_pd_scale
            values[FAITH_PD] = (values[FAITH_PD] - mean) / deviation
        return {metric: values[metric] for metric in self.metrics}

    def _fractions_below(self, counts_BF: csr_array) -> tuple[csr_array, Floats]:
        """Return the fractions of each row's reads below the K branches with reads, and lengths."""
        reads_BE = csr_array(counts_BF.astype(np.float64) @ self.above_FE)
        present = np.flatnonzero(np.bincount(reads_BE.indices, minlength=len(self.length_E)))
        # The branches with reads are numbered again, and become the columns.
        column_E = np.zeros(len(self.length_E), np.int64)
        column_E[present] = np.arange(len(present))
        columns = column_E[reads_BE.indices]
        total_B = np.asarray(counts_BF.sum(axis=1)).ravel()
        fractions = reads_BE.data / np.repeat(total_B, np.diff(reads_BE.indptr))
        shape = (counts_BF.shape[0], len(present))
        p_BK = csr_array((fractions, columns, reads_BE.indptr), shape)
        return p_BK, self.length_E[present]

    def _tree_metrics(self, p_BK: csr_array, length_K: Floats) -> dict[str, NDArray[np.float64]]:
        """Return the metrics that need the tree, and maybe others that come with them."""
        values = {}
        if {"unweighted", FAITH_PD} & {*self.metrics}:
            # The products are sparse: NumPy's threads for dense ones would compete with training.
            has_BK = csr_array((np.ones_like(p_BK.data), p_BK.indices, p_BK.indptr), p_BK.shape)
            long_BK = csr_array((length_K[p_BK.indices], p_BK.indices, p_BK.indptr), p_BK.shape)
            # Lengths that two rows share; with itself a row shares all of its branches.
            shared_BB = (long_BK @ has_BK.T).toarray()
            branch_length_B = np.diag(shared_BB)
            values[FAITH_PD] = branch_length_B[:, None]
            either_BB = branch_length_B[:, None] + branch_length_B - shared_BB
            # A row whose branches all have the length 0 would have the distance 0 / 0 to itself. To
            # another such row it stays NaN: they have no branches by which they could be compared.
            with np.errstate(invalid="ignore"):
                distance_BB = 1.0 - shared_BB / either_BB
            np.fill_diagonal(distance_BB, 0.0)
            values["unweighted"] = distance_BB
        if {"weighted_unnormalized", "weighted_normalized"} & {*self.metrics}:
            values |= _weighted_metrics(p_BK, length_K)
        for metric in self.metrics:
            all_pairs = FORMULAS[metric].all_pairs
            if all_pairs is not None:
                parameters = METRICS[metric].parameters_in({"alpha": self.alpha})
                values[metric] = all_pairs(p_BK, length_K, **parameters)
        return values


def _weighted_metrics(p_BK: csr_array, length_K: Floats) -> dict[str, NDArray[np.float64]]:
    """Return weighted UniFrac of all pairs, normalized and not.

    The normalizing sum b (p + q) over branches of length b is the sum of two mean heights.
    """
    height_B = p_BK @ length_K
    both_BB = height_B[:, None] + height_B
    if len(height_B) > FEW_ROWS:
        normalized_BB = all_generalized(p_BK, length_K, 1.0)
        return {
            "weighted_normalized": normalized_BB,
            "weighted_unnormalized": normalized_BB * both_BB,
        }
    # Lengths are not negative, so that b |p - q| is |b p - b q|: a city-block distance.
    differing_BB = squareform(pdist(p_BK.toarray() * length_K, "cityblock"))
    return {
        "weighted_normalized": differing_BB / np.where(both_BB > 0, both_BB, 1.0),
        "weighted_unnormalized": differing_BB,
    }
