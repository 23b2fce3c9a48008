"""The known sequence that another one is most like; sequences are small integers, also packed.

Sequences that begin at the same base are compared position by position. That is exact, fast, and
all that substitutions need. A sequence with more mismatches than these explain may have lost or
gained a base: it is aligned to the known sequences that share most of its words.

Shape suffixes: U known sequences, Q others, R some of these, S positions, C bytes of four bases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import edlib
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

UNKNOWN = 4
"""Stands for an ambiguous base, and for what lies outside of a sequence."""
BITS = (0, 2, 4, 6)
"""Where the four bases of a byte begin."""
_BASE_OF_BYTE = np.full(256, UNKNOWN, np.uint8)
_BASE_OF_BYTE[list(b"ACGTacgt")] = [0, 1, 2, 3] * 2
_BASE_OF_BYTE[list(b"Uu")] = 3
NEAR = 0.03
"""Differences per base up to which a sequence is near a known one."""
QUERIES_AT_ONCE = 512
"""Sequences that are compared with all known ones at a time."""
MOST_SUBSTITUTIONS = 0.1
"""Mismatches per base beyond which a sequence is aligned."""
MOST_EDITS = 0.05
"""Edits per base up to which an alignment is believed: relatives that lost or gained a base."""
WORD = 8
"""Bases of a word that aligned sequences have in common."""
COMMON_WORD = 0.05
"""Largest fraction of the known sequences that may have a word: a more common one is left out."""
CANDIDATES = 20
"""Known sequences that a sequence is aligned to."""
ROOM = 8
"""Bases at the end of a sequence that are not aligned. A sequence that lost bases reaches further
along the known one, which may end before it: so up to this many lost bases do no harm."""
_ANY_BASE = [("N", base) for base in "ACGT"]
"""What an alignment takes for equal: an unknown base, which is decoded to N, and any other."""


def encode(sequences: Sequence[str], length: int) -> NDArray[np.uint8]:
    """Return the first bases of some sequences.

    Parameters
    ----------
    sequences
        Nucleotides of any length.
    length
        Number of bases that are taken.

    Returns
    -------
    numpy.ndarray
        0 to 3 for A, C, G and T or U, `UNKNOWN` for every other letter and behind the end,
        [U, length].
    """
    rows = [sequence[:length].ljust(length, "-") for sequence in sequences]
    letters = np.frombuffer("".join(rows).encode("latin-1", "replace"), np.uint8)
    return _BASE_OF_BYTE[letters].reshape(len(rows), length)


def decode(bases_US: NDArray[np.uint8]) -> list[str]:
    """Return sequences without what is `UNKNOWN` behind them; within them it is N.

    Parameters
    ----------
    bases_US
        What `encode` returns.

    Returns
    -------
    list of str
        Upper-case letters.
    """
    letters_US = np.frombuffer(b"ACGTN", np.uint8)[bases_US]
    return [row_S.tobytes().decode("ascii").rstrip("N") for row_S in letters_US]


def pack(bases_US: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return bases, four a byte.

    Parameters
    ----------
    bases_US
        What `encode` returns. `UNKNOWN` ones are lost: they become A.

    Returns
    -------
    numpy.ndarray
        [U, C], uint8.
    """
    bases_US = np.where(bases_US == UNKNOWN, 0, bases_US).astype(np.uint8)
    bases_US = np.pad(bases_US, ((0, 0), (0, -bases_US.shape[1] % len(BITS))))
    quads = bases_US.reshape(len(bases_US), -1, len(BITS))
    return (quads << np.array(BITS, np.uint8)).sum(axis=2).astype(np.uint8)


