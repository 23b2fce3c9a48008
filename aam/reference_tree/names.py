"""Names of sequences, by what the known sequences nearest to them are called.

Shape suffixes: U known sequences; Q others; H hits, the known ones near one sequence behind those
near another.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aam.data.nouns import is_unknown

LEAST_SHARE = 0.66
"""Fraction of the nearest known sequences that must have a name.

This and the limit of genera are the best of those that `python -m benchmarks.naming` tries on one
half of its genera; families need no limit there."""
FARTHEST: Mapping[str, float] = {"g": 0.08, "s": 0.0}
"""Differences per base to the nearest known sequence up to which a rank is named, by its prefix.

A sequence that is farther away may belong to another genus than the nearest one. Every second
species would be wrong if any difference were allowed. Ranks above have no such limit."""
EQUAL = 1e-9
"""Difference of distances that counts as none."""


@dataclass(frozen=True)
class Name:
    """A lineage, as far down as it can be said."""

    taxon: str
    """Ranks, the highest first, with `; ` between them; empty where nothing can be said."""
    confidence: float
    """Fraction of the nearest known sequences whose lineage begins so; 0 where there is none."""

    @property
    def rank(self) -> str:
        """Prefix of the lowest rank: `g` of a genus."""
        return self.taxon.rpartition(";")[2].strip().partition("__")[0]


def name_sequences(
    lineage_U: Sequence[str],
    offset_Q: NDArray[np.integer],
    row_H: NDArray[np.integer],
    distance_H: NDArray[np.float64],
    *,
    least_share: float = LEAST_SHARE,
    farthest: Mapping[str, float] = FARTHEST,
) -> list[Name]:
    """Return names of sequences: what most of the nearest known ones agree in.

    Of the known sequences that are equally near to a sequence and nearer than all others, two
    thirds must have a rank and all ranks above it. Ranks that some of them lack are counted
    against, and a rank is not named if the nearest sequence is farther away than members of it
    usually are from each other.

    Parameters
    ----------
    lineage_U
        Lineages of the known sequences: ranks with prefixes such as `g__`, separated by `;`, the
        highest first; empty where unknown.
    offset_Q
        Where the hits of each sequence begin, and the end of the last, [Q + 1].
    row_H
        Known sequences near each, in any order.
    distance_H
        Differences per base between both.
    least_share
        Fraction of the nearest known sequences that must have a name, above 0.5.
    farthest
        Differences per base up to which a rank is named, by its prefix.

    Returns
    -------
    list of Name
        In the order of the sequences. Neither the other sequences nor the order of the hits has a
        part in it.
    """
    ranks_of: dict[str, tuple[str, ...]] = {}
    names = []
    for begin, end in zip(offset_Q[:-1].tolist(), offset_Q[1:].tolist(), strict=True):
        if begin == end:
            names.append(Name("", 0.0))
            continue
        least = float(distance_H[begin:end].min())
        nearest = row_H[begin:end][distance_H[begin:end] <= least + EQUAL]
        lineages = [lineage_U[row] for row in nearest.tolist()]
        for lineage in set(lineages) - ranks_of.keys():
            ranks_of[lineage] = _ranks(lineage)
        deepest = _agree([ranks_of[lineage] for lineage in lineages], least_share)
        near = [name for name in deepest if least <= farthest.get(name.rank, np.inf)]
        names.append(near[-1] if near else Name("", 0.0))
    return names


def _agree(lineages: Sequence[tuple[str, ...]], least_share: float) -> list[Name]:
    """Return what most of some lineages have in common, at each rank down to the last."""
    names = []
    for depth in range(1, max(map(len, lineages)) + 1):
        counts = Counter(ranks[:depth] for ranks in lineages if len(ranks) >= depth)
        # Two names never both have the majority, so that no order decides.
        ranks, count = counts.most_common(1)[0]
        share = count / len(lineages)
        if share < least_share:
            break
        names.append(Name("; ".join(ranks), share))
    return names


def _ranks(lineage: str) -> tuple[str, ...]:
    """Return the ranks of a lineage down to the first that is unknown."""
    ranks = []
    for part in lineage.split(";"):
        if is_unknown(part.strip()):
            break
        ranks.append(part.strip())
    return tuple(ranks)
