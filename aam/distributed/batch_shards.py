"""One batch shared by several processes: each encodes a shard, and all see all pairs of samples.

Every process evaluates the whole loss on embeddings that were gathered with gradients. Backward,
what one process needs of another's embeddings is summed over all processes, so that the gradients
that each ends with belong to the sum of W equal losses; their mean over the processes, which DDP
and FSDP take, is then the gradient of the loss.

Shape suffixes: W processes, U ASVs, S positions, B samples, A of one, M masked, R rows, D width.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from aam.distributed.devices import Devices
from aam.model.batch import AsvBlock, Batch, Masked, SampleBlock, map_tensors
from aam.model.encoder import Encoded, Encoder
from aam.util.seeds import seed_of


@dataclass(kw_only=True)
class BatchShard(Batch):
    """What one process encodes of a batch, and where it finds what the others do.

    The distances and the values are those of the whole batch. All shards of a batch have blocks of
    the same shapes; where there is nothing left to encode a row is repeated and never used.
    """

    asv_U: Tensor
    """Position of each distinct ASV of the batch among the gathered ones of all processes."""
    sample_B: Tensor
    """Position of each sample, in the order of the batch, among the gathered ones."""
    masked_nucleotides: int
    """Number of masked nucleotides of the whole batch."""

    @property
    def size(self) -> int:
        """Number of samples of the whole batch."""
        return len(self.sample_B)


def local_shard(batch: Batch, devices: Devices) -> Batch:
    """Return the part of a batch that this process encodes.

    Parameters
    ----------
    batch
        The whole batch.
    devices
        The processes.

    Returns
    -------
    Batch
        The batch itself in a single process, otherwise a `BatchShard`.
    """
    if devices.processes == 1:
        return batch
    return cut_shard(batch, devices.rank, devices.processes)


def cut_shard(batch: Batch, rank: int, processes: int) -> BatchShard:
    """Return the part of a batch that one of several processes encodes.

    It takes every W-th row of each block of ASVs, and every W-th sample, in blocks as large as
    before.

    Parameters
    ----------
    batch
        The whole batch, on the host.
    rank
        Number of the process, from 0.
    processes
        Number of processes, W.

    Returns
    -------
    BatchShard
        On the host, with the distances and values of the whole batch.
    """
    groups = []
    for first in range(0, len(batch.samples), processes):
        groups.append(join_blocks(batch.samples[first : first + processes]))
    samples = [_sample_shard(group, rank, processes) for group in groups]
    asv_U = _gathered_positions([len(block.tokens_US) for block in batch.asvs], processes)
    sample_B = _gathered_positions([len(group.asv_BA) for group in groups], processes)
    return BatchShard(
        asvs=[_asv_shard(block, rank, processes) for block in batch.asvs],
        samples=samples,
        order_B=torch.arange(sum(len(block.asv_BA) for block in samples)),
        distances=batch.distances,
        values=batch.values,
        asv_U=asv_U,
        sample_B=sample_B[batch.order_B],
        masked_nucleotides=sum(len(block.masked.asv_M) for block in batch.asvs if block.masked),
    )


def _rows(number: int, rank: int, processes: int) -> Tensor:
    """Return every W-th of some rows; the first one where there is none left."""
    row = torch.arange(rank, -(-number // processes) * processes, processes)
    return torch.where(row < number, row, 0)


def _gathered_positions(numbers: Sequence[int], processes: int) -> Tensor:
    """Return where each row of some blocks lies among the gathered shards of all processes.

    Each process holds the same number of rows of a block, and its shards of all blocks follow each
    other.
    """
    shard_sizes = [-(-number // processes) for number in numbers]
    rows_per_process = sum(shard_sizes)
    parts = []
    before = 0
    for number, shard_size in zip(numbers, shard_sizes, strict=True):
        row = torch.arange(number)
        process = row % processes
        parts.append(process * rows_per_process + before + row // processes)
        before += shard_size
    return torch.cat(parts)


def _asv_shard(block: AsvBlock, rank: int, processes: int) -> AsvBlock:
    tokens_US = block.tokens_US[_rows(len(block.tokens_US), rank, processes)]
    if block.masked is None:
        return AsvBlock(tokens_US, None)
    is_here_M = block.masked.asv_M % processes == rank
    masked = Masked(
        asv_M=block.masked.asv_M[is_here_M] // processes,
        position_M=block.masked.position_M[is_here_M],
        base_M=block.masked.base_M[is_here_M],
    )
    return AsvBlock(tokens_US, masked)


def _sample_shard(block: SampleBlock, rank: int, processes: int) -> SampleBlock:
    rows = _rows(len(block.asv_BA), rank, processes)
    return map_tensors(block, operator.itemgetter(rows))


def join_blocks(blocks: list[SampleBlock], asvs: int | None = None) -> SampleBlock:
    """Return blocks of samples as one.

    Parameters
    ----------
    blocks
        Blocks of the same batch.
    asvs
        Width that the samples are padded to; None: that of the richest sample.

    Returns
    -------
    SampleBlock
        All samples, in the order of the blocks.
    """
    width = asvs or max(block.asv_BA.shape[1] for block in blocks)

    def padded(parts: list[Tensor]) -> Tensor:
        return torch.cat([pad(part, (0, width - part.shape[1])) for part in parts])

    return SampleBlock(
        asv_BA=padded([block.asv_BA for block in blocks]),
        present_BA=padded([block.present_BA for block in blocks]),
        counts_BA=padded([block.counts_BA for block in blocks]),
    )


class _Gathered(torch.autograd.Function):
    """The rows of all processes, one after the other; backward their summed gradients.

    The function of `torch.distributed.nn` has no backward pass on CPUs.
    """

    @staticmethod
    def forward(ctx: Any, shard_ND: Tensor) -> Tensor:
        all_ND = shard_ND.new_empty(dist.get_world_size() * len(shard_ND), *shard_ND.shape[1:])
        dist.all_gather_single(all_ND, shard_ND.contiguous())
        return all_ND

    @staticmethod
    def backward(ctx: Any, gradient_ND: Tensor) -> Tensor:
        number = len(gradient_ND) // dist.get_world_size()
        shard_gradient_ND = gradient_ND.new_empty(number, *gradient_ND.shape[1:])
        dist.reduce_scatter_single(shard_gradient_ND, gradient_ND.contiguous())
        return shard_gradient_ND


def encode_sharded(encoder: Encoder, shard: BatchShard) -> Encoded:
    """Encode a shard, and gather the embeddings of all samples of the batch.

    Each process draws dropout masks of its own, so that a run in W processes is repeatable, but not
    the same as one in another number of them.

    Parameters
    ----------
    encoder
        The encoder; all processes have the same weights.
    shard
        What this process encodes.

    Returns
    -------
    Encoded
        `sample_BD` of the whole batch, and `nucleotides` of this shard.
    """
    # Masks of dropout have to differ between processes, whose samples differ. The heads see all
    # samples and have to draw alike, so that the common seed is set again at the end.
    seed = torch.initial_seed()
    torch.manual_seed(seed_of("process", seed, dist.get_rank()))
    encoded = [
        encoder.run_block(encoder.asv, block.tokens_US, block.masked, encoder.backend)
        for block in shard.asvs
    ]
    local_UD = torch.cat([asv_UD for asv_UD, _ in encoded])
    asv_UD = _Gathered.apply(local_UD)[shard.asv_U]
    local_BD = encoder.encode_samples(asv_UD, shard)
    sample_BD = _Gathered.apply(local_BD)[shard.sample_B]
    # Every process computes what follows in the same way.
    torch.manual_seed(seed)
    nucleotides = [hidden_MD for _, hidden_MD in encoded if hidden_MD is not None]
    return Encoded(sample_BD, nucleotides)


class _AllSum(torch.autograd.Function):
    """The sum over all processes; backward the sum of their gradients. Torch's is deprecated."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _AllSum.apply(gradient)


def sum_over_processes(value: Tensor) -> Tensor:
    """Return the sum of a value over all processes, with gradients.

    Parameters
    ----------
    value
        Value of this process.

    Returns
    -------
    torch.Tensor
        The same in all processes.
    """
    return _AllSum.apply(value)
