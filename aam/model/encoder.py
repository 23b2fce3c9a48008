"""The hierarchical encoder: nucleotides to ASV to sample.

Shape suffixes: U distinct ASVs, S positions, P nucleotides per patch, T patches, M masked
nucleotides, B samples, A ASVs in a sample, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad
from torch.utils.checkpoint import checkpoint

from aam.model.batch import AsvBlock, Batch, Masked, SampleBlock
from aam.nn.attention import AttentionBackend, rotary_tables
from aam.nn.bdh import Bdh, BdhAttention, enter, neuron_tables
from aam.nn.block import Block
from aam.nn.pooling import AttentionPooling
from aam.nn.recurrent import BiLstm

VOCABULARY_SIZE = 7

Recompute = Literal["nothing", "layers", "pieces"]
"""What the backward pass computes a second time instead of keeping its activations: nothing, the
inside of every layer, or every block of ASVs and of samples as a whole."""


@dataclass(frozen=True)
class Architecture:
    """Shape of an encoder; the section `models.<name>` and the longest sequence."""

    encoder: str
    width: int
    heads: int
    asv_layers: int
    sample_layers: int
    patch_bp: int
    ffn_ratio: float
    max_length_bp: int
    bdh_neurons: int = 4
    bdh_attention: BdhAttention = "linear"

    @property
    def neurons(self) -> int:
        """Neurons of all heads of a BDH layer."""
        return self.bdh_neurons * self.width


@dataclass
class Encoded:
    """What the encoder returns.

    Attributes
    ----------
    sample_BD
        Embedding of each sample, in the order of the batch.
    nucleotides
        Per ASV block the patch [M, D] of each masked nucleotide; empty where nothing is masked.
    asvs
        Per sample block the states [B, A, D] behind the last layer; empty unless asked for.
    """

    sample_BD: Tensor
    nucleotides: list[Tensor]
    asvs: list[Tensor]


class AsvEncoder(nn.Module):
    """Layers over the patches of a sequence, pooled to one vector per ASV.

    - ``transformer``: blocks of attention with rotary positions
    - ``bilstm``: LSTM layers in both directions
    - ``bdh``: one layer of the Baby Dragon Hatchling, gone through `asv_layers` times
    """

    cos_TK: Tensor
    sin_TK: Tensor

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.patch_bp, self.encoder = shape.patch_bp, shape.encoder
        self.keeps_layers = True
        self.stem = nn.Linear(shape.patch_bp * VOCABULARY_SIZE, shape.width)
        self.blocks = nn.ModuleList(_asv_layers(shape))
        self.passes = shape.asv_layers // len(self.blocks)
        self.pooling = AttentionPooling(shape.width)
        patches = -(-shape.max_length_bp // shape.patch_bp)
        # Amplicons begin at the same primer, so that the absolute position means something.
        self.position_TD = nn.Parameter(torch.empty(patches, shape.width).normal_(std=0.1))
        if shape.encoder == "bdh":
            cos_TK, sin_TK = neuron_tables(patches, shape.neurons // shape.heads)
        else:
            cos_TK, sin_TK = rotary_tables(patches, shape.width // shape.heads)
        self.register_buffer("cos_TK", cos_TK, persistent=False)
        self.register_buffer("sin_TK", sin_TK, persistent=False)

    def forward(
        self, tokens_US: Tensor, masked: Masked | None, backend: AttentionBackend
    ) -> tuple[Tensor, Tensor | None]:
        """Return the ASV embeddings [U, D] and the patches [M, D] of the masked nucleotides."""
        x_UTD = self.stem(self._one_hot(tokens_US))
        patches = x_UTD.shape[1]
        # In fp32, as all that is added up over layers, so that no gradient is summed in bf16.
        x_UTD = x_UTD + self.position_TD[:patches]
        told: dict[str, Any] = {}
        if self.encoder != "bilstm":
            told["rotary"] = (self.cos_TK[:patches], self.sin_TK[:patches])
        if self.encoder == "bdh":
            x_UTD = enter(x_UTD)
        elif self.encoder == "transformer":
            told["backend"] = backend
        for block in [*self.blocks] * self.passes:
            x_UTD = _layer(self, block, x_UTD, **told)
        if masked is None:
            return self.pooling(x_UTD), None
        row_M = masked.asv_M * patches + masked.position_M // self.patch_bp
        return self.pooling(x_UTD), embedding(row_M, x_UTD.flatten(0, 1))

    def _one_hot(self, tokens_US: Tensor) -> Tensor:
        """Return [U, T, P * vocabulary]: a matrix product then serves as the embedding."""
        missing = -tokens_US.shape[1] % self.patch_bp
        tokens_US = pad(tokens_US, (0, missing))
        letters = torch.arange(VOCABULARY_SIZE, dtype=torch.uint8, device=tokens_US.device)
        one_hot_USV = (tokens_US[..., None] == letters).to(self.stem.weight.dtype)
        return one_hot_USV.flatten(1).unflatten(1, (-1, self.patch_bp * VOCABULARY_SIZE))


def _asv_layers(shape: Architecture) -> list[nn.Module]:
    """Return the layers that have weights of their own, the first one first."""
    if shape.encoder == "bdh":
        return [Bdh(shape.width, shape.heads, shape.neurons, shape.bdh_attention)]
    if shape.encoder == "bilstm":
        return [BiLstm(shape.width) for _ in range(shape.asv_layers)]
    return [Block(shape.width, shape.heads, shape.ffn_ratio) for _ in range(shape.asv_layers)]


class SampleEncoder(nn.Module):
    """Transformer over the set of a sample's ASVs, pooled to one vector per sample."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.keeps_layers = True
        self.abundance = nn.Linear(2, shape.width)
        self.blocks = nn.ModuleList(
            Block(shape.width, shape.heads, shape.ffn_ratio) for _ in range(shape.sample_layers)
        )
        self.pooling = AttentionPooling(shape.width)

    def forward(self, asv_UD: Tensor, block: SampleBlock, backend: AttentionBackend) -> Tensor:
        """Return the embeddings [B, D] of one block of samples."""
        return self.pooling(self.states(asv_UD, block, backend), block.present_BA)

    def states(self, asv_UD: Tensor, block: SampleBlock, backend: AttentionBackend) -> Tensor:
        """Return the states [B, A, D] of the ASVs of one block of samples, before the pooling."""
        reads_B1 = block.counts_BA.sum(dim=1, keepdim=True).clamp(min=1)
        # Both features are scaled to a standard deviation near one at usual depths.
        features_BA2 = torch.stack(
            [torch.log1p(block.counts_BA) / 2, torch.sqrt(block.counts_BA / reads_B1) * 4], dim=-1
        )
        if block.count_mask_BA is not None:
            features_BA2 = features_BA2.masked_fill(block.count_mask_BA[..., None], 0.0)
        # Unlike indexing, its gradient is summed in one order, whatever the number of threads.
        x_BAD = embedding(block.asv_BA, asv_UD) + self.abundance(features_BA2)
        for layer in self.blocks:
            x_BAD = _layer(self, layer, x_BAD, present_BS=block.present_BA, backend=backend)
        return x_BAD


