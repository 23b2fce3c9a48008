"""Floating-point operations of a training step, counted from the shapes of its batch."""

from functools import cache

import torch

from aam.model.asv_encoders import Architecture, AsvEncoder
from aam.model.batch import Batch
from aam.model.encoder import Encoder, SampleEncoder
from aam.train.data.distances import FAITH_PD

WITH_BACKWARD = 3
"""A product's own cost and two of the same size backward: for its input and for its weights."""
WITHOUT_INPUT_GRADIENT = 2
"""Cost of a product whose input is data, so that one product is left out backward."""


def step_flops(shape: Architecture, batch: Batch) -> int:
    """Return the additions and multiplications of all matrix products, forward and backward.

    Counted are stem, attention, feed-forward and recurrent layers, poolings and heads of
    pretraining, padding of samples included because it is computed. Not counted are sums, norms,
    activations, the optimizer and whatever is computed a second time to save memory. Only shapes
    are read, so that no device has to wait.
    """
    encoder, width, samples = _without_weights(shape), shape.width, batch.size
    total = 0
    for asv_block in batch.asvs:
        asvs, positions = asv_block.tokens_US.shape
        patches = -(-positions // shape.patch_bp)
        total += _part_flops(encoder.asv, encoder.asv.stem, asvs, patches, encoder.asv.passes)
        if asv_block.masked is not None:
            masked = len(asv_block.masked.asv_M)
            total += WITH_BACKWARD * _product(masked, width, 4 * shape.patch_bp)
    for sample_block in batch.samples:
        total += _part_flops(
            encoder.sample, encoder.sample.abundance, *sample_block.present_BA.shape
        )
    pairs = _product(samples, width, width) + _product(samples, width, samples)
    total += WITH_BACKWARD * len(batch.distances) * pairs
    if FAITH_PD in batch.values:
        total += WITH_BACKWARD * _product(samples, width, width + 1)
    return total


def _part_flops(
    part: AsvEncoder | SampleEncoder,
    first: torch.nn.Linear,
    sequences: int,
    length: int,
    passes: int = 1,
) -> int:
    """Return the cost of the layer that takes the data, of the blocks and of the pooling."""
    rows = sequences * length
    blocks = passes * sum(block.flops(sequences, length) for block in part.blocks)  # type: ignore[operator]
    entering = _product(rows, first.in_features, first.out_features)
    pooling = 2 * _product(rows, first.out_features, 1)
    return WITHOUT_INPUT_GRADIENT * entering + WITH_BACKWARD * (blocks + pooling)


def _product(rows: int, inner: int, columns: int) -> int:
    return 2 * rows * inner * columns


@cache
def _without_weights(shape: Architecture) -> Encoder:
    with torch.device("meta"):
        return Encoder(shape)
