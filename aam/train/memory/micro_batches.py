"""A batch in smaller blocks, so that the activations of one block are alive at a time.

Shape suffixes: U distinct ASVs, S positions, B samples, A ASVs in a sample, M masked nucleotides.
"""

import operator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Any

import torch

from aam.batches.collate import bucket
from aam.model.batch import AsvBlock, Batch, Masked, SampleBlock, map_tensors
from aam.model.encoder import Recompute

FEWEST_ASVS = 16
"""ASVs below which a block is not split: it would save nothing that counts."""


@dataclass(frozen=True)
class MicroBatches:
    """How the batches of a run are split; the samples whose pairs enter the loss stay the same."""

    asvs: int | None = None
    """Largest number of ASVs in a block; None: as the batch has them."""
    samples: int | None = None
    """Largest number of samples in a block; None: as the batch has them."""
    recompute: Recompute = "nothing"
    """What the backward pass computes again."""
    estimated_mb: float | None = None
    """Estimated peak memory of a step of the heaviest batch; of several processes the largest."""
    measured_mb: float | None = None
    """The same peak, measured."""
    seconds_per_step: float | None = None
    limit_gb: float | None = None
    """The limit that they were chosen for; None: what was free."""
    processes: int = 1
    """Number of processes that they were chosen for."""

    def split(self, batch: Batch) -> Batch:
        """Return a batch, or a shard of one, in blocks of limited numbers of ASVs and samples.

        The blocks are of nearly equal size and in the same order, so that every embedding, every
        pair and every loss is that of the whole batch. Dropout is the exception, because its masks
        are drawn block by block. The blocks share the memory of the old ones.

        Parameters
        ----------
        batch
            A batch, best on the host: the bounds of the blocks are read from its tensors.

        Returns
        -------
        Batch
            The batch itself where no block is too large.
        """
        asvs = [part for block in batch.asvs for part in _split_asvs(block, self.asvs)]
        samples = [part for block in batch.samples for part in _split_samples(block, self.samples)]
        if len(asvs) == len(batch.asvs) and len(samples) == len(batch.samples):
            return batch
        return replace(batch, asvs=asvs, samples=samples)

    def apply(self, model: Any) -> None:
        """Let the encoder of a model compute again what `recompute` says."""
        model.encoder.recompute(self.recompute)

    def halve(self, batch: Batch) -> "MicroBatches | None":
        """Return micro-batches of half the size.

        Parameters
        ----------
        batch
            The batch that they split.

        Returns
        -------
        MicroBatches or None
            None: they are as small as can be.
        """

        def half(limit: int | None, sizes: list[int], fewest: int) -> int | None:
            """Return half of the largest block that there is, or the limit if that is small."""
            largest = max(sizes, default=0)
            if limit is not None:
                largest = min(largest, limit)
            if largest <= fewest:
                return limit
            return max(fewest, ceil(largest / 2))

        asvs = half(self.asvs, [len(block.tokens_US) for block in batch.asvs], FEWEST_ASVS)
        samples = half(self.samples, [len(block.asv_BA) for block in batch.samples], 1)
        smaller = replace(self, asvs=asvs, samples=samples, recompute="micro-batches")
        return None if smaller == self else smaller

    def __str__(self) -> str:
        if self.recompute != "micro-batches":
            again = ", its layers computed again" if self.recompute == "layers" else ""
            return f"one micro-batch{again}"
        asvs = "all ASVs of a length" if self.asvs is None else f"at most {self.asvs} ASVs"
        most = f"at most {self.samples} samples"
        samples = "all samples of a block" if self.samples is None else most
        return f"micro-batches of {asvs} and of {samples}, each computed again"


def _bounds(number: int, limit: int | None) -> list[int]:
    """Return where parts of at most `limit` rows begin, and where the last one ends."""
    parts = 1 if limit is None else max(1, -(-number // limit))
    size, larger = divmod(number, parts)
    # The first `larger` parts have one row more than the others.
    return [part * size + min(part, larger) for part in range(parts + 1)]


def _split_asvs(block: AsvBlock, limit: int | None) -> list[AsvBlock]:
    bounds = _bounds(len(block.tokens_US), limit)
    if len(bounds) == 2:
        return [block]
    if block.masked is None:
        return [AsvBlock(block.tokens_US[first:last], None) for first, last in pairwise(bounds)]
    asv_M = block.masked.asv_M
    position_M = block.masked.position_M
    base_M = block.masked.base_M
    # The masked nucleotides are sorted by ASV: those of a part are a slice.
    rows = torch.tensor(bounds, device=asv_M.device)
    masked_bounds = torch.searchsorted(asv_M.contiguous(), rows).tolist()
    parts = []
    slices = zip(pairwise(bounds), pairwise(masked_bounds), strict=True)
    for (first, last), (start, stop) in slices:
        masked = Masked(asv_M[start:stop] - first, position_M[start:stop], base_M[start:stop])
        parts.append(AsvBlock(block.tokens_US[first:last], masked))
    return parts


def _split_samples(block: SampleBlock, limit: int | None) -> list[SampleBlock]:
    """Split a block of samples; each part is as wide as its richest sample needs."""
    bounds = _bounds(len(block.asv_BA), limit)
    if len(bounds) == 2:
        return [block]
    column_A = torch.arange(1, block.present_BA.shape[1] + 1, device=block.present_BA.device)
    richness_B = (block.present_BA * column_A).amax(dim=1).tolist()
    parts = []
    for first, last in pairwise(bounds):
        width = bucket(max(1, *richness_B[first:last]))
        # All tensors of a block are [B, A].
        rows_and_columns = (slice(first, last), slice(0, width))
        parts.append(map_tensors(block, operator.itemgetter(rows_and_columns)))
    return parts
