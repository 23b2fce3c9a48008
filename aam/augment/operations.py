"""What an augmented row is made by: pure functions of rows and a generator.

The result depends on the order of the ASVs within a row; callers give them in the order of the
feature IDs, so that it does not depend on the order of the table's columns.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Row(NamedTuple):
    """The ASVs of a sample, ascending, and their reads, all above 0."""

    asvs: NDArray[np.int64]
    counts: NDArray[np.int64]


def asv_dropout(row: Row, fraction: float, rng: np.random.Generator) -> Row:
    """Leave out a fraction of the ASVs, rounded, with all of their reads; one stays at least."""
    asvs = len(row.asvs)
    kept = max(asvs - int(fraction * asvs + 0.5), 1)
    chosen = np.sort(rng.choice(asvs, size=kept, replace=False, shuffle=False))
    return Row(row.asvs[chosen], row.counts[chosen])


def cutmix(first: Row, second: Row, rng: np.random.Generator) -> tuple[Row, float]:
    """Mix two samples: every ASV, with its reads, comes from one of them or the other.

    Compositional CutMix of Gordon-Rodriguez, E., Quinn, T. P. & Cunningham, J. P. (2022), Data
    augmentation for compositional data: advancing predictive models of the microbiome, NeurIPS.
    The probability of the first parent is uniform between 0 and 1. A mix without a single ASV is
    drawn again, with the same probability, which is returned: the weight of the first parent.
    """
    asvs = np.union1d(first.asvs, second.asvs)
    counts_of_first, counts_of_second = _aligned(first, asvs), _aligned(second, asvs)
    weight = float(rng.uniform())
    while True:
        from_first = rng.random(len(asvs)) < weight
        counts = np.where(from_first, counts_of_first, counts_of_second)
        present = counts > 0
        if present.any():
            return Row(asvs[present], counts[present]), weight


def _aligned(row: Row, asvs: NDArray[np.int64]) -> NDArray[np.int64]:
    counts = np.zeros(len(asvs), dtype=np.int64)
    counts[np.searchsorted(asvs, row.asvs)] = row.counts
    return counts
