"""From the nucleotides or the lineage of a feature to its embedding: one class per kind of encoder.

Shape suffixes: U distinct ASVs, S positions, P nucleotides per patch, T patches or words, M masked
nucleotides, D width, E numbers that a rotation turns, R rows of a table of words.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from aam.config.sections.model import LINEAGE, WORD_BP
from aam.data.sequences import VOCABULARY_SIZE
from aam.model.batch import Masked
from aam.model.layers.attention import AttentionBackend, arithmetic, rotary_tables
from aam.model.layers.bdh import Bdh, neuron_tables, normalize
from aam.model.layers.blocks import AttentionPooling, BiLstm, Block, Layer, LayerStack
from aam.util.flops import BDH_NEURONS

Layers = Annotated[int, Field(ge=1, le=1000)]
"""As many as the configuration takes: a changed `config.json` asks for no more."""
ROWS = 4096
"""Words that an encoder of lineages has vectors for."""
FREE = 4**WORD_BP
"""In place of the number of a word, where there is none."""


@dataclass(frozen=True)
class Architecture:
    """Shape of an encoder, as in the section `models.<name>`.

    Attributes
    ----------
    encoder
        Kind of the ASV encoder, a name in `ENCODERS`.
    width
        Numbers of an embedding.
    heads
        Attention heads of a layer.
    asv_layers
        Layers over the nucleotides of an ASV.
    sample_layers
        Layers over the ASVs of a sample.
    patch_bp
        Nucleotides that enter the encoder as one position.
    ffn_ratio
        Width of the feed-forward layers as a multiple of `width`.
    max_length_bp
        Nucleotides of a sequence that are read; the rest of a longer one is cut off.
    reads_in_attention
        Whether the ASVs of a sample are attended to by their shares of its reads.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    encoder: str
    width: int
    heads: int
    asv_layers: Layers
    sample_layers: Layers
    patch_bp: int
    ffn_ratio: float
    max_length_bp: int
    reads_in_attention: bool = False


