"""The sequences of a reference that are nearest to others, of any region, strand and length.

Words propose sequences of the reference (`aam.reference_tree.words`), and an alignment by edlib
(Šošić and Šikić 2017, doi:10.1093/bioinformatics/btw753) decides between them: the whole sequence
against any part of the known one. Where a known sequence ends within the other, the rest is not
compared, if it is not too long.

Shape suffixes: U known sequences, S bases, Q sequences, H hits, one sequence behind the other.
"""

import multiprocessing
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Self

import edlib
import numpy as np
from numpy.typing import NDArray

from aam.reference_tree.nearest import UNKNOWN, encode, reverse_complement
from aam.reference_tree.words import WordIndex

CANDIDATES = 32
"""Known sequences that a sequence is aligned to, besides those that share as many words."""
MOST_CANDIDATES = 128
"""Known sequences that a sequence is aligned to at most."""
MOST_EDITS = 0.25
"""Edits per base beyond which a sequence is no hit: unrelated sequences have 0.4 and more."""
FURTHER_EDITS = 0.02
"""Edits per base by which a hit may be farther away than the nearest."""
OVERHANG = 0.2
"""Largest fraction of a sequence that may lie before a known one, and as much behind it."""
LONGEST_OVERHANG = 150
"""Bases of such an overhang at most."""
QUERIES_AT_ONCE = 200
"""Sequences that a process works on at a time."""
_ANY_BASE = [("N", base) for base in "ACGT"]
_STEP = re.compile(r"(\d+)([=XID])")


