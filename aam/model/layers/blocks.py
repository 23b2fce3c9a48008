"""Layers of an encoder and what training asks of them: transformer blocks, LSTMs, pooling.

Shape suffixes: B batch, S positions, D width, H heads or width of an LSTM's direction, K width of a
head, G four gates.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from torch.utils.checkpoint import checkpoint

from aam.model.layers.attention import AttentionBackend, attend, join_heads, rotate, split_heads


class Layer(nn.Module):
    """A layer on positions [sequences, length, width]."""

    is_compiled = True
    """Whether torch.compile gets the layer: one that is a single call of a kernel gains nothing."""

    def matrices(self) -> list[nn.Parameter]:
        """Return the weights that Muon takes; each is multiplied once with every position."""
        return [parameter for parameter in self.parameters() if parameter.ndim == 2]

    def initialize(self) -> None:
        """Draw weights other than those of linear layers, which `aam.model.encoder` draws."""


class LayerStack(nn.Module):
    """Layers one after the other, of which the backward pass may compute the inside again."""

    blocks: nn.ModuleList
    keeps_layers = True
    """Whether the activations inside of each layer are kept for the backward pass."""

    def run(self, layer: nn.Module, x: Tensor, **options: Any) -> Tensor:
        """Return what a layer makes of its input.

        Parameters
        ----------
        layer
            One of the stack's layers.
        x
            Positions [sequences, length, width].
        options
            Other arguments of the layer.

        Returns
        -------
        torch.Tensor
            Positions of the same shape.
        """
        if self.keeps_layers or not torch.is_grad_enabled():
            return layer(x, **options)
        return checkpoint(layer, x, **options, use_reentrant=False)


class Block(Layer):
    """Self-attention and a feed-forward layer, each with norm and residual.

    A pre-norm transformer block (Xiong et al. 2020, arXiv:2002.04745).

    Parameters
    ----------
    width
        Width D of a position.
    heads
        Number of attention heads.
    ffn_ratio
        Width of the feed-forward layer as a multiple of `width`.
    """

    def __init__(self, width: int, heads: int, ffn_ratio: float) -> None:
        super().__init__()
        self.width = width
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm_ffn = nn.LayerNorm(width)
        hidden = int(width * ffn_ratio)
        self.ffn_in = nn.Linear(width, hidden)
        self.ffn_out = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(0.0)

    def forward(
        self,
        x_BSD: Tensor,
        *,
        rotary: tuple[Tensor, Tensor] | None = None,
        mask_B11S: Tensor | None = None,
        bias_BH1S: Tensor | None = None,
        backend: AttentionBackend = "auto",
    ) -> Tensor:
        """Return the positions behind the block.

        Parameters
        ----------
        x_BSD
            Positions.
        rotary
            Cosines and sines [S, 2 * D], of queries and keys together, in the type of the products;
            None: the positions are a set.
        mask_B11S
            What `key_mask` returns, in the type of the products; None: all positions exist.
        bias_BH1S
            What is added to the scores of a position, of the same type; None: nothing is.
        backend
            Kernel of attention.

        Returns
        -------
        torch.Tensor
            [B, S, D].
        """
        qkv_BSE = self.qkv(self.norm_attention(x_BSD))
        if rotary is None:
            query_BSD, key_BSD, value_BSD = qkv_BSE.chunk(3, dim=-1)
            query = split_heads(query_BSD, self.heads)
            key = split_heads(key_BSD, self.heads)
        else:
            both_BSE, value_BSD = qkv_BSE.split([2 * self.width, self.width], dim=-1)
            both_BHSK = split_heads(rotate(both_BSE, *rotary, 2 * self.heads), 2 * self.heads)
            query, key = both_BHSK.chunk(2, dim=1)
        value = split_heads(value_BSD, self.heads)
        mixed_BHSK = attend(
            query, key, value, mask_B11T=mask_B11S, bias_BH1T=bias_BH1S, backend=backend
        )
        x_BSD = x_BSD + self.dropout(self.out(join_heads(mixed_BHSK)))
        hidden = gelu(self.ffn_in(self.norm_ffn(x_BSD)), approximate="tanh")
        return x_BSD + self.dropout(self.ffn_out(hidden))


class AttentionPooling(nn.Module):
    """A learned query's attention over the positions, then a norm.

    The scores of attention go through `scores`, which does nothing by itself:
    `aam.inference.attribution` reads them there.

    Parameters
    ----------
    width
        Width D of a position.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1, bias=False)
        self.scores = nn.Identity()
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x_BSD: Tensor, present_BS: Tensor | None = None, bias_BS: Tensor | None = None
    ) -> Tensor:
        """Pool the positions of each sequence.

        Parameters
        ----------
        x_BSD
            Positions.
        present_BS
            Whether a position exists, and has a weight; None: all do.
        bias_BS
            What is added to the scores; None: nothing is.

        Returns
        -------
        torch.Tensor
            [B, D], fp32.
        """
        # A softmax over hundreds of positions loses weights in 16 bits.
        score_BS = self.score(x_BSD).squeeze(-1).float()
        if bias_BS is not None:
            score_BS = score_BS + bias_BS
        score_BS = self.scores(score_BS)
        if present_BS is not None:
            score_BS = score_BS.masked_fill(~present_BS, float("-inf"))
        weight_BS = torch.softmax(score_BS, dim=-1).to(x_BSD.dtype)
        return self.norm(torch.bmm(weight_BS[:, None, :], x_BSD).squeeze(1).float())


class BiLstm(Layer):
    """LSTM cells (Gers et al. 2000) in both directions, behind a norm and next to a residual.

    Each direction is half as wide as the positions. All sequences have one length: nothing is
    padded or packed.

    Parameters
    ----------
    width
        Width D of a position, an even number.
    """

    is_compiled = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x_BSD: Tensor) -> Tensor:
        """Return the positions behind the layer.

        Parameters
        ----------
        x_BSD
            Positions.

        Returns
        -------
        torch.Tensor
            [B, S, D].
        """
        states_BSD, _ = self.lstm(self.norm(x_BSD))
        return x_BSD + self.dropout(states_BSD)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw recurrent matrices orthogonal per gate, and let the forget gates begin open.

        A bias of 1 keeps the state over many positions (Jozefowicz et al. 2015).
        """
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight_hh"):
                for gate_HH in parameter.chunk(4):
                    nn.init.orthogonal_(gate_HH)
            elif name.startswith("weight_ih"):
                nn.init.xavier_normal_(parameter)
            else:
                parameter.zero_()
                if name.startswith("bias_ih"):
                    # The order of the gates is input, forget, cell, output.
                    parameter.chunk(4)[1].fill_(1.0)
