"""The places of sequences in a reference tree, and how their reads have to be read.

Shape suffixes: Q sequences.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.reference_tree.bases import Reading
from aam.reference_tree.nearest import Nearest
from aam.reference_tree.tree import PER_DIFFERENCE, ReferenceTree
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)

NEAR = 0.03
"""Differences per base up to which a sequence is near a known one."""
FEW_NEAR = 0.5
"""Fraction of the reads near known sequences below which other readings are tried."""
LARGEST_SHIFT = 20
"""Bases that reads may begin before or behind the reference."""
TRIED = 200
"""The most abundant sequences, whose other readings are tried."""
AS_IS = Reading()
"""The reading of sequences that begin where the reference does."""


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
        return (self.nearest.distance_Q <= NEAR) & (self.nearest.compared_Q > 0)

    def to_tree(self) -> TreeNode:
        """Return the tree of these sequences alone: see `ReferenceTree.placed`."""
        return self.tree.placed(self.names, self.nearest.row_Q, self.length_Q)

    def to_frame(self) -> pd.DataFrame:
        """Return a row per sequence.

        Returns
        -------
        pandas.DataFrame
            Index `feature-id`; columns `nearest` (the known sequence), `differences`, `compared`
            (bases), `distance` (differences per base), `branch_length` (of the branch to the
            sequence alone, in substitutions per site), `is_near` and `is_aligned`.
        """
        known = self.tree.sequences()
        columns = {
            "nearest": [known[row] for row in self.nearest.row_Q],
            "differences": self.nearest.differences_Q,
            "compared": self.nearest.compared_Q,
            "distance": self.nearest.distance_Q,
            "branch_length": self.length_Q,
            "is_near": self.is_near_Q,
            "is_aligned": self.nearest.is_aligned_Q,
        }
        return pd.DataFrame(columns, index=pd.Index(list(self.names), name="feature-id"))


def place(tree: ReferenceTree, sequences: Mapping[str, str], reading: Reading = AS_IS) -> Placement:
    """Place sequences in a reference tree, each beside the known one that it is most like.

    Parameters
    ----------
    tree
        The reference.
    sequences
        By name. Bases behind the longest known sequence have no part in the result.
    reading
        How to read them so that they begin where the known ones do; see `recognize_reading`.
    """
    bases_QS = reading.encode(list(sequences.values()), tree.length_bp)
    return Placement(tree, list(sequences), tree.known.nearest_aligned(bases_QS), reading)


def recognize_reading(
    tree: ReferenceTree, sequences: Mapping[str, str], reads_Q: NDArray[np.number]
) -> tuple[Reading, float]:
    """Return how sequences have to be read so that most reads lie near a reference.

    Parameters
    ----------
    tree
        The reference.
    sequences
        By name, whole: the other end of a sequence that was cut is lost.
    reads_Q
        Reads of each sequence.

    Returns
    -------
    reading : Reading
        As they are, where at least `FEW_NEAR` of the reads lie near a known sequence then;
        otherwise the best of the other strand and shifts of up to `LARGEST_SHIFT` bases, where
        that share is reached by the most abundant sequences.
    near : float
        Fraction of the reads that lie near a known sequence when read so, of all sequences or, for
        another reading, of the most abundant ones.
    """
    texts = list(sequences.values())
    near = _share_near(tree, texts, reads_Q, AS_IS)
    if near >= FEW_NEAR or not texts:
        return AS_IS, near
    most = np.argsort(-np.asarray(reads_Q), kind="stable")[:TRIED]
    abundant = [texts[row] for row in most]
    shifts = chain(range(1, LARGEST_SHIFT + 1), range(-1, -LARGEST_SHIFT - 1, -1))
    readings = [Reading(reverse_complement=True), *(Reading(shift=shift) for shift in shifts)]
    shares = [_share_near(tree, abundant, reads_Q[most], reading) for reading in readings]
    best = int(np.argmax(shares))
    if shares[best] >= FEW_NEAR:
        return readings[best], shares[best]
    return AS_IS, near


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
    reading, _ = recognize_reading(tree, sequences, reads_Q)
    placement = place(tree, sequences, reading)
    near = float(reads_Q[placement.is_near_Q].sum() / max(reads_Q.sum(), 1))
    said = f"{near:.0%} of the reads lie within {NEAR:.0%} of a sequence of the reference"
    if near < FEW_NEAR:
        logger.warning("%s: another region, or a kind of sample that it does not have", said)
    elif reading.reverse_complement or reading.shift:
        logger.warning("%s if %s: they are placed so", said, reading)
    else:
        logger.info("%s", said)
    return placement, near


def _share_near(
    tree: ReferenceTree, texts: Sequence[str], reads_Q: NDArray[np.number], reading: Reading
) -> float:
    """Return the fraction of the reads whose sequences lie near a known one, without alignment."""
    nearest = tree.known.nearest(reading.encode(texts, tree.length_bp))
    is_near_Q = (nearest.distance_Q <= NEAR) & (nearest.compared_Q > 0)
    return float(reads_Q[is_near_Q].sum() / max(reads_Q.sum(), 1))
