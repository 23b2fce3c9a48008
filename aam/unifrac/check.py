"""Recomputing a sample of every result by other means, before it is written."""

import logging
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from aam.data.table import FeatureTable
from aam.data.trees.branches import branch_counts, samples_of, sheared, subset
from aam.unifrac import formulas
from aam.unifrac.engines import Engine
from aam.unifrac.store import Rows
from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator

LOG = logging.getLogger(__name__)
Numbers = NDArray[np.int64]
Recompute = Callable[[FeatureTable, Numbers, Numbers], NDArray[np.float64]]
"""The distances of pairs of a table's samples, [P], by other means."""
TOLERANCE = 1e-5
"""Largest difference; relative to values above 1 (weighted_unnormalized, Faith's PD)."""


def check_distances(
    matrix: Rows,
    table: FeatureTable,
    tree: TreeNode,
    metric: str,
    alpha: float,
    *,
    pairs: int,
    other: Engine | None,
) -> float:
    """Recompute a seeded sample of the pairs of a matrix, on these samples alone.

    Parameters
    ----------
    matrix
        Distances, [N, N].
    table, tree, metric, alpha
        What they were computed from.
    pairs
        Number of pairs, or all if there are fewer.
    other
        An engine that did not compute the matrix; None: the definition of the metric, in NumPy.

    Returns
    -------
    float
        The largest difference.

    Raises
    ------
    RuntimeError
        If a pair differs by more than `TOLERANCE`; names the worst.
    """

    def recompute(part: FeatureTable, i: Numbers, j: Numbers) -> NDArray[np.float64]:
        part_tree = sheared(tree, part.feature_ids)
        if other is None:
            return _by_definition(part, part_tree, metric, alpha, i, j)
        with other.distances(part, part_tree, metric, alpha) as recomputed:
            return np.asarray(recomputed[:], dtype=np.float64)[i, j]

    return _check_pairs(matrix, table, metric, pairs, recompute)


def check_non_phylogenetic(matrix: Rows, table: FeatureTable, metric: str, *, pairs: int) -> float:
    """Recompute a seeded sample of the pairs of a matrix by scikit-bio and scipy.

    Parameters
    ----------
    matrix
        Distances, [N, N].
    table, metric
        What they were computed from; a metric of `aam.unifrac.compositional`.
    pairs
        Number of pairs, or all if there are fewer.

    Returns
    -------
    float
        The largest difference.

    Raises
    ------
    RuntimeError
        If a pair differs by more than `TOLERANCE`; names the worst.
    """

    def recompute(part: FeatureTable, i: Numbers, j: Numbers) -> NDArray[np.float64]:
        reads = part.counts.toarray().astype(np.float64)
        return formulas.non_phylogenetic_distances(reads[i], reads[j], metric)

    return _check_pairs(matrix, table, metric, pairs, recompute)


def check_faith_pd(
    values: NDArray[np.float64],
    table: FeatureTable,
    tree: TreeNode,
    *,
    samples: int,
    other: Engine | None,
) -> float:
    """Recompute Faith's phylogenetic diversity of a seeded sample of the samples.

    Parameters
    ----------
    values
        Faith's PD, [N].
    table, tree
        What it was computed from.
    samples
        Number of samples, or all if there are fewer.
    other
        An engine that did not compute the values; None: the definition, in NumPy.

    Returns
    -------
    float
        The largest difference.

    Raises
    ------
    RuntimeError
        If a sample differs by more than `TOLERANCE`; names the worst.
    """
    total = len(table.sample_ids)
    rng = generator("unifrac check", "faith_pd", total)
    rows = np.sort(rng.choice(total, size=min(samples, total), replace=False))
    part, part_tree = subset(table, tree, rows)
    if other is None:
        expected = formulas.faith_pd(*branch_counts(part, part_tree))
    else:
        expected = other.faith_pd(part, part_tree)
    return _compare(values[rows], expected, part.sample_ids, "faith_pd")


def sample_pairs(samples: int, pairs: int, metric: str) -> tuple[Numbers, Numbers]:
    """Return distinct pairs i < j of N samples; the same for the same arguments."""
    possible = samples * (samples - 1) // 2
    rng = generator("unifrac check", metric, samples)
    drawn = np.sort(rng.choice(possible, size=min(pairs, possible), replace=False, shuffle=False))
    starts = np.concatenate([[0], np.cumsum(np.arange(samples - 1, 0, -1))])
    first = np.searchsorted(starts, drawn, side="right") - 1
    return first, drawn - starts[first] + first + 1


def _check_pairs(
    matrix: Rows, table: FeatureTable, metric: str, pairs: int, recompute: Recompute
) -> float:
    first, second = sample_pairs(len(table.sample_ids), pairs, metric)
    if len(first) == 0:
        return 0.0
    rows = np.unique(np.concatenate([first, second]))
    part = samples_of(table, rows)
    i, j = np.searchsorted(rows, first), np.searchsorted(rows, second)
    found = [matrix[a : a + 1][0, b] for a, b in zip(first, second, strict=True)]
    expected = recompute(part, i, j)
    return _compare(np.array(found, dtype=np.float64), expected, _pair_names(part, i, j), metric)


def _pair_names(table: FeatureTable, first: Numbers, second: Numbers) -> list[str]:
    names = table.sample_ids
    return [f"{names[a]} and {names[b]}" for a, b in zip(first, second, strict=True)]


def _by_definition(
    table: FeatureTable,
    tree: TreeNode,
    metric: str,
    alpha: float,
    first: Numbers,
    second: Numbers,
) -> NDArray[np.float64]:
    counts, lengths = branch_counts(table, tree)
    totals = np.asarray(table.counts.sum(axis=1)).ravel()
    shares = formulas.shares(counts, totals).toarray()
    return formulas.pair_distances(shares[first], shares[second], lengths, metric, alpha)


def _compare(
    found: NDArray[np.float64], expected: NDArray[np.float64], names: Sequence[str], metric: str
) -> float:
    difference = np.abs(found - expected)
    excess = difference / np.maximum(1.0, np.abs(expected))
    worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    if not excess[worst] <= TOLERANCE:
        raise RuntimeError(
            f"{metric} of {names[worst]} is {found[worst]:.9g}, but {expected[worst]:.9g} when "
            f"recomputed by other means (tolerance {TOLERANCE:g}): nothing was written"
        )
    LOG.info(
        "%s: %d values recomputed, largest difference %.1e", metric, len(found), difference.max()
    )
    return float(difference.max())
