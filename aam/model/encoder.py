"""The hierarchical encoder, nucleotides to ASV to sample, and its new weights.

Shape suffixes: U distinct ASVs, M masked nucleotides, B samples, A ASVs in a sample, D width,
H heads, L layers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.utils.checkpoint import checkpoint

from aam.model.asv_encoders import ENCODERS, Architecture
from aam.model.batch import Batch, SampleBlock
from aam.model.layers.attention import AttentionBackend, arithmetic, key_mask
from aam.model.layers.blocks import AttentionPooling, Block, Layer, LayerStack

Recompute = Literal["nothing", "layers", "micro-batches"]
"""What the backward pass computes a second time instead of keeping its activations: nothing, the
inside of every layer, or every block of ASVs and of samples as a whole."""


@dataclass
class Encoded:
    """What the encoder returns; the samples are in the order of the batch."""

    sample_BD: Tensor
    nucleotides: list[Tensor]
    """Per ASV block the patch [M, D] of each masked nucleotide; empty where nothing is masked."""


class SampleEncoder(LayerStack):
    """Transformer over the set of a sample's ASVs, pooled to one vector per sample.

    The vectors of a sample's ASVs, with their reads, go through `entry`. It does nothing by
    itself: `aam.inference.attribution` changes them there.

    Parameters
    ----------
    shape
        Shape of the encoder.
    """

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.abundance = nn.Linear(2, shape.width)
        self.entry = nn.Identity()
        self.blocks = nn.ModuleList(
            Block(shape.width, shape.heads, shape.ffn_ratio) for _ in range(shape.sample_layers)
        )
        self.pooling = AttentionPooling(shape.width)
        self.reads_in_attention = shape.reads_in_attention
        if shape.reads_in_attention:
            # At the start one head looks at ASVs alike, and another one at reads.
            factor_H = torch.linspace(0.0, 1.0, shape.heads)
            self.reads_in_scores = nn.Parameter(factor_H.repeat(shape.sample_layers, 1))
            self.reads_in_pooling = nn.Parameter(torch.full((1, 1), 0.5))

    def forward(self, asv_UD: Tensor, block: SampleBlock, backend: AttentionBackend) -> Tensor:
        """Encode one block of samples.

        Parameters
        ----------
        asv_UD
            Embeddings of the distinct ASVs of the batch.
        block
            Samples that point to these.
        backend
            Kernel of attention.

        Returns
        -------
        torch.Tensor
            Embeddings of the samples [B, D].
        """
        reads_B1 = block.counts_BA.sum(dim=1, keepdim=True).clamp(min=1)
        # Both features are scaled to a standard deviation near one at usual depths.
        features_BA2 = torch.stack(
            [torch.log1p(block.counts_BA) / 2, torch.sqrt(block.counts_BA / reads_B1) * 4], dim=-1
        )
        # Unlike indexing, its gradient is summed in one order, whatever the number of threads.
        asv_BAD = embedding(block.asv_BA, asv_UD)
        x_BAD = self.entry(asv_BAD + self.abundance(features_BA2))
        mask_B11A = key_mask(block.present_BA, arithmetic(x_BAD))
        biases: Sequence[Tensor | None] = [None] * len(self.blocks)
        pooling_bias_BA = None
        if self.reads_in_attention:
            # An ASV that is absent has a share, too, because infinity times a factor of 0 is NaN.
            counts_BA = block.counts_BA.where(block.present_BA, 1.0)
            log_share_BA = torch.log(counts_BA / reads_B1)
            # So the weight of an ASV is multiplied by its share to the power of a factor.
            bias_LBH1A = self.reads_in_scores[:, None, :, None, None] * log_share_BA[:, None, None]
            biases = bias_LBH1A.to(mask_B11A.dtype).unbind()
            pooling_bias_BA = self.reads_in_pooling * log_share_BA
        for layer, bias in zip(self.blocks, biases, strict=True):
            x_BAD = self.run(layer, x_BAD, mask_B11S=mask_B11A, bias_BH1S=bias, backend=backend)
        return self.pooling(x_BAD, block.present_BA, pooling_bias_BA)


class Encoder(nn.Module):
    """ASV encoder and sample encoder.

    Parameters
    ----------
    shape
        Shape of the encoder.
    backend
        Kernel of attention. It is not part of the architecture, because all kernels agree.
    """

    def __init__(self, shape: Architecture, backend: AttentionBackend = "auto") -> None:
        super().__init__()
        self.shape = shape
        self.backend = backend
        self.keeps_blocks = True
        self.asv = ENCODERS[shape.encoder](shape)
        self.sample = SampleEncoder(shape)

    def recompute(self, what: Recompute) -> None:
        """Choose what the backward pass computes again; results differ by rounding only.

        Parameters
        ----------
        what
            See `Recompute`.
        """
        self.keeps_blocks = what != "micro-batches"
        self.asv.keeps_layers = what != "layers"
        self.sample.keeps_layers = what != "layers"

    def forward(self, batch: Batch) -> Encoded:
        """Encode each distinct ASV once, then the samples that point to them.

        Parameters
        ----------
        batch
            Samples and their ASVs, on the device of the encoder.

        Returns
        -------
        Encoded
            Embeddings in the order of the batch.
        """
        encoded = [
            self.run_block(self.asv, block.tokens_US, block.masked, self.backend)
            for block in batch.asvs
        ]
        # Heads on a frozen ASV level get embeddings that were computed once, in place of sequences.
        asv_UD = batch.embedded_UD
        if asv_UD is None:
            asv_UD = torch.cat([asv for asv, _ in encoded])
        nucleotides = [hidden for _, hidden in encoded if hidden is not None]
        return Encoded(self.encode_samples(asv_UD, batch), nucleotides)

    def encode_samples(self, asv_UD: Tensor, batch: Batch) -> Tensor:
        """Encode samples whose ASVs were embedded before.

        Parameters
        ----------
        asv_UD
            Embeddings of the distinct ASVs of the batch.
        batch
            Its samples; its sequences are not looked at.

        Returns
        -------
        torch.Tensor
            Embeddings [B, D] in the order of the batch, fp32.
        """
        parts = [
            self.run_block(self.sample, asv_UD, block, self.backend) for block in batch.samples
        ]
        # The blocks sort the samples by richness: this puts them back into the order of the batch.
        return torch.cat(parts)[batch.order_B].float()

    def run_block(self, part: Callable[..., Any], *inputs: Any) -> Any:
        """Encode a block of ASVs or samples; the backward pass may compute it again.

        Parameters
        ----------
        part
            `asv` or `sample`, which encodes a block.
        *inputs
            What it is called with.

        Returns
        -------
        Any
            What it returned.
        """
        if self.keeps_blocks or not torch.is_grad_enabled():
            return part(*inputs)
        # Blocks that share the cast of a weight would add up their gradients in that precision.
        torch.clear_autocast_cache()
        return checkpoint(part, *inputs, use_reentrant=False)


def build_encoder(shape: Architecture, *, seed: int, backend: AttentionBackend) -> Encoder:
    """Return an encoder with new weights, whose residual branches start small.

    Parameters
    ----------
    shape
        Shape of the encoder.
    seed
        Seed of the weights. Torch's random state stays as it is.
    backend
        Kernel of attention.

    Returns
    -------
    Encoder
        On the CPU.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(shape, backend)
        initialize(encoder)
    return encoder


def initialize(model: nn.Module) -> None:
    """Draw the weights of a model in place, from torch's random state.

    Linear layers get normal weights, smaller ones where they end a residual branch. Other layers
    draw theirs by `Layer.initialize`.

    Parameters
    ----------
    model
        Model whose weights are drawn.
    """
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            # What ends a branch is small, so that at the start each layer adds little to what
            # passes it by.
            ends_residual_branch = name.endswith((".out", ".ffn_out"))
            nn.init.normal_(layer.weight, std=0.02 / 2 if ends_residual_branch else 0.05)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, Layer):
            layer.initialize()


def set_dropout(model: nn.Module, rate: float) -> None:
    """Set the rate of every dropout layer.

    Parameters
    ----------
    model
        Model that is changed.
    rate
        Fraction that is dropped.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = rate
