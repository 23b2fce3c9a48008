"""How reads have to be read to begin where the known sequences of a reference do.

Shape suffixes: Q sequences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from aam.reference_tree.nearest import UNKNOWN, KnownSequences, Nearest, encode, reverse_complement

FEW_NEAR = 0.5
"""Fraction of the reads near known sequences below which other readings are tried."""
LARGEST_SHIFT = 20
"""Bases that reads may begin before or behind the known sequences."""
TRIED = 200
"""The most abundant sequences, whose other readings are tried."""


@dataclass(frozen=True)
class Reading:
    """How reads have to be read to begin where the sequences of a reference do."""

    reverse_complement: bool = False
    """Whether they are of the other strand."""
    shift: int = 0
    """Bases that lie before the first base of the reference; below 0: bases that are missing."""

    def encode(self, sequences: Sequence[str], length: int) -> NDArray[np.uint8]:
        """Return the first bases of sequences as they have to be read.

        Parameters
        ----------
        sequences
            Nucleotides of any length.
        length
            Number of bases that are taken.

        Returns
        -------
        numpy.ndarray
            [U, length], as `aam.reference_tree.nearest.encode` returns them.
        """
        if self.reverse_complement:
            sequences = [reverse_complement(sequence) for sequence in sequences]
        if self.shift >= 0:
            return encode([sequence[self.shift :] for sequence in sequences], length)
        bases_US = encode(sequences, length + self.shift)
        return np.pad(bases_US, ((0, 0), (-self.shift, 0)), constant_values=UNKNOWN)

    def __str__(self) -> str:
        """Return what would have to be done to the reads."""
        if self.reverse_complement:
            return "they are reverse complemented"
        if self.shift > 0:
            return f"their first {self.shift} bases are cut off"
        if self.shift < 0:
            return f"they began {-self.shift} bases earlier"
        return "they stay as they are"


AS_IS = Reading()
"""The reading of sequences that begin where the known ones do."""


def recognize_reading(
    reference: KnownSequences, sequences: Sequence[str], reads_Q: NDArray[np.number]
) -> tuple[Reading, float] | None:
    """Return the strand and shift with which most reads lie near a known sequence.

    Parameters
    ----------
    reference
        Sequences that begin at the same base.
    sequences
        Sequences at full length: the reverse complement of a truncated one would begin at the
        wrong base.
    reads_Q
        Reads of each of these.

    Returns
    -------
    tuple or None
        The best of the other strand and shifts of up to `LARGEST_SHIFT` bases, and the fraction of
        the reads of the most abundant sequences that lie near a known one then. None: the fraction
        is below `FEW_NEAR` in every reading.
    """
    # The abundant ones decide; all sequences in 41 readings would take too long.
    most = np.argsort(-np.asarray(reads_Q), kind="stable")[:TRIED]
    abundant = [sequences[row] for row in most]
    shifts = chain(range(1, LARGEST_SHIFT + 1), range(-1, -LARGEST_SHIFT - 1, -1))
    readings = [Reading(reverse_complement=True), *(Reading(shift=shift) for shift in shifts)]
    shares = []
    for reading in readings:
        nearest = reference.nearest(reading.encode(abundant, reference.length_bp))
        shares.append(share_near(nearest, reads_Q[most]))
    best = int(np.argmax(shares))
    return (readings[best], shares[best]) if shares[best] >= FEW_NEAR else None


def share_near(nearest: Nearest, reads_Q: NDArray[np.number]) -> float:
    """Return the fraction of the reads whose sequences lie near a known one.

    Parameters
    ----------
    nearest
        What is nearest to each of Q sequences.
    reads_Q
        Reads of each.

    Returns
    -------
    float
        From 0 to 1; 0 without reads.
    """
    return float(reads_Q[nearest.is_near_Q].sum() / max(reads_Q.sum(), 1))