def unpack(packed_UC: NDArray[np.uint8], length_U: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Return the bases that `pack` packed.

    Parameters
    ----------
    packed_UC
        Bytes of four bases.
    length_U
        Length of each sequence.

    Returns
    -------
    numpy.ndarray
        [U, S], uint8, `UNKNOWN` behind the end of each sequence.
    """
    quads = np.stack([(packed_UC >> bits) & 3 for bits in BITS], axis=2)
    bases_US = quads.reshape(len(packed_UC), -1)[:, : int(length_U.max(initial=0))]
    bases_US[np.arange(bases_US.shape[1]) >= length_U[:, None]] = UNKNOWN
    return bases_US


def reverse_complement(sequence: str) -> str:
    """Return the other strand of a sequence; letters that are no base become N.

    Parameters
    ----------
    sequence
        Nucleotides.

    Returns
    -------
    str
        Upper-case letters, as many as `sequence` has.
    """
    bases_S = encode([sequence], len(sequence))[0]
    other_S = np.where(bases_S == UNKNOWN, UNKNOWN, 3 - bases_S.astype(np.int64))[::-1]
    letters_S = np.frombuffer(b"ACGTN", np.uint8)[other_S]
    return letters_S.tobytes().decode("ascii")


@dataclass(frozen=True, eq=False)
class Nearest:
    """For each of Q sequences the known one that is most like it.

    Attributes
    ----------
    row_Q
        Number of the known sequence.
    differences_Q
        Bases that differ: mismatches, or substituted, inserted and deleted bases of an alignment.
    compared_Q
        Bases that were compared; 0 where nothing could be, and the known sequence is the first.
    is_aligned_Q
        Whether the known sequence was found by an alignment.
    """

    row_Q: NDArray[np.int64]
    differences_Q: NDArray[np.int64]
    compared_Q: NDArray[np.int64]
    is_aligned_Q: NDArray[np.bool_]

    @property
    def distance_Q(self) -> NDArray[np.float64]:
        """Differences per base; 1 where nothing could be compared."""
        distance_Q = self.differences_Q / np.maximum(self.compared_Q, 1)
        return np.where(self.compared_Q > 0, distance_Q, 1.0)

    @property
    def is_near_Q(self) -> NDArray[np.bool_]:
        """Whether a sequence lies near a known one."""
        return self.distance_Q <= NEAR


@dataclass(frozen=True, eq=False)
class KnownSequences:
    """Sequences that others are compared with, [U, S], as `encode` returns them.

    A result does not depend on what else is asked for, on the number of threads or the machine:
    matches are whole numbers, and among equals the first known sequence is taken.
    """

    bases_US: NDArray[np.uint8]

    @property
    def length_bp(self) -> int:
        """Bases of a sequence that are compared."""
        return self.bases_US.shape[1]

    def nearest(self, bases_QS: NDArray[np.uint8]) -> Nearest:
        """Return the known sequence with the most matches, position by position.

        Where one of both has ended, or has an ambiguous base, nothing is compared. Bases behind the
        longest known sequence have no part in this.

        Parameters
        ----------
        bases_QS
            The sequences, which begin at the same base as the known ones.

        Returns
        -------
        Nearest
            None of them is aligned.
        """
        length = self.bases_US.shape[1]
        bases_QS = bases_QS[:, :length]
        missing = length - bases_QS.shape[1]
        bases_QS = np.pad(bases_QS, ((0, 0), (0, missing)), constant_values=UNKNOWN)
        # A sequence that is a known one is looked up; only the others are compared with all.
        rows = [self._row_by_bases.get(row_S.tobytes(), -1) for row_S in bases_QS]
        row_Q = np.array(rows, np.int64)
        row_Q[(bases_QS == UNKNOWN).all(axis=1)] = 0
        other_R = np.flatnonzero(row_Q < 0)
        for first in range(0, len(other_R), QUERIES_AT_ONCE):
            some_R = other_R[first : first + QUERIES_AT_ONCE]
            # The product of two one-hot rows counts the positions with the same base.
            matches_RU = _encode_one_hot(bases_QS[some_R]) @ self._one_hot.T
            row_Q[some_R] = matches_RU.argmax(axis=1)
        near_QS = self.bases_US[row_Q]
        is_compared_QS = (bases_QS != UNKNOWN) & (near_QS != UNKNOWN)
        return Nearest(
            row_Q=row_Q,
            differences_Q=(is_compared_QS & (bases_QS != near_QS)).sum(axis=1),
            compared_Q=is_compared_QS.sum(axis=1),
            is_aligned_Q=np.zeros(len(row_Q), bool),
        )

    def aligned(self, bases_QS: NDArray[np.uint8], nearest: Nearest) -> Nearest:
        """Return what is nearest, with an alignment where substitutions would be too many.

        Edlib (Šošić and Šikić 2017, doi:10.1093/bioinformatics/btw753) aligns them.

        Parameters
        ----------
        bases_QS
            The sequences, which begin at the same base as the known ones.
        nearest
            What `nearest` returns for them.

        Returns
        -------
        Nearest
            Aligned where that brings few enough edits.
        """
        row_Q = nearest.row_Q.copy()
        differences_Q = nearest.differences_Q.copy()
        compared_Q = nearest.compared_Q.copy()
        is_aligned_Q = nearest.is_aligned_Q.copy()
        distance_Q = nearest.distance_Q
        far_R = np.flatnonzero((distance_Q > MOST_SUBSTITUTIONS) & (nearest.compared_Q > 0))
        for start in range(0, len(far_R), QUERIES_AT_ONCE):
            some_R = far_R[start : start + QUERIES_AT_ONCE]
            candidates = self._candidates(bases_QS[some_R])
            for query, known_rows in zip(some_R.tolist(), candidates, strict=True):
                row, edits, length = self._align(bases_QS[query], known_rows)
                if length > 0 and edits / length <= MOST_EDITS:
                    row_Q[query] = row
                    differences_Q[query] = edits
                    compared_Q[query] = length
                    is_aligned_Q[query] = True
        return Nearest(row_Q, differences_Q, compared_Q, is_aligned_Q)

    def _candidates(self, bases_RS: NDArray[np.uint8]) -> list[NDArray[np.int64]]:
        """Return the known sequences that share most words with each of some sequences."""
        words = _count_words(bases_RS[:, : self.bases_US.shape[1]])
        shared = csr_array(words @ self._words.T)
        candidates = []
        for row in range(len(bases_RS)):
            span = slice(shared.indptr[row], shared.indptr[row + 1])
            # The number of the sequence decides between equals.
            order = np.lexsort((shared.indices[span], -shared.data[span]))[:CANDIDATES]
            candidates.append(np.sort(shared.indices[span][order]).astype(np.int64))
        return candidates

    def _align(
        self, bases_S: NDArray[np.uint8], known_rows: NDArray[np.int64]
    ) -> tuple[int, int, int]:
        """Return the best of some known sequences, the edits to it, and the bases compared.

        An unknown base is aligned to any other without an edit, but it is not counted as compared.
        """
        text = decode(bases_S[None, : self.bases_US.shape[1]])[0][:-ROOM]
        best_row = -1
        best_edits = len(text)
        for row in known_rows.tolist():
            known_text = decode(self.bases_US[row : row + 1])[0]
            # Mode SHW: the whole text is aligned, and the known one may go on behind its end.
            alignment = edlib.align(
                text, known_text, mode="SHW", task="distance", additionalEqualities=_ANY_BASE
            )
            edits = alignment["editDistance"]
            if edits < best_edits:
                best_row = row
                best_edits = edits
        compared = len(text) - text.count("N") if best_row >= 0 else 0
        return best_row, best_edits, compared

    @cached_property
    def _row_by_bases(self) -> dict[bytes, int]:
        """Number of the known sequence with these bases, the first of equals."""
        rows: dict[bytes, int] = {}
        for number, row_S in enumerate(self.bases_US):
            rows.setdefault(row_S.tobytes(), number)
        return rows

    @cached_property
    def _one_hot(self) -> NDArray[np.float32]:
        return _encode_one_hot(self.bases_US)

    @cached_property
    def _words(self) -> csr_array:
        """How often each known sequence has each word, without words that many of them have."""
        words = _count_words(self.bases_US)
        sequences_per_word = np.bincount(words.indices, minlength=words.shape[1])
        is_rare = sequences_per_word <= max(1.0, COMMON_WORD * len(self.bases_US))
        is_kept = is_rare[words.indices]
        # Where each row begins among the entries that are kept.
        starts = np.concatenate([[0], np.cumsum(is_kept)])[words.indptr]
        data = words.data[is_kept]
        return csr_array((data, words.indices[is_kept], starts), shape=words.shape)


def _encode_one_hot(bases_US: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return ones and zeros, [U, 4 S]; nothing matches an unknown base."""
    is_base = bases_US[..., None] == np.arange(UNKNOWN, dtype=np.uint8)
    return is_base.reshape(len(bases_US), -1).astype(np.float32)


def _count_words(bases_US: NDArray[np.uint8]) -> csr_array:
    """Return how often each word occurs in some sequences, [U, 4 ** WORD]."""
    positions = bases_US.shape[1] - WORD + 1
    if positions <= 0:
        return csr_array((len(bases_US), 4**WORD), dtype=np.int32)
    word_UP = np.zeros((len(bases_US), positions), np.int64)
    is_word_UP = np.ones((len(bases_US), positions), bool)
    for offset in range(WORD):
        part_UP = bases_US[:, offset : offset + positions]
        word_UP = 4 * word_UP + part_UP
        is_word_UP &= part_UP != UNKNOWN
    rows, _ = np.nonzero(is_word_UP)
    ones = np.ones(len(rows), np.int32)
    return csr_array((ones, (rows, word_UP[is_word_UP])), shape=(len(bases_US), 4**WORD))
