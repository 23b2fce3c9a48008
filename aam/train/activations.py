"""Bytes that autograd keeps of every layer between the forward and the backward pass.

The formulas count tensor by tensor; tests hold them against what is really kept.

Shape suffixes: N rows of a block (ASVs times patches, or samples times ASVs), D width, F hidden
width of the feed-forward layers, H heads, S positions that attend to each other, E neurons of BDH
over all heads, M masked nucleotides, B samples.
"""

import math
from dataclasses import dataclass
from typing import Literal

from torch import nn

from aam.data.vocabulary import VOCABULARY_SIZE
from aam.model.asv_encoders import Architecture
from aam.model.encoder import Encoder
from aam.nn.attention import AttentionBackend
from aam.nn.bdh import compares_positions
from aam.train.distributed.devices import Devices

Kernel = Literal["plain", "math", "fused"]
"""Attention by products in the given arithmetic, by products in fp32, or by a single kernel."""
FULL = 4
"""Bytes of a number in fp32."""
ITEM = {"fp32": FULL, "tf32": FULL, "bf16": 2, "fp16": 2}
"""Bytes of a number per precision."""
LSTM_WORKSPACE = {FULL: (86, 65), 2: (64, 53)}
"""Bytes that oneDNN keeps of an LSTM per position and per sequence, for a state of width 1, by
bytes of a number: measured with widths from 16 to 128."""
CUDNN_NUMBERS = 6
"""Numbers that an accelerator is taken to keep of an LSTM instead: gates, cell and state."""


@dataclass(frozen=True)
class Work:
    """What decides how much a step needs, beside the batch.

    Attributes
    ----------
    shape
        The architecture.
    backend
        Attention back-end.
    precision
        ``fp32``, ``tf32``, ``bf16`` or ``fp16``.
    device
        Type of the device, ``cpu`` for instance.
    has_dropout
        True where dropout layers are at work.
    weights, trainable
        Numbers of weights, and of those that are trained.
    distances
        Heads for distances between samples.
    """

    shape: Architecture
    backend: AttentionBackend
    precision: str
    device: str
    has_dropout: bool
    weights: int
    trainable: int
    distances: int

    @classmethod
    def of(cls, model: nn.Module, devices: Devices) -> "Work":
        """Describe a step of a model that has an `encoder`."""
        encoder = model.encoder
        assert isinstance(encoder, Encoder)
        return cls(
            shape=encoder.shape,
            backend=encoder.backend,
            precision=devices.precision,
            device=devices.device.type,
            has_dropout=any(isinstance(m, nn.Dropout) and m.p > 0 for m in encoder.modules()),
            weights=sum(p.numel() for p in model.parameters()),
            trainable=sum(p.numel() for p in model.parameters() if p.requires_grad),
            distances=len(getattr(model, "distances", ())),
        )

    @property
    def item(self) -> int:
        """Bytes of a number that a linear layer sees."""
        return ITEM[self.precision]

    @property
    def hidden(self) -> int:
        """Hidden width of the feed-forward layers."""
        return int(self.shape.width * self.shape.ffn_ratio)

    @property
    def cast(self) -> int:
        """Bytes of one layer's weights in the lower precision; 0 where there is none."""
        weights = 2 * self.shape.width * (2 * self.shape.width + self.hidden)
        return weights * self.item if self.item < FULL else 0


@dataclass(frozen=True)
class Footprint:
    """Bytes of one block of ASVs or of samples.

    Attributes
    ----------
    layers
        Number of its layers.
    layer, layer_input
        What autograd keeps of one layer, and of that the layer's input.
    outside
        What autograd keeps before and behind the layers.
    returned
        What the block passes on.
    transient
        What the backward pass of a layer takes for a moment.
    """

    layers: int
    layer: int
    layer_input: int
    outside: int
    returned: int
    transient: int

    @property
    def kept(self) -> int:
        """What autograd keeps of the whole block."""
        return self.outside + self.layers * self.layer

    @property
    def at_work(self) -> int:
        """What the block takes while its backward pass is worked on."""
        return self.kept + self.transient


