"""The ASVs that an encoder learned from, and how near those of another study are to them.

The file is in the safetensors format: `bases` [U, ceil(S / 4)], four nucleotides a byte, an
ambiguous one as A, and `length` [U].

Shape suffixes: U known ASVs, Q other ones, S positions, L positions that are compared, C bytes.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.data.vocabulary import tokenize
from aam.model.store import KNOWN_ASVS, read_tensors, write_tensors

logger = logging.getLogger(__name__)
VERSION = 1
NEAR = 0.03
"""Mismatches per nucleotide up to which an ASV is near a known one."""
FEW_NEAR = 0.5
"""Fraction of the reads near known ASVs below which a study is unlike what the encoder saw."""
LARGEST_SHIFT = 20
QUERIES_AT_ONCE, TRIED = 512, 200
"""ASVs that are compared at a time, and the most abundant ones whose other readings are tried."""


@dataclass(frozen=True, eq=False)
class KnownAsvs:
    """Sequences as bases 0 to 3, with 4 behind their end, [U, S]."""

    bases_US: NDArray[np.uint8]

    @classmethod
    def of(cls, tokens: TokenStore, asvs_U: NDArray[np.int64]) -> Self:
        """Return some ASVs of a token store."""
        return cls(_bases(tokens.tokens[asvs_U], tokens.lengths[asvs_U]))

    @classmethod
    def of_model(cls, directory: Path) -> Self | None:
        """Return those of a pretrained model directory, None where it does not have them."""
        path = directory / KNOWN_ASVS
        return cls.open(path) if path.is_file() else None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a file of `write`; an `InputError` says what it is instead."""
        hint = "copy the model directory again"
        _, parts = read_tensors(path, version=VERSION, what="the ASVs of an encoder", hint=hint)
        packed_UC = parts["bases"].numpy()
        bp_U = parts["length"].numpy()
        bases_US = np.stack([(packed_UC >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2)
        bases_US = bases_US.reshape(len(packed_UC), -1)[:, : int(bp_U.max(initial=0))]
        bases_US[np.arange(bases_US.shape[1]) >= bp_U[:, None]] = 4
        return cls(bases_US)

    def write(self, path: Path) -> None:
        """Write the ASVs, atomically."""
        last_U = self.bases_US.shape[1] - (self.bases_US[:, ::-1] < 4).argmax(axis=1)
        bp_U = np.where((self.bases_US < 4).any(axis=1), last_U, 0).astype(np.int16)
        bases_US = np.where(self.bases_US < 4, self.bases_US, 0).astype(np.uint8)
        bases_US = np.pad(bases_US, ((0, 0), (0, -bases_US.shape[1] % 4)))
        quads_UC4 = bases_US.reshape(len(bases_US), -1, 4)
        packed_UC = (quads_UC4 << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2).astype(np.uint8)
        parts = {"bases": torch.from_numpy(packed_UC), "length": torch.from_numpy(bp_U)}
        write_tensors(path, parts, {"version": VERSION})

    def nearest(
        self, bases_QS: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return of each ASV the known one it matches most, its mismatches and bases compared, [Q].

        All begin at the same base; where one of the two has ended or is ambiguous, nothing is
        compared. An ASV of which nothing can be compared gets the first one.
        """
        length = self.bases_US.shape[1]
        part_QL = bases_QS[:, :length]
        part_QL = np.pad(part_QL, ((0, 0), (0, length - part_QL.shape[1])), constant_values=4)
        near_Q = np.array([self._row.get(bases_L.tobytes(), -1) for bases_L in part_QL], np.int64)
        near_Q[(part_QL == 4).all(axis=1)] = 0
        unknown = np.flatnonzero(near_Q < 0)
        for first in range(0, len(unknown), QUERIES_AT_ONCE):
            some = unknown[first : first + QUERIES_AT_ONCE]
            matches_RU = (_one_hot(part_QL[some]) @ self._one_hot_U4L.T).numpy()
            near_Q[some] = matches_RU.argmax(axis=1)
        near_QL = self.bases_US[near_Q]
        both_QL = (part_QL < 4) & (near_QL < 4)
        mismatches_Q = (both_QL & (part_QL != near_QL)).sum(axis=1)
        return near_Q, mismatches_Q, both_QL.sum(axis=1)

    @cached_property
    def _row(self) -> dict[bytes, int]:
        return {bases_S.tobytes(): row for row, bases_S in enumerate(self.bases_US)}

    @cached_property
    def _one_hot_U4L(self) -> torch.Tensor:
        return _one_hot(self.bases_US)

    def matched(self, tokens: TokenStore) -> NDArray[np.int64]:
        """Return the known ASV that each of a token store is or is close to, -1: none, [Q]."""
        near_Q, is_near_Q = self._near(_bases(tokens.tokens, tokens.lengths))
        return np.where(is_near_Q, near_Q, -1)

    def _near(self, bases_QS: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        near_Q, mismatches_Q, compared_Q = self.nearest(bases_QS)
        return near_Q, (mismatches_Q <= NEAR * compared_Q) & (compared_Q > 0)

    def familiarity(
        self, store: SampleStore, tokens: TokenStore, sequences: Mapping[str, str] | None = None
    ) -> tuple[float, str]:
        """Return the fraction of a study's reads near known ASVs, and a sentence about it.

        Where few are near, the most abundant are also read from the other end, and bases shifted.

        Parameters
        ----------
        store
            The samples.
        tokens
            Their ASVs, as the encoder reads them: longer ones may have been cut.
        sequences
            The whole ASVs by feature ID. The other end of a sequence that was cut is lost, so that
            a reverse complement is recognized in these alone. None: nothing was cut.
        """
        reads_Q = np.bincount(store.asvs, store.counts, minlength=len(tokens.lengths))
        fraction = _share(self._near(_bases(tokens.tokens, tokens.lengths))[1], reads_Q)
        said = f"{fraction:.0%} of the reads lie within {NEAR:.0%} of an ASV that the encoder saw"
        if fraction >= FEW_NEAR:
            return fraction, said
        most = np.argsort(-reads_Q, kind="stable")[:TRIED]
        tokens_QS = tokens.tokens[most]
        length_Q = tokens.lengths[most]
        if sequences is not None:
            whole = [sequences[tokens.feature_ids[row]] for row in most]
            tokens_QS, length_Q = tokenize(whole, max(map(len, whole)))
        readings = _readings(_bases(tokens_QS, length_Q), length_Q)
        shares = {
            name: _share(self._near(bases)[1], reads_Q[most]) for name, bases in readings.items()
        }
        best = max(shares, key=lambda name: shares[name])
        if shares[best] >= FEW_NEAR:
            return fraction, f"{said}, but {shares[best]:.0%} if {best}"
        return fraction, f"{said}: another region, or a kind of sample that it does not know"

    def compare(
        self, store: SampleStore, tokens: TokenStore, sequences: Mapping[str, str] | None = None
    ) -> None:
        """Log how near a study is, as a warning where it is not: see `familiarity`."""
        fraction, said = self.familiarity(store, tokens, sequences)
        logger.log(logging.INFO if fraction >= FEW_NEAR else logging.WARNING, "%s", said)

    def joined(self, other: Self) -> Self:
        """Return the ASVs of both, each once."""
        width = max(self.bases_US.shape[1], other.bases_US.shape[1])
        both = [
            np.pad(x, ((0, 0), (0, width - x.shape[1])), constant_values=4)
            for x in (self.bases_US, other.bases_US)
        ]
        return type(self)(np.unique(np.concatenate(both), axis=0))


def _readings(
    bases_QS: NDArray[np.uint8], length_Q: NDArray[np.int32]
) -> Mapping[str, NDArray[np.uint8]]:
    """Return other ways to read some sequences, by what would have to be done to them."""
    reverse_QS = np.full_like(bases_QS, 4)
    for row, (bases_S, length) in enumerate(zip(bases_QS, length_Q, strict=True)):
        reverse_QS[row, :length] = np.where(bases_S[:length] < 4, 3 - bases_S[:length], 4)[::-1]
    found = {"they are reverse complemented": reverse_QS}
    for shift in range(1, LARGEST_SHIFT + 1):
        cut = bases_QS[:, shift:]
        found[f"their first {shift} bases are cut off"] = cut
        unknown = np.full((len(bases_QS), shift), 4, np.uint8)
        found[f"they began {shift} bases earlier"] = np.concatenate([unknown, bases_QS], axis=1)
    return found


def _share(is_near_Q: NDArray[np.bool_], reads_Q: NDArray[np.number]) -> float:
    return float(reads_Q[is_near_Q].sum() / max(reads_Q.sum(), 1))


def _bases(tokens_US: NDArray[np.uint8], length_U: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return 0 to 3 for A, C, G, T, and 4 for whatever else stands there or nothing."""
    tokens_US = tokens_US[:, : max(1, int(length_U.max(initial=0)))]
    return np.where((tokens_US >= 1) & (tokens_US <= 4), tokens_US - 1, 4).astype(np.uint8)


def _one_hot(bases_UL: NDArray[np.uint8]) -> torch.Tensor:
    """Return [U, 4 L] of ones and zeros; nothing matches a 4."""
    one_hot = bases_UL[..., None] == np.arange(4, dtype=np.uint8)
    return torch.from_numpy(one_hot.reshape(len(bases_UL), -1).astype(np.float32))