class Encoder(nn.Module):
    """ASV encoder and sample encoder.

    Parameters
    ----------
    shape
        The architecture.
    backend
        Attention back-end; not part of the architecture, because all back-ends agree.
    """

    def __init__(self, shape: Architecture, backend: AttentionBackend = "auto") -> None:
        super().__init__()
        self.shape = shape
        self.backend = backend
        self.keeps_blocks = True
        self.asv = AsvEncoder(shape)
        self.sample = SampleEncoder(shape)

    def recompute(self, what: Recompute) -> None:
        """Choose what the backward pass computes again; results differ by rounding only."""
        self.keeps_blocks = what != "pieces"
        for part in (self.asv, self.sample):
            part.keeps_layers = what != "layers"

    def forward(self, batch: Batch, *, asvs: bool = False) -> Encoded:
        """Encode each distinct ASV once, then the samples that point to them.

        Parameters
        ----------
        batch
            Samples and their ASVs.
        asvs
            Return the states of the samples' ASVs too.
        """
        encoded = [
            self._block(self.asv, block.tokens_US, block.masked, self.backend)
            for block in batch.asvs
        ]
        asv_UD = batch.embedded_UD
        if asv_UD is None:
            asv_UD = torch.cat([asv for asv, _ in encoded])
        nucleotides = [hidden for _, hidden in encoded if hidden is not None]
        if not asvs:
            return Encoded(self.encode_samples(asv_UD, batch), nucleotides, [])
        sample_BD, states = self.encode_samples(asv_UD, batch, asvs=True)
        return Encoded(sample_BD, nucleotides, states)

    def encode_asvs(self, block: AsvBlock) -> Tensor:
        """Return the embeddings [U, D] of the ASVs of one block."""
        return self.asv(block.tokens_US, None, self.backend)[0]

    @overload
    def encode_samples(
        self, asv_UD: Tensor, batch: Batch, *, asvs: Literal[False] = False
    ) -> Tensor: ...
    @overload
    def encode_samples(
        self, asv_UD: Tensor, batch: Batch, *, asvs: Literal[True]
    ) -> tuple[Tensor, list[Tensor]]: ...
    def encode_samples(
        self, asv_UD: Tensor, batch: Batch, *, asvs: bool = False
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Return the sample embeddings [B, D] in the order of the batch, in fp32.

        Parameters
        ----------
        asv_UD
            Embeddings of the ASVs that the batch points to.
        batch
            Samples.
        asvs
            Return also, per block of samples, the states [B, A, D] of their ASVs.
        """
        states: list[Tensor] = []
        parts = []
        for block in batch.samples:
            if asvs:
                states.append(self._block(self.sample.states, asv_UD, block, self.backend))
                parts.append(self.sample.pooling(states[-1], block.present_BA))
            else:
                parts.append(self._block(self.sample, asv_UD, block, self.backend))
        sample_BD = torch.cat(parts)[batch.order_B].float()
        return (sample_BD, states) if asvs else sample_BD

    def _block(self, part: Callable[..., Any], *inputs: Any) -> Any:
        if self.keeps_blocks or not torch.is_grad_enabled():
            return part(*inputs)
        # Pieces that share the cast of a weight would add up their gradients in that precision.
        torch.clear_autocast_cache()
        return checkpoint(part, *inputs, use_reentrant=False)


def _layer(part: AsvEncoder | SampleEncoder, layer: nn.Module, x: Tensor, **named: Any) -> Tensor:
    if part.keeps_layers or not torch.is_grad_enabled():
        return layer(x, **named)
    return checkpoint(layer, x, **named, use_reentrant=False)
