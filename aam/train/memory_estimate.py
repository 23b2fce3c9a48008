"""What a training step needs in memory, from the real counts of ASVs, and what there is."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aam.model.encoder import Recompute
from aam.train.activations import FULL, Work, asv_block, head_bytes, sample_block
from aam.train.data.collate import SAMPLES_PER_BLOCK, bucket
from aam.train.data.dataset import AsvDataset, BatchDataset, EmbeddingDataset
from aam.train.micro_batches import cuts
from aam.train.monitoring.memory import MB

FEWEST_ASVS = 16
"""ASVs below which a piece is not cut: it would save nothing that counts."""
MOMENTS = 2
"""Numbers that AdamW keeps per weight; other optimizers here keep no more."""
BATCHES = 64
"""Batches of the first epoch that an estimate looks at."""


@dataclass(frozen=True)
class BatchShape:
    """Counts of a batch.

    Attributes
    ----------
    asvs
        Per block of ASVs: length in nucleotides, distinct ASVs with the unused rows, masked
        nucleotides.
    richness
        Per block of samples the number of ASVs in each, ascending.
    samples
        Number of samples.
    """

    asvs: tuple[tuple[int, int, int], ...]
    richness: tuple[tuple[int, ...], ...]
    samples: int


@dataclass(frozen=True)
class Estimate:
    """Memory of a training step, in MB of 2^20 bytes.

    Attributes
    ----------
    weights_mb
        The weights; their gradients take as much again where they are trained.
    optimizer_mb
        The optimizer's moments.
    activations_mb
        What autograd keeps from the forward pass on.
    largest_piece_mb
        What comes on top of them while the backward pass works on the most expensive block: what
        it needs for a moment, and the block's own activations where they are computed again.
    peak_mb
        All of it at once, gradients included.
    """

    weights_mb: float
    optimizer_mb: float
    activations_mb: float
    largest_piece_mb: float
    peak_mb: float


def batch_shape(dataset: BatchDataset, step: int) -> BatchShape:
    """Return the counts of the batch of one step, without building it.

    The number of masked nucleotides is the expected one.
    """
    rows_B, _ = dataset.rows(step)
    if isinstance(dataset, EmbeddingDataset):
        return BatchShape((), (), len(rows_B))
    starts_B, stops_B = dataset.store.offsets[rows_B], dataset.store.offsets[rows_B + 1]
    ascending = np.sort(stops_B - starts_B).tolist()
    firsts = range(0, len(ascending), SAMPLES_PER_BLOCK)
    return BatchShape(
        asvs=() if isinstance(dataset, AsvDataset) else _asv_counts(dataset, starts_B, stops_B),
        richness=tuple(tuple(ascending[first : first + SAMPLES_PER_BLOCK]) for first in firsts),
        samples=len(rows_B),
    )


def _asv_counts(
    dataset: BatchDataset, starts_B: NDArray[np.int64], stops_B: NDArray[np.int64]
) -> tuple[tuple[int, int, int], ...]:
    held = [dataset.store.asvs[start:stop] for start, stop in zip(starts_B, stops_B, strict=True)]
    lengths, numbers = np.unique(
        dataset.tokens.lengths[np.unique(np.concatenate(held))], return_counts=True
    )
    share = 0.0 if dataset.masker is None else dataset.masker.fraction
    return tuple(
        (length, bucket(number), round(share * length * number))
        for length, number in zip(lengths.tolist(), numbers.tolist(), strict=True)
    )


def first_epoch(dataset: BatchDataset) -> dict[int, BatchShape]:
    """Return the counts of at most `BATCHES` evenly spread steps of the first epoch, by step."""
    steps = np.linspace(0, dataset.steps_per_epoch - 1, min(BATCHES, dataset.steps_per_epoch))
    return {step: batch_shape(dataset, step) for step in steps.round().astype(int).tolist()}


def estimate(
    work: Work,
    batch: BatchShape,
    *,
    recompute: Recompute = "nothing",
    asvs: int | None = None,
    samples: int | None = None,
) -> Estimate:
    """Estimate the memory of a training step.

    Parameters
    ----------
    work, batch
        Of what model and of what batch.
    recompute
        What the backward pass computes again:

        - ``nothing``: all activations are kept
        - ``layers``: the input of every layer is kept
        - ``pieces``: what the blocks return is kept
    asvs, samples
        Largest number of ASVs and of samples in a block; None: as they are.
    """
    blocks = [
        asv_block(work, last - first, length, round(masked * (last - first) / number))
        for length, number, masked in batch.asvs
        for first, last in cuts(number, asvs)
    ]
    blocks += [
        sample_block(work, last - first, bucket(max(richness[first:last])))
        for richness in batch.richness
        for first, last in cuts(len(richness), samples)
    ]
    if recompute == "nothing":
        kept = [block.kept for block in blocks]
        added = [block.transient for block in blocks]
    elif recompute == "layers":
        kept = [block.outside + block.layers * block.layer_input for block in blocks]
        added = [work.cast + block.layer + block.transient for block in blocks]
    else:
        kept = [block.returned for block in blocks]
        added = [block.layers * work.cast + block.at_work for block in blocks]
    # The backward pass begins with the last block, and lets go of one after the other.
    alive = np.cumsum([0, *kept])[1:] + np.array(added, np.int64)
    piece = max(0, int(alive.max(initial=0)) - sum(kept))
    activations = sum(kept) + head_bytes(work, batch.samples, sum(m for *_, m in batch.asvs))
    if recompute == "nothing" and blocks:
        activations += (work.shape.asv_layers + work.shape.sample_layers) * work.cast
    weights, gradients = work.weights * FULL, work.trainable * FULL
    optimizer = work.trainable * FULL * MOMENTS
    return Estimate(
        weights_mb=weights / MB,
        optimizer_mb=optimizer / MB,
        activations_mb=activations / MB,
        largest_piece_mb=piece / MB,
        peak_mb=(weights + gradients + optimizer + activations + piece) / MB,
    )


def largest_block(work: Work, batch: BatchShape) -> int:
    """Return the bytes of the most expensive block while it is worked on."""
    asvs = [asv_block(work, number, length, m).at_work for length, number, m in batch.asvs]
    samples = [sample_block(work, len(r), bucket(max(r))).at_work for r in batch.richness]
    return max(asvs + samples, default=0)


def piece_limits(work: Work, batch: BatchShape, size: float) -> tuple[int | None, int | None]:
    """Return the largest numbers of ASVs and of samples whose pieces take at most `size` bytes."""
    asvs = samples = None
    for length, number, masked in batch.asvs:
        most = int(size / (asv_block(work, number, length, masked).at_work / number))
        if most < number:
            asvs = max(FEWEST_ASVS, min(most, asvs or most))
    for richness in batch.richness:
        most = len(richness)
        while most > 1 and _largest_cut(work, richness, most) > size:
            most -= 1
        if most < len(richness):
            samples = min(most, samples or most)
    return asvs, samples


def _largest_cut(work: Work, richness: tuple[int, ...], limit: int) -> int:
    return max(
        sample_block(work, last - first, bucket(max(richness[first:last]))).at_work
        for first, last in cuts(len(richness), limit)
    )
