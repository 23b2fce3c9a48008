"""Recognizing samples of training by their ID, or by their reads whatever they are called.

A sample is known by its parts: a part stands for an ASV together with its number of reads. Two
samples of a study, even of the same person or of one ASV that dominates both, seldom have an ASV
with the same number of reads; two copies of a sample have all of them in common.

Shape suffixes: N training samples, M other samples, F features, P parts of all samples, C columns
of distinct parts.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_array

from aam.data.rarefaction import scale_to_one
from aam.data.sequences import tokenize, untokenize
from aam.data.table import FeatureTable
from aam.util.atomic import atomic_path_with_mode

BY_ID = "id"
"""Mark of a sample whose ID a training sample has."""
BY_READS = "reads"
"""Mark of a sample that has the reads of a training sample, under another ID."""
LEAST_COMMON = 5
"""Parts in common from which on two samples can be the same: fewer can agree by chance."""
LEAST_ALIKE = 0.5
"""Fraction of the parts of two samples that is common to both, from which on they are the same.

Of two samples of the moving pictures, ecam, oral and corpus studies it is at most 0.18.
"""
ROWS_PER_BLOCK = 1024
"""Samples that are compared with all known ones at a time."""
AMOUNT_STEPS = 10**6
"""Parts of a sample that amounts are compared in."""
ODD_NUMBER = np.uint32(2654435761)
"""2 to the power of 32, divided by the golden ratio: it spreads counts over all 32 bits."""


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """The parts of some samples, each a hash of 32 bits.

    They hide nothing: who knows the ASVs finds their reads by trying.
    """

    part_P: NDArray[np.int32]
    """Parts, sample after sample."""
    offsets: NDArray[np.int64]
    """Where the parts of every sample begin, [N + 1]."""

    @classmethod
    def from_counts(cls, counts_NF: csr_array, sequences: Sequence[str]) -> "Fingerprints":
        """Return the parts of samples before rarefaction.

        Parameters
        ----------
        counts_NF
            Reads of every sample and feature, or amounts that sum to 1.
        sequences
            Sequence of every feature; features of the same sequence count as one ASV.
        """
        asv_F, distinct = pd.factorize(np.asarray(sequences, object))
        entries = np.ones(len(asv_F), np.int64), (np.arange(len(asv_F)), asv_F)
        to_asvs = csr_array(entries, shape=(len(asv_F), len(distinct)))
        counts = csr_array(counts_NF @ to_asvs)
        counts.sort_indices()
        asv_P = np.array([_number(text) for text in distinct], np.uint32)[counts.indices]
        # A product with an odd number is different for every count, so that the same ASV with
        # another number of reads is another part.
        part_P = asv_P ^ (_whole(counts.data) * ODD_NUMBER)
        return cls(part_P.view(np.int32), counts.indptr.astype(np.int64))

    @classmethod
    def open(cls, path: Path) -> "Fingerprints":
        """Read the parts of samples from a file.

        Parameters
        ----------
        path
            A file of `write`.
        """
        parts = load_file(path)
        return cls(parts["parts"], parts["offsets"])

    def write(self, path: Path) -> None:
        """Write the parts in the safetensors format, atomically.

        Parameters
        ----------
        path
            File to write.
        """
        with atomic_path_with_mode(path) as partial:
            save_file({"parts": self.part_P, "offsets": self.offsets}, partial)

    def are_among(self, training: "Fingerprints") -> NDArray[np.bool_]:
        """Return which of these samples have the same reads as any training sample.

        Two samples are the same where at least `LEAST_COMMON` of their parts, and a fraction of
        `LEAST_ALIKE` of all distinct ones, are common to both.

        Parameters
        ----------
        training
            Parts of the N samples to compare with.

        Returns
        -------
        numpy.ndarray
            Whether each of these samples is among them, bool [M].
        """
        part_P = np.concatenate([self.part_P, training.part_P])
        distinct, column_P = np.unique(part_P, return_inverse=True)
        parts = len(self.part_P)
        has_MC = _incidence(column_P[:parts], self.offsets, len(distinct))
        has_NC = _incidence(column_P[parts:], training.offsets, len(distinct))
        training_CN = has_NC.T.tocsc()
        size_M = np.diff(self.offsets)
        size_N = np.diff(training.offsets)
        is_among_M = np.zeros(len(size_M), bool)
        for first in range(0, len(size_M), ROWS_PER_BLOCK):
            common = (has_MC[first : first + ROWS_PER_BLOCK] @ training_CN).tocoo()
            row = common.row + first
            # The distinct parts of both: `common.data` counts the shared ones, which both sizes
            # hold.
            together = size_M[row] + size_N[common.col] - common.data
            is_same = (common.data >= LEAST_COMMON) & (common.data >= LEAST_ALIKE * together)
            is_among_M[row[is_same]] = True
        return is_among_M


@dataclass(frozen=True, eq=False)
class KnownSamples:
    """What recognizes the samples that methods were fitted to."""

    sample_ids: frozenset[str]
    """Their IDs."""
    fingerprints: Fingerprints
    """Their reads before rarefaction."""

    def marks(self, table: FeatureTable, sequences: Sequence[str]) -> pd.DataFrame:
        """Return which samples of a table were in training.

        Parameters
        ----------
        table
            Reads before rarefaction.
        sequences
            Sequence of every feature, as the methods read it.

        Returns
        -------
        pandas.DataFrame
            By sample ID: `in_training`, which is `BY_ID`, `BY_READS` or empty, and `same_reads`,
            whether a training sample has the same reads, whatever its ID.
        """
        same_reads_M = Fingerprints.from_counts(table.counts, sequences).are_among(
            self.fingerprints
        )
        same_id_M = np.array([name in self.sample_ids for name in table.sample_ids], bool)
        mark_M = np.where(same_id_M, BY_ID, np.where(same_reads_M, BY_READS, ""))
        columns = {"in_training": mark_M.astype(object), "same_reads": same_reads_M}
        return pd.DataFrame(columns, index=pd.Index(table.sample_ids, dtype=object))


def fingerprint_samples(
    table: FeatureTable, sample_ids: Sequence[str], sequences: Mapping[str, str]
) -> Fingerprints:
    """Return what recognizes the reads of training samples in other tables.

    Parameters
    ----------
    table
        The study, before rarefaction.
    sample_ids
        The training samples.
    sequences
        All ASVs of the study, by feature ID; empty: its features are known by their IDs.
    """
    reads = table.select_samples(pd.Index(table.sample_ids).get_indexer(pd.Index(sample_ids)))
    if not reads.facts.is_counted:
        reads = scale_to_one(reads)
    as_read = reads.feature_ids
    if reads.facts.has_sequences:
        as_read = sequences_as_read(reads, sequences, longest_bp(sequences))
    return Fingerprints.from_counts(reads.counts, as_read)


def longest_bp(sequences: Mapping[str, str]) -> int:
    """Return the length at which sequences are cut before they are compared.

    It is that of the longest known ASV.

    Parameters
    ----------
    sequences
        The known ASVs, by feature ID.
    """
    return max(map(len, sequences.values()))


def sequences_as_read(
    table: FeatureTable, sequences: Mapping[str, str], max_length_bp: int
) -> list[str]:
    """Return the sequence of every feature as methods read it: cut, ambiguous letters as N.

    Parameters
    ----------
    table
        The table whose features are asked for.
    sequences
        Sequence by feature ID.
    max_length_bp
        Length at which sequences are cut.

    Returns
    -------
    list of str
        In the order of the table's features.
    """
    letters_US, length_U = tokenize([sequences[name] for name in table.feature_ids], max_length_bp)
    return untokenize(letters_US, length_U)


def _whole(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Return reads as they are, and amounts that sum to 1 as whole parts of a million."""
    if values.dtype.kind == "f":
        values = np.round(values * AMOUNT_STEPS)
    return values.astype(np.uint32)


def _incidence(column_P: NDArray[np.intp], offsets: NDArray[np.int64], columns: int) -> csr_array:
    """Return 1 where a sample has a part, samples by distinct parts."""
    ones_P = np.ones(len(column_P), np.int32)
    return csr_array((ones_P, column_P, offsets), shape=(len(offsets) - 1, columns))


def _number(sequence: str) -> int:
    digest = hashlib.blake2b(sequence.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little")
