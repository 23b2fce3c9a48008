"""What a model is given: the distinct ASVs of a batch and the samples that point to them.

Shape suffixes: U distinct ASVs, S positions in a sequence, B samples, A ASVs in a sample, M masked
nucleotides, E values of a target, D width, F metadata columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

EMBEDDING = "embedding"
"""Name among a batch's values: embeddings that were computed before [B, D]."""
TARGET = "target"
"""Name among a batch's values: what is to be predicted [B, E]."""
CATEGORIES = "categories"
"""Name among a batch's values: categories of metadata columns by their numbers [B, F], int64
(`aam.model.fusion.Vocabulary`)."""


@dataclass
class Movable:
    """A dataclass of nested tensors that moves between devices as one."""

    def to(self, device: torch.device) -> Self:
        """Return a copy on a device; from pinned memory the copy does not block.

        Parameters
        ----------
        device
            Device of all tensors of the copy.

        Returns
        -------
        Movable
            Of the same class.
        """
        # Without waiting: the copy of one batch overlaps with the step of the one before.
        return map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Return a copy in pinned memory."""
        return map_tensors(self, Tensor.pin_memory)


@dataclass
class Masked(Movable):
    """The masked nucleotides of a block of ASVs."""

    asv_M: Tensor
    """Row of the ASV in the block, ascending."""
    position_M: Tensor
    """Position in the sequence."""
    base_M: Tensor
    """The true base: 0 A, 1 C, 2 G, 3 T."""


@dataclass
class AsvBlock(Movable):
    """Distinct ASVs of one length, unpadded."""

    tokens_US: Tensor
    """Tokens in uint8, with masks where nucleotides are masked."""
    masked: Masked | None
    """The masked nucleotides; None: the batch masks none."""


@dataclass
class SampleBlock(Movable):
    """Samples of similar richness, padded to the richest of them."""

    asv_BA: Tensor
    """Position of each ASV among the batch's distinct ASVs; 0 where there is none."""
    present_BA: Tensor
    """Whether there is an ASV, and not padding."""
    counts_BA: Tensor
    """Reads of each ASV; 0 where there is none."""


@dataclass
class Batch(Movable):
    """Samples and the distinct ASVs in them.

    Tensors of counts and distances are fp32, numbers and positions int64, tokens uint8.
    """

    asvs: list[AsvBlock]
    """One block per length; the distinct ASVs are numbered through all blocks."""
    samples: list[SampleBlock]
    """Blocks of samples, in an order of their own."""
    order_B: Tensor
    """For each sample of the batch, its position in the concatenated blocks."""
    distances: dict[str, Tensor]
    """Per metric the true distances [B, B], in the order of the batch."""
    values: dict[str, Tensor]
    """Per name a value of each sample, [B, ...]."""
    embedded_UD: Tensor | None = None
    """Embeddings of the distinct ASVs, computed before, in place of `asvs`."""

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.order_B)


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a copy of nested values with every tensor changed.

    Parameters
    ----------
    value
        Tensors and `Movable` values, in lists and dictionaries; anything else stays as it is.
    change
        Called with every tensor.

    Returns
    -------
    Any
        Nested like `value`.
    """
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Movable):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **map_tensors(parts, change))
    if isinstance(value, list):
        return [map_tensors(item, change) for item in value]
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value
