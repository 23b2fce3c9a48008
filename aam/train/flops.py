"""Floating-point operations of a training step, counted from the shapes of its batch.

Shape suffixes: U ASVs of a block, S positions, T patches, B samples of a block, A ASVs in a sample,
M masked nucleotides, D width.
"""

from aam.model.batch import Batch
from aam.model.encoder import VOCABULARY_SIZE, Architecture
from aam.nn.bdh import compares_positions
from aam.train.data.distances import FAITH_PD

WITH_BACKWARD = 3
"""A product's own cost and two of the same size backward: for its input and for its weights."""
WITHOUT_INPUT_GRADIENT = 2
"""Cost of a product whose input is data, so that one product is left out backward."""


def step_flops(shape: Architecture, batch: Batch) -> int:
    """Return the operations of all matrix products in one step, forward and backward.

    Counted are stem, attention, feed-forward and recurrent layers, poolings and heads of
    pretraining, padding of samples included because it is computed. Not counted are sums, norms,
    activations, the optimizer and whatever is computed a second time to save memory.

    Parameters
    ----------
    shape
        The architecture.
    batch
        A batch as the model gets it; only shapes are read, so that no device has to wait.

    Returns
    -------
    int
        Additions and multiplications, two per element of a product's inner dimension.
    """
    encoder = sum(_asv_flops(shape, *block.tokens_US.shape) for block in batch.asvs)
    encoder += sum(_sample_flops(shape, *block.present_BA.shape) for block in batch.samples)
    masked = sum(len(block.masked.asv_M) for block in batch.asvs if block.masked is not None)
    return encoder + _head_flops(shape, batch, masked)


def _asv_flops(shape: Architecture, asvs: int, positions: int) -> int:
    patches = -(-positions // shape.patch_bp)
    stem = _product(asvs * patches, shape.patch_bp * VOCABULARY_SIZE, shape.width)
    kinds = {"bilstm": _lstm_flops, "bdh": _bdh_flops}
    layers = shape.asv_layers * kinds.get(shape.encoder, _layer_flops)(shape, asvs, patches)
    rest = layers + _pooling_flops(shape, asvs, patches)
    return WITHOUT_INPUT_GRADIENT * stem + WITH_BACKWARD * rest


def _sample_flops(shape: Architecture, samples: int, asvs: int) -> int:
    abundance = _product(samples * asvs, 2, shape.width)
    layers = shape.sample_layers * _layer_flops(shape, samples, asvs)
    rest = layers + _pooling_flops(shape, samples, asvs)
    return WITHOUT_INPUT_GRADIENT * abundance + WITH_BACKWARD * rest


def _layer_flops(shape: Architecture, sequences: int, length: int) -> int:
    """Return the cost of one transformer block on [sequences, length, D]."""
    width, hidden = shape.width, int(shape.width * shape.ffn_ratio)
    rows = sequences * length
    linear = _product(rows, width, 3 * width) + _product(rows, width, width)
    feed_forward = _product(rows, width, hidden) + _product(rows, hidden, width)
    # The heads share the width, so that scores and mixing cost the same whatever their number.
    attention = 2 * sequences * _product(length, width, length)
    return linear + feed_forward + attention


def _lstm_flops(shape: Architecture, sequences: int, length: int) -> int:
    """Return the cost of LSTM cells in both directions, each with half of the width."""
    width, half, rows = shape.width, shape.width // 2, sequences * length
    gates = 4 * half
    return 2 * (_product(rows, width, gates) + _product(rows, half, gates))


def _bdh_flops(shape: Architecture, sequences: int, length: int) -> int:
    """Return the cost of one iteration of BDH."""
    width, neurons = shape.width, shape.neurons
    own, rows = neurons // shape.heads, sequences * length
    # Into the neurons, the question to them, and out of them.
    linear = 3 * _product(rows, width, neurons)
    if compares_positions(length, own, width, shape.bdh_attention):
        attention = _product(rows, own, length) + _product(rows, length, width)
    else:
        attention = 2 * _product(rows, own, width)
    return linear + shape.heads * attention


def _pooling_flops(shape: Architecture, sequences: int, length: int) -> int:
    return 2 * _product(sequences * length, shape.width, 1)


def _head_flops(shape: Architecture, batch: Batch, masked: int) -> int:
    width, samples = shape.width, batch.size
    pairs = _product(samples, width, width) + _product(samples, width, samples)
    total = len(batch.distances) * pairs + _product(masked, width, 4 * shape.patch_bp)
    if FAITH_PD in batch.values:
        total += _product(samples, width, width) + _product(samples, width, 1)
    return WITH_BACKWARD * total


def _product(rows: int, inner: int, columns: int) -> int:
    return 2 * rows * inner * columns
