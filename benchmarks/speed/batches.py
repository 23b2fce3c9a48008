"""Batches without savings, which optimized ones are measured and tested against.

Shape suffixes: U distinct ASVs, S positions, C copies of ASVs, B samples, A ASVs of one, M masked.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from aam.batches.dataset import BatchDataset
from aam.data.sequences import PAD
from aam.distributed.batch_shards import join_blocks
from aam.model.batch import AsvBlock, Batch, Masked
from aam.train.memory.micro_batches import MicroBatches
from aam.util.errors import problem

ASVS_PER_CHUNK = 256


@dataclass(frozen=True, eq=False)
class NaiveDataset(BatchDataset):
    """A dataset of batches that lack some of the savings."""

    copies: bool = False
    """Whether every sample has its ASVs for itself."""
    chunks: bool = False
    """Whether sequences are cut into blocks of `ASVS_PER_CHUNK`."""
    encoded_padding: bool = False
    """Whether the places behind a sample's last ASV have sequences, too."""
    asvs_per_sample: int | None = None
    """ASVs that every sample is padded to; 0: those of the richest sample of the batch; None:
    samples are padded in groups."""

    def assemble(self, rows_B: NDArray[np.int64], step: int) -> Batch:
        """Return the batch of some rows.

        Parameters
        ----------
        rows_B
            Rows of the sample store.
        step
            Number of the step, which the masks depend on.

        Returns
        -------
        Batch
            With the same samples, and more sequences.
        """
        batch = super().assemble(rows_B, step)
        if self.asvs_per_sample is not None:
            batch = pad_samples(batch, self.asvs_per_sample)
        if self.copies or self.encoded_padding:
            batch = repeat_sequences(batch, copies=self.copies, padding=self.encoded_padding)
        return MicroBatches(asvs=ASVS_PER_CHUNK if self.chunks else None).split(batch)


def pad_samples(batch: Batch, asvs_per_sample: int) -> Batch:
    """Return the batch with its samples in one block, padded to as many ASVs.

    Parameters
    ----------
    batch
        Any batch.
    asvs_per_sample
        ASVs that every sample is padded to; 0: those of the richest one.

    Returns
    -------
    Batch
        With one block of samples.

    Raises
    ------
    InputError
        A sample has more ASVs.
    """
    richness = max(int(block.present_BA.sum(dim=1).max()) for block in batch.samples)
    asvs_per_sample = asvs_per_sample or richness
    if richness > asvs_per_sample:
        raise problem(
            "configuration key benchmark.naive_asvs",
            str(asvs_per_sample),
            f"at least {richness}, the ASVs of the richest sample in the batch",
            "raise it: the naive mode pads every sample to it",
        )
    return replace(batch, samples=[join_blocks(batch.samples, asvs_per_sample)])


def repeat_sequences(batch: Batch, *, copies: bool, padding: bool) -> Batch:
    """Return the batch with sequences that are encoded more often than they have to be.

    Shorter sequences are padded to the longest, and the padding takes part as it is; only where
    all have one length are the embeddings those of the optimized batch.

    Parameters
    ----------
    batch
        Any batch.
    copies
        Whether every ASV of every sample gets a sequence of its own.
    padding
        Whether the places behind a sample's last ASV get sequences too, of padding alone.

    Returns
    -------
    Batch
        With one block of sequences.
    """
    distinct = sum(len(block.tokens_US) for block in batch.asvs)
    first = 0 if copies else distinct
    samples = []
    sources = [torch.arange(first)]
    done = first
    for block in batch.samples:
        # Behind the distinct ASVs stands one of padding alone.
        source_BA = torch.where(block.present_BA, block.asv_BA, distinct)
        is_copied_BA = torch.where(block.present_BA, copies, padding)
        number = int(is_copied_BA.sum())
        asv_BA = torch.where(block.present_BA, block.asv_BA, 0)
        asv_BA[is_copied_BA] = torch.arange(done, done + number)
        samples.append(replace(block, asv_BA=asv_BA))
        sources.append(source_BA[is_copied_BA])
        done += number
    copies_C = torch.cat(sources)
    longest = max(block.tokens_US.shape[1] for block in batch.asvs)
    tokens_CS = _stacked([block.tokens_US for block in batch.asvs], longest, PAD)[copies_C]
    masked = None
    if all(block.masked is not None for block in batch.asvs):
        base_CS = _stacked([_bases(block) for block in batch.asvs], longest, -1)[copies_C]
        asv_M, position_M = (base_CS >= 0).nonzero(as_tuple=True)
        masked = Masked(asv_M, position_M, base_CS[asv_M, position_M].long())
    return replace(batch, asvs=[AsvBlock(tokens_CS, masked)], samples=samples)


def _bases(block: AsvBlock) -> Tensor:
    """Return the masked bases [U, S], -1 where nothing is masked."""
    assert block.masked is not None
    base_US = torch.full_like(block.tokens_US, -1, dtype=torch.int8)
    base_US[block.masked.asv_M, block.masked.position_M] = block.masked.base_M.to(torch.int8)
    return base_US


def _stacked(parts: list[Tensor], longest: int, value: int) -> Tensor:
    """Return all rows, as long as the longest, and behind them one of `value` alone."""
    widened = [pad(part, (0, longest - part.shape[1]), value=value) for part in parts]
    return pad(torch.cat(widened), (0, 0, 0, 1), value=value)
