"""How every metric is computed, and the definition that it is checked by.

With p and q the fractions of two samples' reads below a branch of length b, summed over branches:

* unweighted: sum b |[p>0] - [q>0]| / sum b max([p>0], [q>0]);
  Lozupone and Knight 2005, doi:10.1128/AEM.71.12.8228-8235.2005
* weighted: sum b |p-q|, normalized by sum b (p+q);
  Lozupone et al. 2007, doi:10.1128/AEM.01996-06
* generalized: sum b (p+q)^alpha |p-q| / (p+q), over sum b (p+q)^alpha;
  Chen et al. 2012, doi:10.1093/bioinformatics/bts342
* Faith's PD: sum b [p>0]; Faith 1992, doi:10.1016/0006-3207(92)91201-3

With a and b the reads of two samples, summed over features:

* bray_curtis: sum |a-b| / sum (a+b); Bray and Curtis 1957, doi:10.2307/1942268
* robust_aitchison: the Euclidean distance of the robust centred log-ratios, log(a) less its mean
  over the features that the sample has; Martino et al. 2019, doi:10.1128/mSystems.00016-19. They
  then complete the matrix. Here nothing is completed: a feature that a sample lacks has 0, which
  is the geometric mean of the sample's own reads.

Shape suffixes: N samples, R of them, P pairs, F features, E branches.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array
from scipy.spatial.distance import braycurtis

from aam.distances.store import Rows
from aam.util.scikit_bio import rclr

Floats = NDArray[np.float64]


def unweighted(p_PE: Floats, q_PE: Floats, length_E: Floats) -> Floats:
    """Return unweighted UniFrac of pairs, by the definition in the head of this module.

    Parameters
    ----------
    p_PE, q_PE
        Fractions of the reads of the first and the second samples below each branch.
    length_E
        Lengths of the branches.

    Returns
    -------
    numpy.ndarray
        Distances between 0 and 1, [P].
    """
    in_p = p_PE > 0
    in_q = q_PE > 0
    return (in_p != in_q) @ length_E / ((in_p | in_q) @ length_E)


def weighted_unnormalized(p_PE: Floats, q_PE: Floats, length_E: Floats) -> Floats:
    """Return weighted UniFrac of pairs, by the definition in the head of this module.

    Parameters
    ----------
    p_PE, q_PE, length_E
        As for `unweighted`.

    Returns
    -------
    numpy.ndarray
        Distances in the unit of the branches, [P].
    """
    return np.abs(p_PE - q_PE) @ length_E


def generalized(p_PE: Floats, q_PE: Floats, length_E: Floats, alpha: float) -> Floats:
    """Return generalized UniFrac of pairs, by the definition in the head of this module.

    Parameters
    ----------
    p_PE, q_PE, length_E
        As for `unweighted`.
    alpha
        Exponent; with 1 the distance is normalized weighted UniFrac.

    Returns
    -------
    numpy.ndarray
        Distances between 0 and 1, [P].
    """
    # Where neither sample has a branch, 0 / 0 becomes 0 / 1: the branch has no part in either sum.
    total_PE = np.where(p_PE + q_PE > 0, p_PE + q_PE, 1.0)
    weight_PE = np.where(p_PE + q_PE > 0, total_PE**alpha, 0.0)
    return (weight_PE * np.abs(p_PE - q_PE) / total_PE) @ length_E / (weight_PE @ length_E)


def all_generalized(p_NE: csr_array, length_E: Floats, alpha: float) -> Floats:
    """Return generalized UniFrac between all samples, which scikit-bio does not compute.

    On a branch that only the second sample has, the term is b q^alpha in both sums. So its sum
    over all branches, less that over the first sample's branches, stands for all branches
    outside of the first sample, and only the first sample's branches are looked at one by one.

    Parameters
    ----------
    p_NE
        Fractions of the reads of each sample below each branch.
    length_E
        Lengths of the branches.
    alpha
        Exponent.

    Returns
    -------
    numpy.ndarray
        Distances between 0 and 1, [N, N].
    """
    samples = p_NE.shape[0]
    by_branch = csc_array(p_NE)
    alone_NE = csr_array(
        (p_NE.data**alpha * length_E[p_NE.indices], p_NE.indices, p_NE.indptr), p_NE.shape
    )
    alone_N = np.asarray(alone_NE.sum(axis=1)).ravel()
    distances_NN = np.zeros((samples, samples))
    inside_E = np.zeros(p_NE.shape[1])
    for row in range(samples - 1):
        others = slice(row + 1, samples)
        span = slice(p_NE.indptr[row], p_NE.indptr[row + 1])
        columns = p_NE.indices[span]
        mine = p_NE.data[span]
        # What each other sample has outside of this sample's branches, in both sums alike.
        inside_E[columns] = 1.0
        outside = alone_N[others] - (alone_NE @ inside_E)[others]
        inside_E[columns] = 0.0
        theirs = by_branch[:, columns].toarray()[others]
        total = mine + theirs
        weight = total**alpha
        length = length_E[columns]
        different = (weight * np.abs(mine - theirs) / total) @ length + outside
        present = weight @ length + outside
        distances_NN[row, others] = np.clip(different / present, 0.0, 1.0)
    return distances_NN + distances_NN.T


def faith_pd(p_NE: Floats, length_E: Floats) -> Floats:
    """Return Faith's phylogenetic diversity, [N], by the definition."""
    return (p_NE > 0) @ length_E


