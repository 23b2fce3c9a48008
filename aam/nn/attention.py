"""The one place where attention is computed, with back-ends by name.

Letters: B batch, H heads, S query positions, T key positions, K width of a head.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

AttentionBackend = Literal["auto", "flash", "memory_efficient", "math"]

_KERNELS = {
    "flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH],
    "memory_efficient": [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
    "math": [SDPBackend.MATH],
}


def attend(
    query_BHSK: Tensor,
    key_BHTK: Tensor,
    value_BHTK: Tensor,
    *,
    present_BT: Tensor | None = None,
    backend: AttentionBackend = "auto",
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value.

    Parameters
    ----------
    query_BHSK, key_BHTK, value_BHTK
        Projections per head.
    present_BT
        True where a key exists; None: all do.
    backend
        - ``auto``: what was measured fastest (docs/optimization.md): on a CPU math for bf16 and
          for short sequences, else what PyTorch chooses
        - ``flash``, ``memory_efficient``: that kernel, or math where the device has none
        - ``math``: plain matrix products

    Returns
    -------
    Tensor
        Of shape [B, H, S, K].
    """
    mask = None if present_BT is None else present_BT[:, None, None, :]
    if backend == "auto" and query_BHSK.device.type == "cpu" and _math_wins_on_cpu(query_BHSK):
        backend = "math"
    if backend == "auto":
        return scaled_dot_product_attention(query_BHSK, key_BHTK, value_BHTK, attn_mask=mask)
    with sdpa_kernel(_KERNELS[backend], set_priority=True):
        return scaled_dot_product_attention(query_BHSK, key_BHTK, value_BHTK, attn_mask=mask)


def _math_wins_on_cpu(query_BHSK: Tensor) -> bool:
    return query_BHSK.dtype == torch.bfloat16 or query_BHSK.shape[-2] < 64


def split_heads(x_BSD: Tensor, heads: int) -> Tensor:
    """Return [B, S, D] as [B, H, S, D / H]."""
    return x_BSD.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x_BHSK: Tensor) -> Tensor:
    """Return [B, H, S, K] as [B, S, H * K]."""
    return x_BHSK.transpose(1, 2).flatten(-2)


def rotary_tables(positions: int, head_width: int, base: float = 10_000.0) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [positions, head_width] (Su et al. 2021, arXiv:2104.09864)."""
    frequency = base ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos().float(), angle.sin().float()


def rotate(x_BHSK: Tensor, cos_SK: Tensor, sin_SK: Tensor) -> Tensor:
    """Return queries or keys turned by the angle of their position."""
    first, second = x_BHSK.chunk(2, dim=-1)
    return x_BHSK * cos_SK + torch.cat([-second, first], dim=-1) * sin_SK
