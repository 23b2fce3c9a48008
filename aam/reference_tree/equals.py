"""Which of several known sequences, all equally like another one, that one lies below.

A read of one region is equal to many known genes, which lie in several parts of the tree: most of
them together, some far from the others, because they differ in regions that were not read.

Shape suffixes: B nodes of the tree; U known sequences; Q others; H hits, the
known ones near one sequence behind those near another.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aam.reference_tree.tree import ROOT, KnownTips

NEIGHBOURHOOD = 0.05
"""Distance in the tree, in substitutions per site, at which a neighbour counts 1/e.

Chosen with the rule itself on infant guts, moving pictures and oral samples; between 0.01 and 0.3
it changes r of UniFrac with their own trees by at most 0.001."""
EQUAL = 1e-9
"""Difference of distances, and relative difference of sums, that counts as none."""
SEQUENCES_AT_ONCE = 256
"""Sequences that are worked on together."""


@dataclass(frozen=True, eq=False)
class Paths:
    """Distances between the known sequences of a tree.

    Attributes
    ----------
    tree
        Its nodes are numbered in preorder, as `number_nodes` does.
    """

    tree: KnownTips

    @cached_property
    def height_B(self) -> NDArray[np.float64]:
        """Distance of each node from the root, in substitutions per site."""
        height_B = np.zeros(len(self.tree.parent_B))
        parents = self.tree.parent_B.tolist()
        lengths = self.tree.length_B.tolist()
        for node in range(ROOT + 1, len(parents)):
            height_B[node] = height_B[parents[node]] + lengths[node]
        return height_B

    @cached_property
    def _smallest_parents(self) -> list[NDArray[np.int32]]:
        """Smallest parent of 1, 2, 4 and so on nodes of successive numbers."""
        table = [self.tree.parent_B.astype(np.int32)]
        width = 1
        while 2 * width <= len(self.tree.parent_B):
            table.append(np.minimum(table[-1][:-width], table[-1][width:]))
            width *= 2
        return table

    def common_ancestor(
        self, one: NDArray[np.integer], other: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Return the last common ancestors of pairs of nodes.

        In preorder that is the smallest parent of the nodes behind the one and up to the other.

        Parameters
        ----------
        one, other
            Nodes; their shapes are broadcast.
        """
        low, high = np.broadcast_arrays(np.minimum(one, other), np.maximum(one, other))
        width = high - low
        # The two halves of a range overlap: the smaller of their minima is that of the range.
        level = np.frexp(np.maximum(width, 1))[1] - 1
        ancestor = low.astype(np.int64)
        for number, smallest in enumerate(self._smallest_parents):
            here = (level == number) & (width > 0)
            first = low[here] + 1
            last = high[here] + 1 - (1 << number)
            ancestor[here] = np.minimum(smallest[first], smallest[last])
        return np.minimum(ancestor, low)

    def between(
        self, row_one: NDArray[np.integer], row_other: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return distances in the tree between pairs of known sequences.

        Parameters
        ----------
        row_one, row_other
            Numbers of the sequences; their shapes are broadcast.

        Returns
        -------
        numpy.ndarray
            In substitutions per site.
        """
        one = self.tree.tip_U[row_one]
        other = self.tree.tip_U[row_other]
        ancestor = self.common_ancestor(one, other)
        return self.height_B[one] + self.height_B[other] - 2 * self.height_B[ancestor]


def choose_among_equals(
    paths: Paths,
    offset_Q: NDArray[np.integer],
    row_H: NDArray[np.integer],
    distance_H: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return for each sequence one of the nearest known ones: that among most of the others.

    Of equally near known sequences, each has the sum over all of them of exp(-d / `NEIGHBOURHOOD`)
    of its distances d to them in the tree, and the largest sum wins; of equal sums, the first in
    the tree. So a few that lie apart do not pull the sequence away from where most are, as their
    last common ancestor would.

    Parameters
    ----------
    paths
        The tree.
    offset_Q
        Where the hits of each sequence begin, and the end of the last, [Q + 1].
    row_H
        Known sequences near each, in any order; those of one sequence are all different.
    distance_H
        Differences per base between both.

    Returns
    -------
    numpy.ndarray
        The known sequence, -1 where there is none near, [Q]. Neither the other sequences nor the
        order of the hits has a part in it.
    """
    count_Q = np.diff(offset_Q)
    least_Q = np.full(len(count_Q), np.inf)
    of_H = np.repeat(np.arange(len(count_Q)), count_Q)
    np.minimum.at(least_Q, of_H, distance_H)
    equal_E = np.flatnonzero(distance_H <= least_Q[of_H] + EQUAL)
    # Ascending, so that sums do not depend on the order of the hits.
    equal_E = equal_E[np.lexsort((row_H[equal_E], of_H[equal_E]))]
    equals_Q = np.bincount(of_H[equal_E], minlength=len(count_Q))
    begin_Q = np.cumsum(equals_Q) - equals_Q
    chosen_Q = np.full(len(count_Q), -1, np.int64)
    some = np.flatnonzero(count_Q)
    # Those of as many equals are worked on together: the width then makes no difference to sums.
    for equals in np.unique(equals_Q[some]).tolist():
        alike = some[equals_Q[some] == equals]
        for first in range(0, len(alike), SEQUENCES_AT_ONCE):
            part = alike[first : first + SEQUENCES_AT_ONCE]
            row = row_H[equal_E[begin_Q[part][:, None] + np.arange(equals)]]
            distance = paths.between(row[:, :, None], row[:, None, :])
            total = np.exp(-distance / NEIGHBOURHOOD).sum(axis=2)
            is_best = total >= total.max(axis=1, keepdims=True) * (1 - EQUAL)
            chosen_Q[part] = np.take_along_axis(row, is_best.argmax(axis=1)[:, None], axis=1)[:, 0]
    return chosen_Q
