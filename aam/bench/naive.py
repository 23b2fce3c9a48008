"""The reference that every optimization is measured against, and tested against.

Every sample is padded to a fixed number of ASVs and every copy of an ASV is encoded, padding too.

Shape suffixes: U distinct ASVs, S positions, C copies of ASVs, B samples, A ASVs that a sample is
padded to, M masked nucleotides.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from aam.model.batch import AsvBlock, Batch, Masked, SampleBlock
from aam.train.data.dataset import BatchDataset
from aam.train.micro_batches import split
from aam.util.errors import problem

ASVS_PER_CHUNK = 256


@dataclass(frozen=True, eq=False)
class NaiveDataset(BatchDataset):
    """A dataset of batches that lack one of the savings, or both.

    Attributes
    ----------
    copies
        Whether every sample has copies of its ASVs of its own, in blocks of `ASVS_PER_CHUNK`.
    asvs_per_sample
        Number A of ASVs that every sample is padded to; None: as the optimized batch pads it.
    """

    copies: bool = True
    asvs_per_sample: int | None = 1024

    def assemble(self, rows_B: NDArray[np.int64], step: int) -> Batch:
        """Return the batch of some rows."""
        batch = super().assemble(rows_B, step)
        if self.asvs_per_sample is not None:
            batch = pad_samples(batch, self.asvs_per_sample)
        if not self.copies:
            return batch
        copied = each_copy(batch, padding=self.asvs_per_sample is not None)
        return split(copied, ASVS_PER_CHUNK, None)


def pad_samples(batch: Batch, asvs_per_sample: int) -> Batch:
    """Return the batch with its samples in one block, padded to `asvs_per_sample` ASVs each.

    Raises
    ------
    InputError
        When a sample has more ASVs.
    """
    richness = max(int(block.present_BA.sum(dim=1).max()) for block in batch.samples)
    if richness > asvs_per_sample:
        raise problem(
            "configuration key benchmark.naive_asvs",
            str(asvs_per_sample),
            f"at least {richness}, the ASVs of the richest sample in the batch",
            "raise it: the naive mode pads every sample to it",
        )

    def widened(parts: Iterator[Tensor]) -> Tensor:
        return torch.cat([pad(part, (0, asvs_per_sample - part.shape[1])) for part in parts])

    block = SampleBlock(
        asv_BA=widened(block.asv_BA for block in batch.samples),
        present_BA=widened(block.present_BA for block in batch.samples),
        counts_BA=widened(block.counts_BA for block in batch.samples),
    )
    return replace(batch, samples=[block])


def each_copy(batch: Batch, *, padding: bool) -> Batch:
    """Return the batch with a sequence of its own for every ASV of every sample.

    Shorter sequences are padded to the longest, and the padding takes part as it is; only where
    all have one length are the embeddings those of the optimized batch.

    Parameters
    ----------
    batch
        A batch of distinct ASVs, on the host.
    padding
        Whether the places behind a sample's last ASV get sequences too, of padding alone.
    """
    distinct = sum(len(block.tokens_US) for block in batch.asvs)
    samples, copies, done = [], [], 0
    for block in batch.samples:
        # Behind the distinct ASVs stands one of padding alone.
        source_BA = torch.where(block.present_BA, block.asv_BA, distinct)
        copied_BA = torch.ones_like(block.present_BA) if padding else block.present_BA
        number = int(copied_BA.sum())
        asv_BA = torch.zeros_like(block.asv_BA)
        asv_BA[copied_BA] = torch.arange(done, done + number)
        samples.append(replace(block, asv_BA=asv_BA))
        copies.append(source_BA[copied_BA])
        done += number
    return replace(batch, asvs=[_copied(batch.asvs, torch.cat(copies))], samples=samples)


def _copied(blocks: list[AsvBlock], copies_C: Tensor) -> AsvBlock:
    """Return one block with a copy of the named ASVs; the number behind the last is padding."""
    longest = max(block.tokens_US.shape[1] for block in blocks)
    parts = [pad(block.tokens_US, (0, longest - block.tokens_US.shape[1])) for block in blocks]
    tokens_US = pad(torch.cat(parts), (0, 0, 0, 1))
    if any(block.masked is None for block in blocks):
        return AsvBlock(tokens_US[copies_C], None)
    asv_M, position_M, base_M = _all_masked(blocks)
    number_U = torch.bincount(asv_M, minlength=len(tokens_US))
    number_C = number_U[copies_C]
    ends_C = number_C.cumsum(0)
    firsts_C = (number_U.cumsum(0) - number_U)[copies_C]
    place_M = torch.arange(int(number_C.sum()))
    place_M += (firsts_C - ends_C + number_C).repeat_interleave(number_C)
    masked = Masked(
        asv_M=torch.arange(len(copies_C)).repeat_interleave(number_C),
        position_M=position_M[place_M],
        base_M=base_M[place_M],
    )
    return AsvBlock(tokens_US[copies_C], masked)


def _all_masked(blocks: list[AsvBlock]) -> tuple[Tensor, Tensor, Tensor]:
    """Return ASV, position and base of the masked nucleotides of all blocks, sorted by ASV."""
    asvs, positions, bases, first = [], [], [], 0
    for block in blocks:
        assert block.masked is not None
        asvs.append(block.masked.asv_M + first)
        positions.append(block.masked.position_M)
        bases.append(block.masked.base_M)
        first += len(block.tokens_US)
    return torch.cat(asvs), torch.cat(positions), torch.cat(bases)
