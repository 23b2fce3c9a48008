"""Floating-point operations of a training step, counted from the shapes of its batch."""

from functools import cache

import torch

from aam.config.metrics import FAITH_PD
from aam.model.asv_encoders import Architecture
from aam.model.batch import Batch
from aam.model.encoder import Encoder
from aam.model.layers.blocks import LayerStack

WITH_BACKWARD = 3
"""A product's own cost and two of the same size backward: for its input and for its weights."""
WITHOUT_INPUT_GRADIENT = 2
"""Cost of a product whose input is data, so that one product is left out backward."""


def step_flops(shape: Architecture, batch: Batch) -> int:
    """Count the floating-point operations of a training step. Only shapes are read.

    Stem, attention, feed-forward and recurrent layers, pooling and the heads of pretraining count,
    padding of samples included because it is computed. Sums, norms, activations, the optimizer and
    what is computed twice to save memory do not count.

    Parameters
    ----------
    shape
        Shape of the encoder.
    batch
        Batch of the step.

    Returns
    -------
    int
        Additions and multiplications of all matrix products, forward and backward.
    """
    encoder = _without_weights(shape)
    width = shape.width
    samples = batch.size
    heads = len(batch.distances) * _product(samples, width, width + samples)
    if FAITH_PD in batch.values:
        heads += _product(samples, width, width + 1)
    total = 0
    for asv_block in batch.asvs:
        asvs, positions = asv_block.tokens_US.shape
        patches = -(-positions // shape.patch_bp)
        total += _part_flops(encoder.asv, encoder.asv.stem, asvs, patches)
        if asv_block.masked is not None:
            heads += _product(len(asv_block.masked.asv_M), width, 4 * shape.patch_bp)
    for sample_block in batch.samples:
        block_samples, block_width = sample_block.present_BA.shape
        total += _part_flops(encoder.sample, encoder.sample.abundance, block_samples, block_width)
    return total + WITH_BACKWARD * heads


def _part_flops(part: LayerStack, first: torch.nn.Linear, sequences: int, length: int) -> int:
    """Return the cost of the layer that takes the data, of the blocks and of the pooling."""
    entering = _product(sequences * length, first.in_features, first.out_features)
    pooling = 2 * _product(sequences * length, first.out_features, 1)
    rest = part.flops(sequences, length) + pooling
    return WITHOUT_INPUT_GRADIENT * entering + WITH_BACKWARD * rest


def _product(rows: int, inner: int, columns: int) -> int:
    return 2 * rows * inner * columns


@cache
def _without_weights(shape: Architecture) -> Encoder:
    with torch.device("meta"):
        return Encoder(shape)