class AsvEncoder(LayerStack, ABC):
    """Layers over the patches of a sequence, pooled to one vector per ASV.

    A kind of encoder defines by `_layers` which layers have weights of their own, by `_tables` the
    cosines and sines [T, E] of a rotation, if any, and by `_encode` how the patches go through.

    Parameters
    ----------
    shape
        Shape of the encoder.
    """

    cos_TE: Tensor
    sin_TE: Tensor

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.patch_bp = shape.patch_bp
        self.stem = nn.Linear(shape.patch_bp * VOCABULARY_SIZE, shape.width)
        self.blocks = nn.ModuleList(self._layers(shape))
        self.passes = shape.asv_layers // len(self.blocks)
        self.pooling = AttentionPooling(shape.width)
        self.max_length_bp = shape.max_length_bp
        patches = -(-shape.max_length_bp // shape.patch_bp)
        # Amplicons begin at the same primer, so that the absolute position means something.
        self.position_TD = nn.Parameter(torch.empty(patches, shape.width).normal_(std=0.1))
        # On the meta device a model has shapes alone and is never run.
        tables = () if self.position_TD.is_meta else self._tables(shape, patches)
        for name, table in zip(("cos_TE", "sin_TE"), tables, strict=False):
            self.register_buffer(name, table, persistent=False)

    def forward(
        self, tokens_US: Tensor, masked: Masked | None, backend: AttentionBackend
    ) -> tuple[Tensor, Tensor | None]:
        """Encode ASVs of one length.

        Parameters
        ----------
        tokens_US
            Tokens of the ASVs, uint8.
        masked
            Masked nucleotides; None: there are none.
        backend
            Kernel of attention.

        Returns
        -------
        asv_UD : torch.Tensor
            Embeddings of the ASVs.
        patch_MD : torch.Tensor or None
            Patches of the masked nucleotides; None: there are none.
        """
        tokens_US = tokens_US[:, : self.max_length_bp]
        x_UTD = self.stem(self._one_hot(tokens_US))
        patches = x_UTD.shape[1]
        # The sum is in fp32, as everything that is added up over layers, so that no gradient is
        # summed in bf16.
        x_UTD = self._encode(x_UTD + self.position_TD[:patches], backend)
        asv_UD = self.pooling(x_UTD)
        if masked is None:
            return asv_UD, None
        row_M = masked.asv_M * patches + masked.position_M // self.patch_bp
        return asv_UD, embedding(row_M, x_UTD.flatten(0, 1))

    def _one_hot(self, tokens_US: Tensor) -> Tensor:
        """Return [U, T, P * vocabulary]: a matrix product then serves as the embedding."""
        tokens_US = pad(tokens_US, (0, -tokens_US.shape[1] % self.patch_bp))
        letters = torch.arange(VOCABULARY_SIZE, dtype=torch.uint8, device=tokens_US.device)
        one_hot_USV = (tokens_US[..., None] == letters).to(self.stem.weight.dtype)
        return one_hot_USV.flatten(1).unflatten(1, (-1, self.patch_bp * VOCABULARY_SIZE))

    def _rotary(self, x_UTD: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cosines and sines of as many patches, in the type of the products."""
        patches = x_UTD.shape[1]
        dtype = arithmetic(x_UTD)
        return self.cos_TE[:patches].to(dtype), self.sin_TE[:patches].to(dtype)

    @staticmethod
    @abstractmethod
    def _layers(shape: Architecture) -> Sequence[Layer]:
        """Return the layers that have weights, in the order of the forward pass."""

    @staticmethod
    def _tables(shape: Architecture, patches: int) -> tuple[Tensor, ...]:
        """Return the cosines and sines [T, E] of a rotation, or nothing."""
        return ()

    def _encode(self, x_UTD: Tensor, backend: AttentionBackend) -> Tensor:
        """Return the patches [U, T, D] behind all layers."""
        for block in self.blocks:
            x_UTD = self.run(block, x_UTD)
        return x_UTD


class AsvTransformer(AsvEncoder):
    """Blocks of attention with rotary positions."""

    @staticmethod
    def _layers(shape: Architecture) -> Sequence[Layer]:
        return [Block(shape.width, shape.heads, shape.ffn_ratio) for _ in range(shape.asv_layers)]

    @staticmethod
    def _tables(shape: Architecture, patches: int) -> tuple[Tensor, ...]:
        return rotary_tables(patches, shape.width // shape.heads, 2 * shape.heads)

    def _encode(self, x_UTD: Tensor, backend: AttentionBackend) -> Tensor:
        rotary = self._rotary(x_UTD)
        for block in self.blocks:
            x_UTD = self.run(block, x_UTD, rotary=rotary, backend=backend)
        return x_UTD


class AsvBiLstm(AsvEncoder):
    """LSTM layers in both directions."""

    @staticmethod
    def _layers(shape: Architecture) -> Sequence[Layer]:
        return [BiLstm(shape.width) for _ in range(shape.asv_layers)]


class AsvBdh(AsvEncoder):
    """One layer of the Baby Dragon Hatchling, gone through `asv_layers` times."""

    @staticmethod
    def _layers(shape: Architecture) -> Sequence[Layer]:
        return [Bdh(shape.width, shape.heads, BDH_NEURONS * shape.width)]

    @staticmethod
    def _tables(shape: Architecture, patches: int) -> tuple[Tensor, ...]:
        return neuron_tables(patches, BDH_NEURONS * shape.width // shape.heads)

    def _encode(self, x_UTD: Tensor, backend: AttentionBackend) -> Tensor:
        rotary = self._rotary(x_UTD)
        x_UTD = normalize(x_UTD)
        for _ in range(self.passes):
            x_UTD = self.run(self.blocks[0], x_UTD, rotary=rotary)
        return x_UTD


class LineageEncoder(LayerStack):
    """The sum of learned vectors of the words of a lineage, behind a norm.

    Words that were not learned add nothing, so that an unseen species has the vector of its genus.
    The encoder keeps the words that it learned in place of a vocabulary: `learn` adds to them.

    Parameters
    ----------
    shape
        Shape of the encoder.
    """

    code_R: Tensor
    """The words that have a vector as numbers, ascending; behind them `FREE`, int64."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        self.vector_RD = nn.Parameter(torch.empty(ROWS, shape.width).normal_(std=0.05))
        words = -(-shape.max_length_bp // shape.patch_bp)
        self.position_TD = nn.Parameter(torch.empty(words, shape.width).normal_(std=0.05))
        self.norm = nn.LayerNorm(shape.width)
        self.register_buffer("code_R", torch.full((ROWS,), FREE))

    def forward(
        self, tokens_US: Tensor, masked: Masked | None, backend: AttentionBackend
    ) -> tuple[Tensor, Tensor | None]:
        """Encode features whose lineages are words of letters (`aam.data.lineages`).

        Parameters
        ----------
        tokens_US
            Tokens of the words, uint8.
        masked
            Masked letters, those of whole words; None: there are none.
        backend
            Kernel of attention, of which there is none.

        Returns
        -------
        asv_UD : torch.Tensor
            Embeddings of the features.
        word_MD : torch.Tensor or None
            For each masked letter the sum of the feature's other words, and the position of its
            own; None: there are none.
        """
        code_UT = word_codes(tokens_US)
        row_UT = torch.searchsorted(self.code_R, code_UT).clamp_(max=ROWS - 1)
        is_learned_UT = (self.code_R[row_UT] == code_UT) & (code_UT != FREE)
        # Unlike indexing, its gradient is summed in one order, whatever the number of threads.
        vector_UTD = embedding(row_UT, self.vector_RD)
        sum_UD = (vector_UTD * is_learned_UT[..., None].to(vector_UTD.dtype)).sum(dim=1)
        asv_UD = self.norm(sum_UD)
        if masked is None:
            return asv_UD, None
        position_MD = embedding(masked.position_M // WORD_BP, self.position_TD)
        return asv_UD, embedding(masked.asv_M, sum_UD) + position_MD

    @torch.no_grad()
    def learn(self, codes: Tensor) -> None:
        """Give words vectors of their own; words that have one keep it.

        Parameters
        ----------
        codes
            Words as numbers (`word_codes`), each once, the most frequent first: of more than there
            is room for, the last ones get no vector.
        """
        known = self.code_R[self.code_R != FREE]
        new = codes[~torch.isin(codes, known)][: ROWS - len(known)]
        # New words take rows that are free, whose vectors are still those of the seed.
        codes_R = self.code_R.clone()
        codes_R[len(known) : len(known) + len(new)] = new
        order_R = torch.argsort(codes_R, stable=True)
        self.code_R.copy_(codes_R[order_R])
        self.vector_RD.copy_(self.vector_RD[order_R])


def word_codes(tokens_US: Tensor) -> Tensor:
    """Return words of letters as numbers.

    Parameters
    ----------
    tokens_US
        Tokens, uint8; S is a multiple of `WORD_BP`.

    Returns
    -------
    torch.Tensor
        int64 [U, T]; `FREE` for a word of which a letter is unknown, masked or missing.
    """
    letter_UTP = tokens_US.unflatten(1, (-1, WORD_BP)).long() - 1
    is_word_UT = ((letter_UTP >= 0) & (letter_UTP < 4)).all(dim=-1)
    place_P = 4 ** torch.arange(WORD_BP, device=tokens_US.device)
    return torch.where(is_word_UT, (letter_UTP * place_P).sum(dim=-1), FREE)


ENCODERS: dict[str, type[AsvEncoder | LineageEncoder]] = {
    "transformer": AsvTransformer,
    "bilstm": AsvBiLstm,
    "bdh": AsvBdh,
    LINEAGE: LineageEncoder,
}
"""The kinds of `models.<name>.encoder`."""
