"""The ASVs that an encoder learned from, and how near those of another study are to them.

The file is in the safetensors format: `bases` [U, ceil(S / 4)], four nucleotides a byte, an
ambiguous one as A, and `length` [U].

Shape suffixes: U known ASVs, Q other ones, S positions, L positions that are compared.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.model.tensors import read_tensors, write_tensors

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
    def of(cls, tokens: TokenStore, asvs_U: NDArray[np.int64]) -> "KnownAsvs":
        """Return some ASVs of a token store."""
        return cls(_bases(tokens.tokens[asvs_U], tokens.lengths[asvs_U]))

    @classmethod
    def open(cls, path: Path) -> "KnownAsvs":
        """Read a file of `write`; an `InputError` says what it is instead."""
        hint = "copy the model directory again"
        _, parts = read_tensors(path, version=VERSION, what="the ASVs of an encoder", hint=hint)
        packed_UC, length_U = parts["bases"].numpy(), parts["length"].numpy()
        bases_US = np.stack([(packed_UC >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2)
        bases_US = bases_US.reshape(len(packed_UC), -1)[:, : int(length_U.max())]
        bases_US[np.arange(bases_US.shape[1]) >= length_U[:, None]] = 4
        return cls(bases_US)

    def write(self, path: Path) -> None:
        """Write the ASVs, atomically."""
        last_U = self.bases_US.shape[1] - (self.bases_US[:, ::-1] < 4).argmax(axis=1)
        length_U = np.where((self.bases_US < 4).any(axis=1), last_U, 0).astype(np.int16)
        bases_US = np.where(self.bases_US < 4, self.bases_US, 0).astype(np.uint8)
        bases_US = np.pad(bases_US, ((0, 0), (0, -bases_US.shape[1] % 4)))
        quads_UC4 = bases_US.reshape(len(bases_US), -1, 4)
        packed_UC = (quads_UC4 << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2).astype(np.uint8)
        parts = {"bases": torch.from_numpy(packed_UC), "length": torch.from_numpy(length_U)}
        write_tensors(path, parts, {"version": VERSION})

    def near(self, tokens: TokenStore) -> NDArray[np.bool_]:
        """Return which ASVs of a token store have a known one close by, [Q]."""
        return self._near(_bases(tokens.tokens, tokens.lengths))

    def _near(self, bases_QS: NDArray[np.uint8]) -> NDArray[np.bool_]:
        length = min(self.bases_US.shape[1], bases_QS.shape[1])
        known = _one_hot(self.bases_US[:, :length])
        found = []
        for first in range(0, len(bases_QS), QUERIES_AT_ONCE):
            part_QL = bases_QS[first : first + QUERIES_AT_ONCE, :length]
            matches_Q = (_one_hot(part_QL) @ known.T).amax(dim=1).numpy()
            compared_Q = (part_QL < 4).sum(axis=1)
            is_near = compared_Q - matches_Q <= NEAR * compared_Q
            found.append(is_near & (compared_Q > 0))
        return np.concatenate([np.empty(0, bool), *found])

    def familiarity(self, tokens: TokenStore, reads_Q: NDArray[np.number]) -> tuple[float, str]:
        """Return the fraction of the reads near known ASVs, and a sentence about the study.

        Where few are near, the most abundant ASVs are also read from the other end, and some bases
        later or earlier.
        """
        bases_QS = _bases(tokens.tokens, tokens.lengths)
        fraction = _share(self._near(bases_QS), reads_Q)
        said = f"{fraction:.0%} of the reads lie within {NEAR:.0%} of an ASV that the encoder saw"
        if fraction >= FEW_NEAR:
            return fraction, said
        most = np.argsort(-reads_Q, kind="stable")[:TRIED]
        readings = _readings(bases_QS[most], tokens.lengths[most])
        shares = {
            name: _share(self._near(bases), reads_Q[most]) for name, bases in readings.items()
        }
        best = max(shares, key=lambda name: shares[name])
        if shares[best] >= FEW_NEAR:
            return fraction, f"{said}, but {shares[best]:.0%} if {best}"
        return fraction, f"{said}: another region, or a kind of sample that it does not know"

    def near_reads(self, store: SampleStore, tokens: TokenStore) -> tuple[float, str]:
        """Return `familiarity` of a study."""
        reads_Q = np.bincount(store.asvs, store.counts, minlength=len(tokens.lengths))
        return self.familiarity(tokens, reads_Q)

    def compare(self, store: SampleStore, tokens: TokenStore) -> None:
        """Log how near a study is, as a warning where it is not."""
        fraction, said = self.near_reads(store, tokens)
        logger.log(logging.INFO if fraction >= FEW_NEAR else logging.WARNING, "%s", said)

    def joined(self, other: "KnownAsvs") -> "KnownAsvs":
        """Return the ASVs of both, each once."""
        width = max(self.bases_US.shape[1], other.bases_US.shape[1])
        both = [
            np.pad(x, ((0, 0), (0, width - x.shape[1])), constant_values=4)
            for x in (self.bases_US, other.bases_US)
        ]
        return KnownAsvs(np.unique(np.concatenate(both), axis=0))


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
    bases_US = np.where((tokens_US >= 1) & (tokens_US <= 4), tokens_US - 1, 4).astype(np.uint8)
    return bases_US[:, : max(1, int(length_U.max(initial=0)))]


def _one_hot(bases_UL: NDArray[np.uint8]) -> torch.Tensor:
    """Return [U, 4 L] of ones and zeros; nothing matches a 4."""
    one_hot = bases_UL[..., None] == np.arange(4, dtype=np.uint8)
    return torch.from_numpy(one_hot.reshape(len(bases_UL), -1).astype(np.float32))
