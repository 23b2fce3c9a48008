"""Random draws of the same number of reads from every sample, and expected richness."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln

from aam.data.table import FeatureTable
from aam.util.errors import InputError, problem
from aam.util.seeds import generator

_NUMPY_LIMIT = 1_000_000_000
"""`Generator.multivariate_hypergeometric` refuses totals from here on."""


def reads_per_sample(table: FeatureTable) -> NDArray[np.int64]:
    """Return the sum of the counts of every sample, [N]."""
    return np.asarray(table.counts.sum(axis=1), dtype=np.int64)


def rarefy(table: FeatureTable, depth: int, *seed_parts: object) -> FeatureTable:
    """Draw `depth` reads from every sample, without replacement.

    Every sample has a generator of its own, and its features are drawn in the order of their
    IDs: a draw depends neither on the other samples nor on the order of rows and columns.

    Parameters
    ----------
    table
        Counts of N samples.
    depth
        Reads to draw; samples with fewer are left out.
    *seed_parts
        What names the draw, the seed and the number of a view for instance.

    Returns
    -------
    FeatureTable
        Samples and features in the order of `table`, without those that have no reads left.

    Raises
    ------
    InputError
        If no sample has `depth` reads.
    """
    reads = reads_per_sample(table)
    rows = np.flatnonzero(reads >= depth)
    if not rows.size:
        raise _too_deep(table.sample_ids, reads, depth)
    rank = np.empty(len(table.feature_ids), dtype=np.int64)
    rank[sorted(range(len(rank)), key=table.feature_ids.__getitem__)] = np.arange(len(rank))
    kept = table.counts[rows]
    drawn = np.zeros(kept.nnz, dtype=np.int64)
    for position, row in enumerate(rows):
        span = slice(kept.indptr[position], kept.indptr[position + 1])
        order = np.argsort(rank[kept.indices[span]])
        rng = generator("rarefaction", *seed_parts, table.sample_ids[row])
        drawn[span][order] = draw_reads(kept.data[span][order], depth, rng)
    counts = csr_array((drawn, kept.indices, kept.indptr), shape=kept.shape)
    counts.eliminate_zeros()
    present = np.unique(counts.indices)
    counts = counts[:, present]
    counts.sort_indices()
    return FeatureTable(
        sample_ids=[table.sample_ids[row] for row in rows],
        feature_ids=[table.feature_ids[column] for column in present],
        counts=counts,
    )


def draw_reads(
    counts: NDArray[np.int64], depth: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw `depth` reads without replacement from one sample (multivariate hypergeometric).

    Parameters
    ----------
    counts
        Reads of each feature, [F]; `depth` of them at least.
    depth
        Reads to draw.
    rng
        Where the randomness comes from.

    Returns
    -------
    numpy.ndarray
        Reads drawn of each feature, int64 [F], of sum `depth`.
    """
    total = int(counts.sum())
    assert 0 <= depth <= total, f"{depth} reads of {total}"
    if total < _NUMPY_LIMIT:
        return rng.multivariate_hypergeometric(counts, depth, method="marginals")
    if depth > total // 2:
        return counts - draw_reads(counts, total - depth, rng)
    reads = _distinct_integers(total, depth, rng)
    features = np.searchsorted(np.cumsum(counts), reads, side="right")
    return np.bincount(features, minlength=len(counts)).astype(np.int64)


def expected_richness(counts: NDArray[np.int64], depths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the number of features expected in draws without replacement from one sample.

    Hurlbert, S. H. (1971), The nonconcept of species diversity, Ecology 52:577-586:
    sum over the features i of 1 - C(n - n_i, m) / C(n, m), here with logarithms of the gamma
    function.

    Parameters
    ----------
    counts
        Reads n_i of each feature that is present, [F].
    depths
        Reads m drawn, each at most the sum of `counts`, [M].

    Returns
    -------
    numpy.ndarray
        float64 [M].
    """
    total = int(counts.sum())
    assert depths.max(initial=0) <= total
    rest_F1 = (total - counts)[:, None].astype(np.float64)
    depths_1M = depths[None, :].astype(np.float64)
    left_out_FM = rest_F1 - depths_1M
    log_absent_FM = (
        gammaln(rest_F1 + 1)
        - gammaln(np.maximum(left_out_FM, 0) + 1)
        + gammaln(total - depths_1M + 1)
        - gammaln(total + 1)
    )
    absent_FM = np.where(left_out_FM >= 0, np.exp(np.minimum(log_absent_FM, 0)), 0.0)
    return (1 - absent_FM).sum(axis=0)


def _distinct_integers(end: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the first `size` different values of a stream of integers below `end`, sorted."""
    found = np.unique(rng.integers(end, size=size))
    while len(found) < size:
        found = np.union1d(found, rng.integers(end, size=size - len(found)))
    return found


def _too_deep(sample_ids: Sequence[str], reads: NDArray[np.int64], depth: int) -> InputError:
    deepest = int(reads.argmax())
    quartiles = np.quantile(reads, [0.25, 0.5, 0.75], method="lower")
    return problem(
        "rarefaction.depth",
        str(depth),
        f"at most {reads[deepest]}, the reads of the deepest sample ('{sample_ids[deepest]}'); "
        f"quartiles of the {len(reads)} samples' reads are "
        f"{', '.join(str(value) for value in quartiles)}",
        f"lower rarefaction.depth: {quartiles[0]} keeps about three quarters of the samples",
    )
