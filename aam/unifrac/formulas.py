"""UniFrac by its definition, in NumPy, on the branches of a tree.

With p and q the shares of two samples' reads below a branch of length b, summed over branches:

* unweighted: sum b |[p>0] - [q>0]| / sum b max([p>0], [q>0]);
  Lozupone and Knight 2005, doi:10.1128/AEM.71.12.8228-8235.2005
* weighted: sum b |p-q|, normalized by sum b (p+q);
  Lozupone et al. 2007, doi:10.1128/AEM.01996-06
* generalized: sum b (p+q)^alpha |p-q| / (p+q), over sum b (p+q)^alpha;
  Chen et al. 2012, doi:10.1093/bioinformatics/bts342
* Faith's PD: sum b [p>0]; Faith 1992, doi:10.1016/0006-3207(92)91201-3

And the metrics of `aam.unifrac.compositional`, which need no tree, by scipy and scikit-bio.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array
from scipy.spatial.distance import braycurtis

from aam.util.scikit_bio import rclr

Floats = NDArray[np.float64]


def pair_distances(p: Floats, q: Floats, lengths: Floats, metric: str, alpha: float) -> Floats:
    """Return the distances of pairs of samples.

    Parameters
    ----------
    p, q
        Fractions of the reads below each branch, of the first and second sample, [P, B].
    lengths
        Branch lengths, [B].
    metric
        unweighted, weighted_normalized, weighted_unnormalized or generalized.
    alpha
        Exponent of the generalized metric; the others ignore it.

    Returns
    -------
    numpy.ndarray
        [P].
    """
    if metric == "unweighted":
        return ((p > 0) != (q > 0)) @ lengths / (((p > 0) | (q > 0)) @ lengths)
    if metric == "weighted_unnormalized":
        return np.abs(p - q) @ lengths
    exponent = {"weighted_normalized": 1.0, "generalized": alpha}[metric]
    total = np.where(p + q > 0, p + q, 1.0)
    weight = np.where(p + q > 0, total**exponent, 0.0)
    return (weight * np.abs(p - q) / total) @ lengths / (weight @ lengths)


def non_phylogenetic_distances(a: Floats, b: Floats, metric: str) -> Floats:
    """Return the distances of pairs of samples without a tree.

    Parameters
    ----------
    a, b
        Reads of the first and second sample of each pair, [P, F].
    metric
        bray_curtis or robust_aitchison.

    Returns
    -------
    numpy.ndarray
        [P].
    """
    if metric == "bray_curtis":
        return np.array([braycurtis(x, y) for x, y in zip(a, b, strict=True)])
    assert metric == "robust_aitchison"
    # scikit-bio marks what is absent by NaN.
    return np.linalg.norm(np.nan_to_num(rclr(a)) - np.nan_to_num(rclr(b)), axis=1)


def faith_pd(counts: csr_array, lengths: Floats) -> Floats:
    """Return Faith's phylogenetic diversity, [N], of reads below branches, [N, B]."""
    return (counts > 0) @ lengths


def shares(counts: csr_array, totals: NDArray[np.int64]) -> csr_array:
    """Return reads below branches, [N, B], divided by all reads of each sample, [N]."""
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    return csr_array((counts.data / totals[rows], counts.indices, counts.indptr), counts.shape)


def generalized(p: csr_array, lengths: Floats, alpha: float) -> Floats:
    """Return generalized UniFrac between all samples.

    On a branch that only the second sample has, the term is b q^alpha in both sums. So its sum
    over all branches, less that over the first sample's branches, stands for all branches
    outside of the first sample, and only the first sample's branches are looked at one by one.

    Parameters
    ----------
    p
        ShardDataset of the reads below each branch, [N, B].
    lengths
        Branch lengths, [B].
    alpha
        Exponent, 0 to 1.

    Returns
    -------
    numpy.ndarray
        [N, N], symmetric.
    """
    samples = p.shape[0]
    by_branch = csc_array(p)
    alone = csr_array((p.data**alpha * lengths[p.indices], p.indices, p.indptr), p.shape)
    alone_total = np.asarray(alone.sum(axis=1)).ravel()
    distances = np.zeros((samples, samples))
    inside = np.zeros(p.shape[1])
    for row in range(samples - 1):
        others = slice(row + 1, samples)
        span = slice(p.indptr[row], p.indptr[row + 1])
        columns, share, length = p.indices[span], p.data[span], lengths[p.indices[span]]
        inside[columns] = 1.0
        outside = alone_total[others] - (alone @ inside)[others]
        inside[columns] = 0.0
        theirs = by_branch[:, columns].toarray()[others]
        total = share + theirs
        weight = total**alpha
        different = (weight * np.abs(share - theirs) / total) @ length + outside
        present = weight @ length + outside
        distances[row, others] = np.clip(different / present, 0.0, 1.0)
    return distances + distances.T