def asv_block(work: Work, number: int, length: int, masked: int) -> Footprint:
    """Return the bytes of `number` ASVs of `length` nucleotides, `masked` of them masked in all.

    Kept outside of the layers: the one-hot patches, before BDH the input of a norm, the positions
    that are pooled, the weights of the pooling, what its norm sees, and the places of the masked
    nucleotides.
    """
    positions = math.ceil(length / work.shape.patch_bp)
    rows = number * positions
    one_hot = rows * VOCABULARY_SIZE * work.shape.patch_bp * work.item
    entered = rows * (work.shape.width + 2) * FULL if work.shape.encoder == "bdh" else 0
    places = 2 * 8 * masked
    return Footprint(
        layers=work.shape.asv_layers,
        layer=_asv_layer_bytes(work, number, positions),
        layer_input=rows * work.shape.width * FULL,
        outside=one_hot + entered + _pooling_bytes(work, number, rows) + places,
        returned=number * work.shape.width * FULL + places,
        transient=_asv_transient_bytes(work, rows, positions),
    )


def sample_block(work: Work, samples: int, richness: int) -> Footprint:
    """Return the bytes of a block of samples that are padded to the same richness.

    Kept outside of the layers: the features of the abundances, the positions that are pooled, the
    weights of the pooling, where an ASV is absent, and what the pooling's norm sees.
    """
    rows = samples * richness
    return Footprint(
        layers=work.shape.sample_layers,
        layer=layer_bytes(work, rows, richness, has_rotary=False, has_absent=True),
        layer_input=rows * work.shape.width * FULL,
        outside=2 * rows * work.item + _pooling_bytes(work, samples, rows) + rows,
        returned=samples * work.shape.width * FULL,
        transient=_transient_bytes(work, rows, richness, has_absent=True),
    )


def layer_bytes(
    work: Work, rows: int, positions: int, *, has_rotary: bool, has_absent: bool
) -> int:
    """Return what autograd keeps of one transformer layer.

    - the inputs of both norms [N, D] in fp32, and two statistics of each row
    - what both norms return [N, D]: the input of the linear layers
    - attention by products: scaled queries, keys and values [N, D], and the probabilities
      [N, H, S]; PyTorch's reference keeps them in fp32 whatever the precision. A single kernel:
      queries, keys and values as one [N, 3 D], turned queries and keys beside it where there are
      such, and the normalizers [N, H] in fp32
    - the mixed values [N, D]: the input of the linear layer behind attention
    - the hidden layer before and behind the GELU [N, F]
    - what two dropouts let through [N, D]: numbers on a CPU, else bytes

    Parameters
    ----------
    work
        Of what model.
    rows, positions
        N and S.
    has_rotary, has_absent
        Whether queries and keys are turned, and whether some keys are absent.
    """
    width, heads = work.shape.width, work.shape.heads
    vector = rows * width * work.item
    norms = 2 * rows * (width * FULL + 2 * FULL) + 2 * vector
    kernel = attention_kernel(work, positions, has_absent=has_absent)
    if kernel == "fused":
        attention = (5 if has_rotary else 3) * vector + rows * heads * FULL
    else:
        number = work.item if kernel == "plain" else FULL
        attention = (3 * rows * width + rows * heads * positions) * number
    feed_forward = 2 * rows * work.hidden * work.item
    noise = 2 * rows * width * (work.item if work.device == "cpu" else 1)
    return norms + attention + vector + feed_forward + (noise if work.has_dropout else 0)


def lstm_bytes(work: Work, sequences: int, positions: int) -> int:
    """Return what autograd keeps of one LSTM layer of both directions.

    - the input of the norm [N, D] in fp32, and two statistics of each row
    - what the norm returns [N, D], in a lower precision once for each direction, and the states
      [N, D]
    - of each sequence the first and the last state and cell of both directions
    - the workspace of the kernel
    - what the dropout lets through [N, D]

    Parameters
    ----------
    work
        Of what model.
    sequences, positions
        Their product is N.
    """
    width, rows = work.shape.width, sequences * positions
    norm = rows * (width * FULL + 2 * FULL)
    states = rows * width * work.item * (2 if work.item == FULL else 3)
    ends = 4 * sequences * width * work.item
    if work.device == "cpu":
        per_position, per_sequence = LSTM_WORKSPACE[work.item]
        workspace = width * (rows * per_position + sequences * per_sequence)
    else:
        workspace = CUDNN_NUMBERS * rows * width * work.item
    noise = rows * width * (work.item if work.device == "cpu" else 1)
    return norm + states + ends + workspace + (noise if work.has_dropout else 0)


