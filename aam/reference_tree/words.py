"""Which sequences of a reference share most words with another: an index that a file can hold.

Shape suffixes: U known sequences, S their bases, one sequence behind the other, W words, P entries.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.reference_tree.nearest import UNKNOWN

WORD = 11
"""Bases of a word."""
KEPT_WORDS = 2
"""One word in so many is indexed; which ones follows from their bases."""
COMMON_WORD = 20_000
"""Largest number of occurrences of an indexed word: more common ones tell little."""
ENTRIES_PER_QUERY = 200_000
"""Entries that are read for a sequence: those of its rarest words."""
LEAST_WORDS = 8
"""Words whose entries are read in any case."""
SEQUENCES_AT_ONCE = 4096
"""Known sequences whose words are made at a time."""
_MIX = np.uint32(2_654_435_769)
"""Odd multiplier of Fibonacci hashing (Knuth 1973), which spreads the words evenly."""


def words_of(bases_S: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the word that begins at each base, or -1 where it is not indexed.

    Parameters
    ----------
    bases_S
        Bases as `aam.reference_tree.nearest.encode` returns them.

    Returns
    -------
    numpy.ndarray
        [S - WORD + 1]; -1 for words with an unknown base and those that sampling leaves out.
    """
    positions = max(len(bases_S) - WORD + 1, 0)
    word_S = np.zeros(positions, np.int32)
    is_left_out_S = np.zeros(positions, bool)
    for offset in range(WORD):
        part_S = bases_S[offset : offset + positions]
        word_S = 4 * word_S + (part_S & 3)
        is_left_out_S |= part_S == UNKNOWN
    # The upper bits of the product depend on all bits of the word.
    is_left_out_S |= ((word_S.astype(np.uint32) * _MIX) >> np.uint32(16)) % KEPT_WORDS != 0
    word_S[is_left_out_S] = -1
    return word_S


@dataclass(frozen=True, eq=False)
class WordIndex:
    """The known sequences that have a word, for every word.

    Attributes
    ----------
    begin_W
        Where the entries of each word begin, and behind the last word where they end,
        [4 ** WORD + 1].
    sequence_P
        Number of a known sequence; ascending within a word.
    known
        Number of known sequences.
    """

    begin_W: NDArray[np.int32]
    sequence_P: NDArray[np.int32]
    known: int

    @classmethod
    def build(cls, bases_S: NDArray[np.uint8], offset_U: NDArray[np.int64]) -> Self:
        """Index the words of known sequences.

        Parameters
        ----------
        bases_S
            All sequences, one behind the other.
        offset_U
            Where each begins, and the end of the last, [U + 1].

        Returns
        -------
        WordIndex
            Without the words that occur more than `COMMON_WORD` times.
        """
        known = len(offset_U) - 1
        parts = []
        words_U = np.zeros(known, np.int64)
        for first in range(0, known, SEQUENCES_AT_ONCE):
            offset_R = offset_U[first : first + SEQUENCES_AT_ONCE + 1]
            word_S = words_of(bases_S[offset_R[0] : offset_R[-1]])
            number_S = np.repeat(np.arange(len(offset_R) - 1), np.diff(offset_R))
            # A word must not reach from one sequence into the next.
            last_S = number_S[WORD - 1 :]
            number_S = number_S[: len(word_S)]
            is_word_S = (word_S >= 0) & (number_S == last_S)
            parts.append(word_S[is_word_S])
            words_U[first : first + len(offset_R) - 1] = np.bincount(
                number_S[is_word_S], minlength=len(offset_R) - 1
            )
        word_P = np.concatenate([*parts, np.zeros(0, np.int32)])
        is_common_W = np.bincount(word_P, minlength=4**WORD) > COMMON_WORD
        is_kept_P = ~is_common_W[word_P]
        begin_U = np.concatenate([[0], np.cumsum(words_U)])
        kept_before_P = np.concatenate([[0], np.cumsum(is_kept_P, dtype=np.int32)])
        word_P = word_P[is_kept_P]
        rows = (np.ones(len(word_P), np.uint8), word_P, kept_before_P[begin_U].astype(np.int32))
        by_word = csr_array(rows, shape=(known, 4**WORD)).tocsc()
        return cls(by_word.indptr.astype(np.int32), by_word.indices.astype(np.int32), known)

    def words_in(self, bases_S: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the words of a sequence that known ones have, without repetition, ascending."""
        word_W = np.unique(words_of(bases_S))
        word_W = word_W[word_W >= 0]
        return word_W[self.begin_W[word_W + 1] > self.begin_W[word_W]]

    def occurrences(self, word_W: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return how often each of some words occurs in the known sequences."""
        return self.begin_W[word_W + 1] - self.begin_W[word_W]

    def shared(self, word_W: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return how many of some words each known sequence has.

        Parameters
        ----------
        word_W
            Words of a sequence, without repetition. Of these the rarest count, as many as have
            `ENTRIES_PER_QUERY` entries together, and at least `LEAST_WORDS`.

        Returns
        -------
        numpy.ndarray
            [U]; a word that a known sequence repeats counts each time.
        """
        occurrences_W = self.occurrences(word_W)
        order_W = np.argsort(occurrences_W, kind="stable")
        entries_W = np.cumsum(occurrences_W[order_W])
        read = max(int(np.searchsorted(entries_W, ENTRIES_PER_QUERY)), LEAST_WORDS)
        lists = [
            self.sequence_P[self.begin_W[word] : self.begin_W[word + 1]]
            for word in word_W[order_W[:read]].tolist()
        ]
        if not lists:
            return np.zeros(self.known, np.int64)
        return np.bincount(np.concatenate(lists), minlength=self.known)
