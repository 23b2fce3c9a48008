"""The ASVs that an encoder learned from, and how near those of another study are to them.

The file is in the safetensors format: `bases` [U, ceil(S / 4)], four nucleotides a byte, an
ambiguous one as A, and `length` [U].

Shape suffixes: U known ASVs, Q ASVs of another study, S positions.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from aam.data.sequences import untokenize
from aam.data.stores import SampleStore, TokenStore
from aam.model.store import KNOWN_ASVS, read_tensors, write_tensors
from aam.reference_tree.nearest import NEAR, UNKNOWN, KnownSequences, pack, unpack
from aam.reference_tree.reading import FEW_NEAR, recognize_reading, share_near

logger = logging.getLogger(__name__)
VERSION = 1


@dataclass(frozen=True, eq=False)
class KnownAsvs(KnownSequences):
    """Sequences as bases 0 to 3, with `UNKNOWN` behind their end, [U, S]."""

    @classmethod
    def from_tokens(cls, tokens: TokenStore, asvs_U: NDArray[np.int64]) -> Self:
        """Return some ASVs of a token store.

        Parameters
        ----------
        tokens
            The store.
        asvs_U
            Rows of the ASVs in it.

        Returns
        -------
        KnownAsvs
            In the order of `asvs_U`.
        """
        return cls(_bases(tokens.tokens[asvs_U], tokens.lengths[asvs_U]))

    @classmethod
    def from_model(cls, directory: Path) -> Self | None:
        """Return the ASVs that a pretrained model learned from.

        Parameters
        ----------
        directory
            Directory of the model.

        Returns
        -------
        KnownAsvs or None
            None: the directory does not have them.

        Raises
        ------
        InputError
            The file is damaged, or of another version.
        """
        path = directory / KNOWN_ASVS
        return cls.open(path) if path.is_file() else None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a file of `write`.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        KnownAsvs
            In the order of the file.

        Raises
        ------
        InputError
            The file is missing, damaged or of another version.
        """
        hint = "copy the model directory again"
        _, parts = read_tensors(path, version=VERSION, what="the ASVs of an encoder", hint=hint)
        return cls(unpack(parts["bases"].numpy(), parts["length"].numpy()))

    def write(self, path: Path) -> None:
        """Write the ASVs, atomically.

        Parameters
        ----------
        path
            File to write.
        """
        is_base_US = self.bases_US != UNKNOWN
        # Counted from the end: an ambiguous base within a sequence is unknown, too, but does not
        # end it.
        last_U = self.bases_US.shape[1] - is_base_US[:, ::-1].argmax(axis=1)
        length_U = np.where(is_base_US.any(axis=1), last_U, 0).astype(np.int16)
        parts = {
            "bases": torch.from_numpy(pack(self.bases_US)),
            "length": torch.from_numpy(length_U),
        }
        write_tensors(path, parts, {"version": VERSION})

    def familiarity(
        self, store: SampleStore, tokens: TokenStore, sequences: Mapping[str, str] | None = None
    ) -> tuple[float, str]:
        """Return how near a study is to the known ASVs.

        Where few reads are near, the most abundant ASVs are also read from the other end, and with
        bases shifted.

        Parameters
        ----------
        store
            The samples.
        tokens
            Their ASVs, as the encoder reads them: longer ones may have been cut.
        sequences
            The whole ASVs by feature ID. The other end of a sequence that was cut is lost, so that
            a reverse complement is recognized in these alone. None: nothing was cut.

        Returns
        -------
        fraction : float
            Fraction of the reads whose ASV is near a known one.
        said : str
            A sentence about it.
        """
        reads_Q = np.bincount(store.asvs, store.counts, minlength=len(tokens.lengths))
        nearest = self.nearest(_bases(tokens.tokens, tokens.lengths))
        fraction = share_near(nearest, reads_Q)
        said = f"{fraction:.0%} of the reads lie within {NEAR:.0%} of an ASV that the encoder saw"
        if fraction >= FEW_NEAR:
            return fraction, said
        if sequences is None:
            texts = untokenize(tokens.tokens, tokens.lengths)
        else:
            texts = [sequences[name] for name in tokens.feature_ids]
        other = recognize_reading(self, texts, reads_Q)
        if other is not None:
            reading, near = other
            return fraction, f"{said}, but {near:.0%} if {reading}"
        return fraction, f"{said}: another region, or a kind of sample that it does not know"

    def compare(
        self, store: SampleStore, tokens: TokenStore, sequences: Mapping[str, str] | None = None
    ) -> None:
        """Log how near a study is, as a warning where it is not.

        Parameters
        ----------
        store, tokens, sequences
            As for `familiarity`.
        """
        fraction, said = self.familiarity(store, tokens, sequences)
        logger.log(logging.INFO if fraction >= FEW_NEAR else logging.WARNING, "%s", said)

    def join(self, other: Self) -> Self:
        """Return the ASVs of both, each once.

        Parameters
        ----------
        other
            Other known ASVs.

        Returns
        -------
        KnownAsvs
            Sorted by their bases.
        """
        width = max(self.bases_US.shape[1], other.bases_US.shape[1])
        both = []
        for bases_US in (self.bases_US, other.bases_US):
            missing = width - bases_US.shape[1]
            both.append(np.pad(bases_US, ((0, 0), (0, missing)), constant_values=UNKNOWN))
        return type(self)(np.unique(np.concatenate(both), axis=0))


def _bases(tokens_US: NDArray[np.uint8], length_U: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return tokens as bases; what is no base, or behind the end, is `UNKNOWN`.

    Tokens 1 to 4 are the bases 0 to 3.
    """
    tokens_US = tokens_US[:, : max(1, int(length_U.max(initial=0)))]
    is_base_US = (tokens_US >= 1) & (tokens_US <= 4)
    return np.where(is_base_US, tokens_US - 1, UNKNOWN).astype(np.uint8)
