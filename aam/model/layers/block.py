"""A pre-norm transformer block.

Shape suffixes: B batch, S positions, D width, H heads, K width of a head.
"""

from torch import Tensor, nn
from torch.nn.functional import gelu

from aam.model.layers.attention import AttentionBackend, attend, join_heads, rotate, split_heads
from aam.model.layers.layer import Layer


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
        mixed_BHSK = attend(query, key, value, mask_B11T=mask_B11S, backend=backend)
        x_BSD = x_BSD + self.dropout(self.out(join_heads(mixed_BHSK)))
        hidden = gelu(self.ffn_in(self.norm_ffn(x_BSD)), approximate="tanh")
        return x_BSD + self.dropout(self.ffn_out(hidden))