def bray_curtis(a_PF: Floats, b_PF: Floats) -> Floats:
    """Return the distances of pairs, [P], by scipy."""
    return np.array([braycurtis(a, b) for a, b in zip(a_PF, b_PF, strict=True)])


def robust_aitchison(a_PF: Floats, b_PF: Floats) -> Floats:
    """Return the distances of pairs, [P], by scikit-bio, which marks what is absent by NaN."""
    return np.linalg.norm(np.nan_to_num(rclr(a_PF)) - np.nan_to_num(rclr(b_PF)), axis=1)


class BrayCurtisRows:
    """Rows of a matrix, made on demand; reads are whole until the division, so they are exact."""

    def __init__(self, counts_NF: csr_array) -> None:
        self.by_sample = counts_NF
        self.by_feature = csc_array(counts_NF)
        # Sums run by feature, as those of what two samples share below: with itself a sample
        # shares all of it to the last bit, amounts as well as reads.
        rows = np.repeat(np.arange(counts_NF.shape[0]), np.diff(counts_NF.indptr))
        self.total_N = np.bincount(rows, counts_NF.data, minlength=counts_NF.shape[0])
        self.shape: tuple[int, ...] = (counts_NF.shape[0],) * 2

    def __getitem__(self, rows: slice) -> Floats:
        return np.stack([self._row(row) for row in range(*rows.indices(self.shape[0]))])

    def _row(self, row: int) -> Floats:
        span = slice(self.by_sample.indptr[row], self.by_sample.indptr[row + 1])
        others = self.by_feature[:, self.by_sample.indices[span]]
        reads = np.repeat(self.by_sample.data[span], np.diff(others.indptr))
        # Of |a - b| and a + b the first is (a + b) - 2 min(a, b), so that only features of both
        # samples are looked at.
        shared_N = np.bincount(
            others.indices, np.minimum(reads, others.data), minlength=self.shape[0]
        )
        both_N = self.total_N[row] + self.total_N
        return (both_N - 2 * shared_N) / both_N


class RobustAitchisonRows:
    """Rows of a matrix, made on demand; symmetric to the last bit, as sums run by feature."""

    def __init__(self, counts_NF: csr_array) -> None:
        present_N = np.diff(counts_NF.indptr)
        rows = np.repeat(np.arange(len(present_N)), present_N)
        logs = np.log(counts_NF.data.astype(np.float64))
        mean_N = np.bincount(rows, logs, minlength=len(present_N)) / np.maximum(present_N, 1)
        ratios = logs - mean_N[rows]
        self.ratio_NF = csr_array(
            (ratios, counts_NF.indices, counts_NF.indptr), shape=counts_NF.shape
        )
        self.by_feature = csr_array(self.ratio_NF.T)
        # The squares are summed in the order of the product below: equal samples get distance 0.
        self.square_N = np.bincount(rows, ratios**2, minlength=len(present_N))
        self.shape: tuple[int, ...] = (len(present_N),) * 2

    def __getitem__(self, rows: slice) -> Floats:
        number_R = np.arange(*rows.indices(self.shape[0]))
        product_RN = (self.ratio_NF[rows] @ self.by_feature).toarray()
        square_RN = self.square_N[rows, None] + self.square_N - 2 * product_RN
        square_RN[np.arange(len(number_R)), number_R] = 0.0
        return np.sqrt(np.maximum(square_RN, 0.0))


@dataclass(frozen=True)
class Formula:
    """What computes a metric of `aam.config.metrics`, and what it is checked by."""

    definition: Callable[..., Floats]
    """Slow. Phylogenetic: of fractions of reads below branches and the branches' lengths, with
    the metric's parameters by name; else of reads."""
    scikit_bio: str | None = None
    """Name of scikit-bio's function; None: it has none, or none is needed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of that function."""
    all_pairs: Callable[..., Floats] | None = None
    """Makes a matrix of distances, symmetric to the last bit, from fractions [N, E], lengths of
    branches, and the metric's parameters by name: for batches, and where scikit-bio lacks it. None:
    the metric needs no tree, or `aam.distances.in_batch` has a faster way."""
    rows: Callable[[csr_array], Rows] | None = None
    """Makes the matrix of distances from counts [N, F]; None: the metric needs a tree."""


FORMULAS = {
    "unweighted": Formula(unweighted, "unweighted_unifrac"),
    "weighted_normalized": Formula(
        partial(generalized, alpha=1.0), "weighted_unifrac", {"normalized": True}
    ),
    "weighted_unnormalized": Formula(
        weighted_unnormalized, "weighted_unifrac", {"normalized": False}
    ),
    "generalized": Formula(generalized, all_pairs=all_generalized),
    "bray_curtis": Formula(bray_curtis, rows=BrayCurtisRows),
    "robust_aitchison": Formula(robust_aitchison, rows=RobustAitchisonRows),
    "faith_pd": Formula(faith_pd, "faith_pd"),
}
