"""The places of sequences in a reference tree.

Shape suffixes: Q sequences.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.reference_tree.nearest import NEAR, Nearest
from aam.reference_tree.reading import (
    AS_IS,
    FEW_NEAR,
    Reading,
    recognize_reading,
    share_near,
)
from aam.reference_tree.tree import PER_DIFFERENCE, ReferenceTree
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Placement:
    """Sequences placed in a reference tree.

    Attributes
    ----------
    tree
        The reference.
    names
        Names of the Q sequences.
    nearest
        The known sequence that each is most like.
    reading
        How the sequences were read.
    """

    tree: ReferenceTree
    names: Sequence[str]
    nearest: Nearest
    reading: Reading

    @property
    def length_Q(self) -> NDArray[np.float64]:
        """Lengths of the branches to the sequences; 0 for known ones."""
        return PER_DIFFERENCE * self.nearest.distance_Q

    @property
    def is_near_Q(self) -> NDArray[np.bool_]:
        """Whether a sequence lies near a known one."""
        return self.nearest.is_near_Q

    def to_tree(self) -> TreeNode:
        """Return the tree of these sequences alone: see `ReferenceTree.tree_of`."""
        return self.tree.tree_of(self.names, self.nearest.row_Q, self.length_Q)

    def to_frame(self) -> pd.DataFrame:
        """Return a row per sequence.

        Returns
        -------
        pandas.DataFrame
            Index `feature-id`; columns `nearest` (the known sequence), `differences`, `compared`
            (bases), `distance` (differences per base), `branch_length` (of the branch to the
            sequence alone, in substitutions per site), `is_near` and `is_aligned`.
        """
        known_sequences = self.tree.sequences()
        columns = {
            "nearest": [known_sequences[row] for row in self.nearest.row_Q],
            "differences": self.nearest.differences_Q,
            "compared": self.nearest.compared_Q,
            "distance": self.nearest.distance_Q,
            "branch_length": self.length_Q,
            "is_near": self.is_near_Q,
            "is_aligned": self.nearest.is_aligned_Q,
        }
        return pd.DataFrame(columns, index=pd.Index(list(self.names), name="feature-id"))


def place_sequences(
    tree: ReferenceTree, sequences: Mapping[str, str], reading: Reading = AS_IS
) -> Placement:
    """Place sequences in a reference tree, each next to the known one that it is most like.

    Parameters
    ----------
    tree
        The reference.
    sequences
        By name. Bases behind the longest known sequence have no part in the result.
    reading
        How to read them so that they begin where the known ones do; see `recognize_reading`.

    Returns
    -------
    Placement
        The sequences in the order that they were given in.
    """
    bases_QS = reading.encode(list(sequences.values()), tree.length_bp)
    nearest = tree.known_sequences.aligned(bases_QS, tree.known_sequences.nearest(bases_QS))
    return Placement(tree, list(sequences), nearest, reading)


def place_reads(
    tree: ReferenceTree, sequences: Mapping[str, str], reads_Q: NDArray[np.number]
) -> tuple[Placement, float]:
    """Place sequences, read in the way in which most reads lie near the reference, and say so.

    Parameters
    ----------
    tree
        The reference.
    sequences
        By feature ID, whole.
    reads_Q
        Reads of each, in the same order.

    Returns
    -------
    placement : Placement
        The sequences in the tree.
    near : float
        Fraction of the reads that lie near a known sequence.
    """
    texts = list(sequences.values())
    bases_QS = AS_IS.encode(texts, tree.length_bp)
    nearest = tree.known_sequences.nearest(bases_QS)
    other = None
    # This comes before any alignment, which would take a shift for lost bases.
    if texts and share_near(nearest, reads_Q) < FEW_NEAR:
        other = recognize_reading(tree.known_sequences, texts, reads_Q)
    if other is None:
        aligned = tree.known_sequences.aligned(bases_QS, nearest)
        placement = Placement(tree, list(sequences), aligned, AS_IS)
    else:
        placement = place_sequences(tree, sequences, other[0])
    near = share_near(placement.nearest, reads_Q)
    share = f"{near:.0%} of the reads lie within {NEAR:.0%} of a sequence of the reference"
    if near < FEW_NEAR:
        logger.warning("%s: another region, or a kind of sample that it does not have", share)
    elif placement.reading != AS_IS:
        logger.warning("%s if %s: they are placed so", share, placement.reading)
    else:
        logger.info("%s", share)
    return placement, near
