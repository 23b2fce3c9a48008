"""What a model is given: the distinct ASVs of a batch and the samples that point to them.

Shape suffixes: U distinct ASVs, S positions in a sequence, B samples, A ASVs in a sample, M masked
nucleotides, E values of a target, D width, F metadata columns.
"""

from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

EMBEDDING, TARGET, CATEGORIES = "embedding", "target", "categories"
"""Names among a batch's values: embeddings made before [B, D], what is to be predicted [B, E], and
categories of metadata columns by their numbers [B, F], int64 (`aam.model.fusion.Vocabulary`)."""


@dataclass
class Movable:
    """A dataclass of tensors, and of lists of such, that moves between devices as one."""

    def to(self, device: torch.device) -> Self:
        """Return a copy on `device`; from pinned memory the copy does not block."""
        return replace(
            self, **{f.name: _moved(getattr(self, f.name), device) for f in fields(self)}
        )

    def pin_memory(self) -> Self:
        """Return a copy in pinned memory."""
        return replace(self, **{f.name: _pinned(getattr(self, f.name)) for f in fields(self)})


@dataclass
class Masked(Movable):
    """The masked nucleotides of one block of ASVs.

    Attributes
    ----------
    asv_M
        Row of the ASV in its block.
    position_M
        Position in the sequence.
    base_M
        The base that was hidden: 0 A, 1 C, 2 G, 3 T.
    """

    asv_M: Tensor
    position_M: Tensor
    base_M: Tensor


@dataclass
class AsvBlock(Movable):
    """Distinct ASVs of one length: nothing is padded inside of a block.

    Attributes
    ----------
    tokens_US
        Nucleotide tokens, uint8, masked where the batch masks.
    masked
        The nucleotides that were masked, or None.
    """

    tokens_US: Tensor
    masked: Masked | None


@dataclass
class SampleBlock(Movable):
    """Samples of similar richness, padded to the richest of them.

    Attributes
    ----------
    asv_BA
        Position of each ASV among the batch's distinct ASVs; 0 where there is none.
    present_BA
        True where there is an ASV.
    counts_BA
        Reads of each ASV; 0 where there is none.
    count_mask_BA
        True where the encoder is not shown the reads, or None: it is shown all.
    """

    asv_BA: Tensor
    present_BA: Tensor
    counts_BA: Tensor
    count_mask_BA: Tensor | None = None


@dataclass
class Batch(Movable):
    """Samples and the distinct ASVs in them.

    Attributes
    ----------
    asvs
        One block per length; the distinct ASVs are numbered through all blocks.
    samples
        Blocks of samples.
    order_B
        For each sample of the batch, its position in the concatenated blocks.
    distances
        Per metric the true distances [B, B], in the order of the batch.
    values
        Per name what is known of each sample, [B, ...].
    embedded_UD
        Embeddings of the distinct ASVs, made before, in place of `asvs`; None: there are none.
    """

    asvs: list[AsvBlock]
    samples: list[SampleBlock]
    order_B: Tensor
    distances: dict[str, Tensor]
    values: dict[str, Tensor]
    embedded_UD: Tensor | None = None

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.order_B)


def _moved(value: object, device: torch.device) -> object:
    if isinstance(value, Tensor | Movable):
        return (
            value.to(device, non_blocking=True) if isinstance(value, Tensor) else value.to(device)
        )
    return _each(value, lambda item: _moved(item, device))


def _pinned(value: object) -> object:
    if isinstance(value, Tensor | Movable):
        return value.pin_memory()
    return _each(value, _pinned)


def _each(value: object, change) -> object:  # type: ignore[no-untyped-def]
    if isinstance(value, list):
        return [change(item) for item in value]
    if isinstance(value, dict):
        return {key: change(item) for key, item in value.items()}
    return value
