"""Recomputing a sample of every result by other means, before it is written."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aam.config.metrics import METRICS, Parameters
from aam.data.table import FeatureTable
from aam.data.trees import branch_fractions
from aam.distances.engines import Engine
from aam.distances.formulas import FORMULAS, Floats
from aam.distances.store import Values
from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator

logger = logging.getLogger(__name__)
Numbers = NDArray[np.int64]
TOLERANCE = 1e-5
"""Largest difference; relative to values above 1 (weighted_unnormalized, Faith's PD)."""


def check_values(
    values: Values,
    table: FeatureTable,
    tree: TreeNode | None,
    metric: str,
    parameters: Parameters,
    *,
    count: int,
    other: Engine | None,
) -> None:
    """Recompute some seeded pairs of a matrix, or values of samples, on these samples alone.

    Parameters
    ----------
    values
        Distances [N, N], or values [N], to check.
    table
        Reads that they were computed from.
    tree
        Tree with the features at its tips; None: the metric needs none.
    metric
        A key of `aam.config.metrics.METRICS`.
    parameters
        Parameters of the metric by name.
    count
        Number of pairs, or of values, that are recomputed.
    other
        An engine that did not compute them; None: the definition of the metric, in NumPy.

    Raises
    ------
    RuntimeError
        A difference is above `TOLERANCE`; the message names the worst.
    """
    chosen = draw_checked(len(table.sample_ids), count, metric)
    if not len(chosen[0]):
        return
    # Each item is a sample, or a pair: the row to read, and the column in it.
    items = list(zip(*chosen, strict=True))
    given_values = []
    labels = []
    for row, *columns in items:
        given_values.append(values[row : row + 1][0, *columns])
        labels.append(" and ".join(table.sample_ids[sample] for sample in (row, *columns)))
    given = np.array(given_values, dtype=np.float64)
    # Only these samples are recomputed, with the part of the tree that their features need.
    rows = np.unique(chosen)
    positions = tuple(np.searchsorted(rows, numbers) for numbers in chosen)
    part = table.select_samples(rows)
    part_tree = None if tree is None else tree.shear(part.feature_ids, prune=False)
    if other is None:
        expected = _by_definition(part, part_tree, metric, positions, parameters)
    else:
        with other.compute(part, part_tree, metric, parameters) as recomputed:
            expected = np.asarray(recomputed[:], dtype=np.float64)[positions]
    _compare(given, expected, labels, metric)


def draw_checked(samples: int, count: int, metric: str) -> tuple[Numbers, ...]:
    """Return the samples, or pairs of samples, that are recomputed.

    Parameters
    ----------
    samples
        Number N of samples.
    count
        Number of values or pairs, at most.
    metric
        A key of `aam.config.metrics.METRICS`.

    Returns
    -------
    tuple of numpy.ndarray
        Positions of distinct samples, or positions i and j of distinct pairs, i < j; the same for
        the same arguments.
    """
    rng = generator("unifrac check", metric, samples)
    if METRICS[metric].per_sample:
        return (np.sort(rng.choice(samples, size=min(count, samples), replace=False)),)
    possible = samples * (samples - 1) // 2
    drawn = np.sort(rng.choice(possible, size=min(count, possible), replace=False, shuffle=False))
    # Pairs are numbered row by row of the upper triangle; `starts` has the first of each row.
    starts = np.concatenate([[0], np.cumsum(np.arange(samples - 1, 0, -1))])
    first = np.searchsorted(starts, drawn, side="right") - 1
    return first, drawn - starts[first] + first + 1


def _by_definition(
    table: FeatureTable,
    tree: TreeNode | None,
    metric: str,
    positions: tuple[Numbers, ...],
    parameters: Parameters,
) -> Floats:
    """Return values by the definition of a metric.

    Parameters
    ----------
    table, tree, metric, parameters
        As for `check_values`.
    positions
        Positions of the samples in the table, or those of the first and second samples of pairs.
    """
    definition = FORMULAS[metric].definition
    if tree is None:
        reads = table.counts.toarray().astype(np.float64)
        return definition(*(reads[rows] for rows in positions))
    fractions, lengths = branch_fractions(table, tree)
    dense = fractions.toarray()
    return definition(*(dense[rows] for rows in positions), lengths, **parameters)


def _compare(given: Floats, expected: Floats, names: Sequence[str], metric: str) -> None:
    """Raise a RuntimeError for the largest difference, if it is above the tolerance."""
    difference = np.abs(given - expected)
    excess = difference / np.maximum(1.0, np.abs(expected))
    worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    # Written with `not`, because every comparison with NaN is false.
    if not excess[worst] <= TOLERANCE:
        raise RuntimeError(
            f"{metric} of {names[worst]} is {given[worst]:.9g}, but {expected[worst]:.9g} when "
            f"recomputed by other means (tolerance {TOLERANCE:g}): nothing was written"
        )
    logger.info(
        "%s: %d values recomputed, largest difference %.1e", metric, len(given), difference.max()
    )
