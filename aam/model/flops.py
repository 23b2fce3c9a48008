"""Floating-point operations of a training step, counted from the shapes of its batch."""

from aam.config.metrics import FAITH_PD
from aam.data.sequences import VOCABULARY_SIZE
from aam.model.asv_encoders import Architecture
from aam.model.batch import Batch
from aam.util.flops import WITH_BACKWARD, layer_flops

WITHOUT_INPUT_GRADIENT = 2
"""Cost of a product whose input is data, so that one product is left out backward."""


ABUNDANCES = 2
"""Numbers of an ASV in a sample that enter the layers over ASVs."""


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
    width = shape.width
    samples = batch.size
    heads = len(batch.distances) * _product(samples, width, width + samples)
    if FAITH_PD in batch.values:
        heads += _product(samples, width, width + 1)
    total = 0
    for asv_block in batch.asvs:
        asvs, positions = asv_block.tokens_US.shape
        patches = -(-positions // shape.patch_bp)
        nucleotides = shape.patch_bp * VOCABULARY_SIZE
        total += _part_flops(shape, shape.encoder, shape.asv_layers, nucleotides, asvs, patches)
        if asv_block.masked is not None:
            heads += _product(len(asv_block.masked.asv_M), width, 4 * shape.patch_bp)
    for sample_block in batch.samples:
        block_samples, block_width = sample_block.present_BA.shape
        total += _part_flops(
            shape, "transformer", shape.sample_layers, ABUNDANCES, block_samples, block_width
        )
    return total + WITH_BACKWARD * heads


def _part_flops(
    shape: Architecture, kind: str, layers: int, inputs: int, sequences: int, length: int
) -> int:
    """Return the cost of the layer that takes `inputs` data, of the blocks and of the pooling."""
    entering = _product(sequences * length, inputs, shape.width)
    pooling = 2 * _product(sequences * length, shape.width, 1)
    layer = layer_flops(
        kind,
        width=shape.width,
        heads=shape.heads,
        ffn_ratio=shape.ffn_ratio,
        sequences=sequences,
        length=length,
    )
    return WITHOUT_INPUT_GRADIENT * entering + WITH_BACKWARD * (layers * layer + pooling)


def _product(rows: int, inner: int, columns: int) -> int:
    return 2 * rows * inner * columns
