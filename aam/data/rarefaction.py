"""Random draws of the same number of reads per sample, amounts scaled to one, and richness."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln

from aam.data.table import FeatureTable
from aam.util.errors import InputError, first_few, problem
from aam.util.seeds import generator

MOST_READS = 10**9
"""A sample has to have fewer reads than this: it is the limit of NumPy's
`multivariate_hypergeometric`, and such counts fit into the int32 of the sample store."""


def rarefy(table: FeatureTable, depth: int, *seed_parts: object) -> FeatureTable:
    """Draw the same number of reads from every sample, without replacement.

    A draw depends neither on the other samples nor on the order of rows and columns. Amounts have
    no reads to draw: each sample is scaled to one, and all of them stay.

    Parameters
    ----------
    table
        Raw counts, or amounts.
    depth
        Reads to draw from each sample.
    *seed_parts
        What the draw depends on besides the sample, the seed and the number of a view for instance.

    Returns
    -------
    FeatureTable
        Samples that have at least `depth` reads, and the features that are left in any of them.

    Raises
    ------
    InputError
        No sample has enough reads, or one has too many to draw from.
    """
    if not table.facts.is_counted:
        return scale_to_one(table)
    reads = table.reads
    rows = np.flatnonzero(reads >= depth)
    if not rows.size:
        raise too_deep(table.sample_ids, reads, depth)
    _require_drawable(table.sample_ids, reads)
    # Draws follow the order of the feature IDs, so that the order of columns changes nothing.
    columns = sorted(range(len(table.feature_ids)), key=table.feature_ids.__getitem__)
    # The inverse of this order: the rank of each column among the sorted IDs.
    rank = np.argsort(columns)
    kept = table.counts[rows]
    drawn = np.zeros(kept.nnz, dtype=np.int64)
    for position, row in enumerate(rows):
        span = slice(kept.indptr[position], kept.indptr[position + 1])
        # Entries of a row are in the order of the columns; the generator has to meet them in that
        # of the IDs.
        order = np.argsort(rank[kept.indices[span]])
        rng = generator("rarefaction", *seed_parts, table.sample_ids[row])
        reads_F = kept.data[span][order]
        # The method "count" would hold every read of the sample in memory.
        # `drawn[span]` is a view, so that this fills `drawn` in the order of the columns again.
        drawn[span][order] = rng.multivariate_hypergeometric(reads_F, depth, method="marginals")
    counts = csr_array((drawn, kept.indices, kept.indptr), shape=kept.shape)
    counts.eliminate_zeros()
    sample_ids = [table.sample_ids[row] for row in rows]
    with_all_features = FeatureTable(sample_ids, table.feature_ids, counts, table.facts)
    # Selecting all samples leaves out the features of which nothing was drawn.
    return with_all_features.select_samples(np.arange(len(rows)))


def scale_to_one(table: FeatureTable) -> FeatureTable:
    """Return amounts with the sum 1 in each sample.

    Parameters
    ----------
    table
        Amounts.
    """
    counts = table.counts
    scaled = counts.data / np.repeat(table.reads, np.diff(counts.indptr))
    return replace(table, counts=csr_array((scaled, counts.indices, counts.indptr), counts.shape))


def expected_richness(counts: NDArray[np.int64], depths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the number of features expected in draws without replacement from one sample.

    Hurlbert, S. H. (1971), The nonconcept of species diversity, Ecology 52:577-586:
    sum over the features i of 1 - C(n - n_i, m) / C(n, m), here with logarithms of the gamma
    function, where n is the sum of the counts n_i.

    Parameters
    ----------
    counts
        Counts n_i of the features that the sample has, [F].
    depths
        Numbers of reads m, none above the sum of the counts, [M].

    Returns
    -------
    numpy.ndarray
        Expected number of features at each depth, [M].
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
    # Fewer other reads than are drawn: the feature cannot be absent.
    absent_FM = np.where(left_out_FM >= 0, np.exp(np.minimum(log_absent_FM, 0)), 0.0)
    return (1 - absent_FM).sum(axis=0)


def _require_drawable(sample_ids: Sequence[str], reads: NDArray[np.int64]) -> None:
    """Raise an InputError where a sample has `MOST_READS` or more."""
    number = dict(zip(sample_ids, reads.tolist(), strict=True))
    large = [f"{count} in sample '{name}'" for name, count in number.items() if count >= MOST_READS]
    if large:
        raise problem(
            "the feature table",
            f"too many reads to draw from: {first_few(large)}",
            f"fewer than {MOST_READS} reads in every sample",
            "give the raw read counts, or leave these samples out",
        )


def too_deep(sample_ids: Sequence[str], reads: NDArray[np.int64], depth: int) -> InputError:
    """Return the error for a depth that no sample reaches.

    Parameters
    ----------
    sample_ids
        IDs of the samples.
    reads
        Reads of each, [N].
    depth
        The rarefaction depth.
    """
    deepest = int(reads.argmax())
    quartiles = np.quantile(reads, [0.25, 0.5, 0.75], method="lower")
    return problem(
        "rarefaction.depth",
        str(depth),
        f"at most {reads[deepest]}, the reads of the deepest sample ('{sample_ids[deepest]}'); "
        f"quartiles of the {len(reads)} samples' reads are {', '.join(map(str, quartiles))}",
        f"lower rarefaction.depth: {quartiles[0]} keeps about three quarters of the samples",
    )


def expected_prevalence(counts: csr_array, depth: int) -> NDArray[np.float64]:
    """Return the part of some samples that have each feature at a depth, [F].

    It is that of reads which are kept or not each by itself, which is near enough to estimate a
    time.

    Parameters
    ----------
    counts
        Reads of the samples, [N, F].
    depth
        Reads that are drawn of each, or all where there are fewer.
    """
    counts = counts.astype(np.float64)
    kept_N = np.minimum(depth / counts.sum(axis=1), 1.0)
    kept_of_entries = np.repeat(kept_N, np.diff(counts.indptr))
    counts.data = 1 - (1 - kept_of_entries) ** counts.data
    return np.asarray(counts.sum(axis=0)) / counts.shape[0]


def features_left(fewer_F: NDArray[np.float64], whole_F: NDArray[np.float64], rows: float) -> float:
    """Return the fraction of the features of some rows that are left with fewer reads.

    Parameters
    ----------
    fewer_F, whole_F
        Part of the samples that have each feature, with fewer reads and with all.
    rows
        Number of rows, which are drawn at random.

    Returns
    -------
    float
        1 where there are no features.
    """
    whole = features_of_rows(whole_F, rows)
    return features_of_rows(fewer_F, rows) / whole if whole else 1.0


def features_of_rows(prevalence_F: NDArray[np.float64], rows: float) -> float:
    """Return how many features some rows of a table have together, as expected.

    Parameters
    ----------
    prevalence_F
        Part of the samples that have each feature.
    rows
        Number of rows, which are drawn at random.
    """
    return float((1 - (1 - prevalence_F) ** rows).sum())