@dataclass(frozen=True, eq=False)
class Hits:
    """The known sequences that lie near each of Q others.

    The hits of a sequence stand together, the nearest first; among equals the one comes first that
    more bases were compared with, then the first of the reference.

    Attributes
    ----------
    offset_Q
        Where the hits of each sequence begin, and the end of the last, [Q + 1]. A sequence that
        nothing lies near has none.
    row_H
        Number of the known sequence.
    edits_H
        Substituted, inserted and deleted bases.
    compared_H
        Bases of the sequence that were compared: neither unknown, nor beyond the known one's ends.
    begin_H, end_H
        Part of the known sequence that was compared, from the first base, which is 0, to behind the
        last. Where nothing hangs over, `begin_H` is `end_H` less the length of the sequence.
    is_reversed_Q
        Whether the reverse complement of the sequence is what was compared.
    """

    offset_Q: NDArray[np.int64]
    row_H: NDArray[np.int64]
    edits_H: NDArray[np.int64]
    compared_H: NDArray[np.int64]
    begin_H: NDArray[np.int64]
    end_H: NDArray[np.int64]
    is_reversed_Q: NDArray[np.bool_]

    @property
    def distance_H(self) -> NDArray[np.float64]:
        """Edits per compared base."""
        return self.edits_H / np.maximum(self.compared_H, 1)

    @property
    def has_hit_Q(self) -> NDArray[np.bool_]:
        """Whether a known sequence lies near."""
        return np.diff(self.offset_Q) > 0

    @property
    def query_H(self) -> NDArray[np.int64]:
        """Number of the sequence that each hit belongs to."""
        return np.repeat(np.arange(len(self.offset_Q) - 1), np.diff(self.offset_Q))

    @property
    def distance_Q(self) -> NDArray[np.float64]:
        """Edits per compared base of the nearest hit; 1 without any."""
        distance_Q = np.ones(len(self.offset_Q) - 1)
        distance_Q[self.has_hit_Q] = self.distance_H[self.offset_Q[:-1][self.has_hit_Q]]
        return distance_Q

    @property
    def is_nearest_H(self) -> NDArray[np.bool_]:
        """Whether no other hit of the same sequence is nearer."""
        return self.distance_H <= self.distance_Q[self.query_H]

    @classmethod
    def join(cls, parts: Sequence["Hits"]) -> Self:
        """Put the hits of several groups of sequences one behind the other.

        Parameters
        ----------
        parts
            At least one.
        """
        counts = np.concatenate([np.diff(part.offset_Q) for part in parts])
        return cls(
            offset_Q=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            row_H=np.concatenate([part.row_H for part in parts]),
            edits_H=np.concatenate([part.edits_H for part in parts]),
            compared_H=np.concatenate([part.compared_H for part in parts]),
            begin_H=np.concatenate([part.begin_H for part in parts]),
            end_H=np.concatenate([part.end_H for part in parts]),
            is_reversed_Q=np.concatenate([part.is_reversed_Q for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class SequenceSearch:
    """Known sequences, in letters, and the index of their words.

    Attributes
    ----------
    letters
        The sequences, one behind the other, of A, C, G, T, and N for any other letter.
    offset_U
        Where each begins, and the end of the last, [U + 1].
    index
        Their words.
    """

    letters: bytes
    offset_U: NDArray[np.int64]
    index: WordIndex

    def nearest(
        self,
        sequences: Sequence[str],
        threads: int = 1,
        is_left_out_U: NDArray[np.bool_] | None = None,
    ) -> Hits:
        """Return the known sequences that lie near others.

        A result depends neither on what else is asked for nor on the number of threads.

        Parameters
        ----------
        sequences
            Nucleotides of any region, strand and length; T or U, upper or lower case.
        threads
            Processes that work.
        is_left_out_U
            Known sequences that are passed over.

        Returns
        -------
        Hits
            In the order of `sequences`.
        """
        starts = range(0, max(len(sequences), 1), QUERIES_AT_ONCE)
        groups = [sequences[start : start + QUERIES_AT_ONCE] for start in starts]
        if threads == 1 or len(groups) == 1:
            return Hits.join([self._nearest(group, is_left_out_U) for group in groups])
        # A forked process shares the sequences and the index; nothing is sent but the hits.
        fork = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(
            min(threads, len(groups)),
            mp_context=fork,
            initializer=_keep,
            initargs=(self, is_left_out_U),
        ) as pool:
            return Hits.join(list(pool.map(_nearest_of_kept, groups)))

    def text(self, row: int) -> str:
        """Return a known sequence.

        Parameters
        ----------
        row
            Its number.
        """
        return self.letters[self.offset_U[row] : self.offset_U[row + 1]].decode("ascii")

    def _nearest(self, sequences: Sequence[str], is_left_out_U: NDArray[np.bool_] | None) -> Hits:
        found = [self._hits(sequence, is_left_out_U) for sequence in sequences]
        rows = [row for _, hits in found for row in hits]
        row_H, edits_H, compared_H, begin_H, end_H = np.array(rows, np.int64).reshape(-1, 5).T
        counts = [len(hits) for _, hits in found]
        return Hits(
            offset_Q=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            row_H=row_H,
            edits_H=edits_H,
            compared_H=compared_H,
            begin_H=begin_H,
            end_H=end_H,
            is_reversed_Q=np.array([is_reversed for is_reversed, _ in found], bool),
        )

    def _hits(
        self, sequence: str, is_left_out_U: NDArray[np.bool_] | None
    ) -> tuple[bool, list[tuple[int, int, int, int, int]]]:
        """Return whether a sequence is reversed, and its hits in their order."""
        bases_S = encode([sequence], len(sequence))[0]
        word_W = self.index.words_in(bases_S)
        other_S = np.where(bases_S == UNKNOWN, UNKNOWN, 3 - bases_S.astype(np.int64))[::-1]
        other_W = self.index.words_in(other_S.astype(np.uint8))
        # All known sequences are of one strand: words of the other one are rare among them.
        occurrences = int(self.index.occurrences(word_W).sum())
        is_reversed = int(self.index.occurrences(other_W).sum()) > occurrences
        shared_U = self.index.shared(other_W if is_reversed else word_W)
        if is_left_out_U is not None:
            shared_U[is_left_out_U] = 0
        text = reverse_complement(sequence) if is_reversed else _plain(bases_S)
        return is_reversed, self._aligned(text, _most(shared_U))

    def _aligned(self, text: str, rows: NDArray[np.int64]) -> list[tuple[int, int, int, int, int]]:
        """Return row, edits, compared bases, begin and end of what a sequence is aligned to."""
        known_bases = len(text) - text.count("N")
        pad = min(int(OVERHANG * len(text)), LONGEST_OVERHANG)
        padding = "N" * pad
        further = max(2, int(FURTHER_EDITS * len(text)))
        most = int(MOST_EDITS * len(text))
        hits = []
        for row in rows.tolist():
            known = f"{padding}{self.text(row)}{padding}"
            alignment = edlib.align(
                text, known, mode="HW", task="distance", k=most, additionalEqualities=_ANY_BASE
            )
            edits = alignment["editDistance"]
            if edits < 0:
                continue
            most = min(most, edits + further)
            end = alignment["locations"][0][1] + 1 - pad
            begin = end - len(text)
            compared = known_bases
            length = len(known) - 2 * pad
            if begin < edits or end > length:
                compared, begin, end = _overlap(text, known, pad, edits)
            hits.append((row, edits, compared, begin, end))
        hits = [hit for hit in hits if hit[1] <= most and hit[2] > 0]
        return sorted(hits, key=lambda hit: (hit[1] / hit[2], -hit[2], hit[0]))


def _most(shared_U: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the known sequences that share most words, in descending order."""
    sequences_of_count = np.bincount(shared_U)
    at_least = np.cumsum(sequences_of_count[::-1])[::-1]
    enough = np.flatnonzero(at_least >= CANDIDATES)
    threshold = max(int(enough[-1]) if len(enough) else 1, 1)
    rows = np.flatnonzero(shared_U >= threshold)
    order = np.argsort(-shared_U[rows], kind="stable")[:MOST_CANDIDATES]
    return rows[order]


def _overlap(text: str, known: str, pad: int, edits: int) -> tuple[int, int, int]:
    """Return the compared bases, the begin and the end of an alignment to a padded sequence."""
    alignment = edlib.align(
        text, known, mode="HW", task="path", k=edits, additionalEqualities=_ANY_BASE
    )
    first = pad
    last = len(known) - pad
    position, behind = alignment["locations"][0]
    begin = max(position, first) - pad
    end = min(behind + 1, last) - pad
    compared = 0
    letter = 0
    for count, step in _STEP.findall(alignment["cigar"]):
        steps = int(count)
        if step == "D":
            position += steps
            continue
        if step == "I":
            if first <= position <= last:
                compared += steps - text.count("N", letter, letter + steps)
        else:
            skipped = max(first - position, 0)
            inside = min(position + steps, last) - max(position, first)
            if inside > 0:
                compared += inside - text.count("N", letter + skipped, letter + skipped + inside)
            position += steps
        letter += steps
    return compared, begin, end


def _plain(bases_S: NDArray[np.uint8]) -> str:
    """Return letters of A, C, G, T and N, as many as there are bases."""
    return np.frombuffer(b"ACGTN", np.uint8)[bases_S].tobytes().decode("ascii")


_KEPT: list[tuple[SequenceSearch, NDArray[np.bool_] | None]] = []
"""What a process that works for another searches in."""


def _keep(search: SequenceSearch, is_left_out_U: NDArray[np.bool_] | None) -> None:
    _KEPT[:] = [(search, is_left_out_U)]


def _nearest_of_kept(sequences: Sequence[str]) -> Hits:
    search, is_left_out_U = _KEPT[0]
    return search._nearest(sequences, is_left_out_U)