def bdh_bytes(work: Work, sequences: int, positions: int) -> int:
    """Return what autograd keeps of one iteration of BDH.

    - the input [N, D]
    - the neurons before and behind the rotation, the gates, and their product, each [N, E]
    - per head what is mixed and its norm [N, D] with two statistics of each row, and the scores
      [N, S] or, where sequences are long, the state of each sequence
    - the inputs of two norms [N, D] in fp32, with two statistics of each row
    - what the dropout lets through [N, E]

    Parameters
    ----------
    work
        Of what model.
    sequences, positions
        Their product is N.
    """
    shape, rows = work.shape, sequences * positions
    own, width = shape.neurons // shape.heads, shape.width
    scores = rows * positions
    if not compares_positions(positions, own, width, shape.bdh_attention):
        scores = sequences * own * width
    heads = shape.heads * (rows * (2 * width + 2) + scores)
    numbers = rows * (width + 4 * shape.neurons) + heads
    noise = rows * shape.neurons * (work.item if work.device == "cpu" else 1)
    norms = 2 * rows * (width * FULL + 2 * FULL)
    return numbers * work.item + norms + (noise if work.has_dropout else 0)


def attention_kernel(work: Work, positions: int, *, has_absent: bool) -> Kernel:
    """Return how attention is computed (see `aam.nn.attention`)."""
    if work.backend == "math":
        return "math"
    if work.device == "cpu" and work.backend == "auto":
        return "plain" if positions < 64 or work.precision == "bf16" else "fused"
    if work.device == "cpu":
        return "fused" if work.backend == "flash" else "math"
    if work.device == "cuda":
        # That kernel takes neither masks nor fp32.
        has_none = work.backend == "flash" and (has_absent or work.item == FULL)
        return "math" if has_none else "fused"
    return "math"


def head_bytes(work: Work, samples: int, masked: int) -> int:
    """Return what autograd keeps of the heads.

    - per distance four steps between the samples [B, B], and what the head and its norm see [B, D]
    - the masked nucleotides' positions [M, D] before and behind their norm, and the logits
    """
    width, patch = work.shape.width, work.shape.patch_bp
    distances = work.distances * (4 * samples**2 + 4 * samples * width) * FULL
    hidden = masked * (width * (FULL + work.item) + 2 * FULL)
    logits = masked * (4 * patch * work.item + 3 * 8 + 2 * 4 * FULL)
    return distances + hidden + logits


def _pooling_bytes(work: Work, sets: int, rows: int) -> int:
    width = work.shape.width
    weights = rows * (FULL + (work.item if work.item < FULL else 0))
    return rows * width * work.item + weights + sets * (width * FULL + 2 * FULL)


def _asv_layer_bytes(work: Work, sequences: int, positions: int) -> int:
    if work.shape.encoder == "bilstm":
        return lstm_bytes(work, sequences, positions)
    if work.shape.encoder == "bdh":
        return bdh_bytes(work, sequences, positions)
    return layer_bytes(work, sequences * positions, positions, has_rotary=True, has_absent=False)


def _asv_transient_bytes(work: Work, rows: int, positions: int) -> int:
    """Return what the backward pass of a layer takes for a moment.

    Of an LSTM that is the gradients of its states and of its gates, of BDH those of the neurons
    and of their product; of both the gradients of the residuals.
    """
    width = work.shape.width
    if work.shape.encoder == "bilstm":
        return rows * (5 * width * work.item + 2 * width * FULL)
    if work.shape.encoder == "bdh":
        return rows * (2 * work.shape.neurons * work.item + 2 * width * FULL)
    return _transient_bytes(work, rows, positions, has_absent=False)


def _transient_bytes(work: Work, rows: int, positions: int, *, has_absent: bool) -> int:
    """Return what the backward pass of a layer takes for a moment.

    That is in the feed-forward part, with the gradients of its hidden layer and of the residuals,
    or in attention by products, with two gradients as large as the probabilities, when the
    feed-forward part has been let go of.
    """
    width = work.shape.width
    feed_forward = rows * (work.hidden * work.item + 2 * width * FULL)
    kernel = attention_kernel(work, positions, has_absent=has_absent)
    if kernel == "fused":
        return feed_forward
    number = work.item if kernel == "plain" else FULL
    gradients = (2 * rows * work.shape.heads * positions + 2 * rows * width) * number
    return max(feed_forward, gradients - rows * (2 * work.hidden + 2 * width) * work.item)
