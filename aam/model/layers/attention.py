"""The one place where attention is computed, with back-ends by name.

Shape suffixes: B batch, H heads, S query positions, T key positions, K width of a head, N that
of a bias and W both, E all heads side by side.
"""

import warnings
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

AttentionBackend = Literal["auto", "flash", "memory_efficient", "math"]
BIAS_WIDTH = 8
"""Numbers by which a bias widens a head: kernels of accelerators read so many at a time."""

_KERNELS = {
    # Flash takes no mask on an accelerator.
    "flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
    "memory_efficient": [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
    "math": [SDPBackend.MATH],
}

_NAMES: dict[SDPBackend, AttentionBackend] = {
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "memory_efficient",
    SDPBackend.MATH: "math",
}


def available_backend(backend: AttentionBackend, device: torch.device) -> AttentionBackend:
    """Return the kernel that a device computes attention with.

    Parameters
    ----------
    backend
        Kernel that the configuration asks for.
    device
        Where attention is computed.

    Returns
    -------
    str
        The same kernel, or its substitute where the device has it neither in fp32 nor in bf16.
    """
    if backend == "auto":
        return backend
    return next(_NAMES[kernel] for kernel in _KERNELS[backend] if _has_kernel(kernel, device))


@cache
def _has_kernel(kernel: SDPBackend, device: torch.device) -> bool:
    """Try a kernel with a few numbers, since PyTorch does not say what a device has."""
    if kernel == SDPBackend.MATH:
        return True
    for dtype in (torch.float32, torch.bfloat16):
        x_BHSK = torch.zeros(1, 1, 16, 16, dtype=dtype, device=device)
        try:
            # PyTorch warns of every reason for which it does not take a kernel.
            with warnings.catch_warnings(), sdpa_kernel(kernel):
                warnings.simplefilter("ignore")
                scaled_dot_product_attention(x_BHSK, x_BHSK, x_BHSK)
        except RuntimeError:
            continue
        return True
    return False


def attend(
    query_BHSK: Tensor,
    key_BHTK: Tensor,
    value_BHTK: Tensor,
    *,
    mask_B11T: Tensor | None = None,
    bias_BH1T: Tensor | None = None,
    backend: AttentionBackend = "auto",
) -> Tensor:
    """Return softmax(query key^T / sqrt(K) + mask + bias) value.

    The formula is that of Vaswani et al. (2017, arXiv:1706.03762).

    Parameters
    ----------
    query_BHSK, key_BHTK, value_BHTK
        Queries, keys and values of one type.
    mask_B11T
        What `key_mask` returns; None: all keys exist.
    bias_BH1T
        What is added to the scores of a key, of the same type; None: nothing is.
    backend
        Kernel, with PyTorch's reference ``math`` where the device does not have it. ``auto`` is
        what was measured fastest (docs/experiments.md): on a CPU plain products for bf16 and for
        short sequences, otherwise what PyTorch chooses.

    Returns
    -------
    torch.Tensor
        [B, H, S, K].
    """
    if backend == "auto":
        is_short = query_BHSK.shape[-2] < 64
        is_bf16 = query_BHSK.dtype == torch.bfloat16
        if query_BHSK.device.type == "cpu" and (is_bf16 or is_short):
            return _plain(query_BHSK, key_BHTK, value_BHTK, mask_B11T, bias_BH1T)
        return _fused(query_BHSK, key_BHTK, value_BHTK, mask_B11T, bias_BH1T)
    with sdpa_kernel(_KERNELS[backend], set_priority=True):
        return _fused(query_BHSK, key_BHTK, value_BHTK, mask_B11T, bias_BH1T)


def key_mask(present_BT: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to the scores of attention.

    Parameters
    ----------
    present_BT
        Whether a key exists; one per row exists at least.
    dtype
        Type of the result, that of the scores.

    Returns
    -------
    torch.Tensor
        [B, 1, 1, T]: 0 where a key exists, otherwise -inf.
    """
    absent_B11T = ~present_BT[:, None, None, :]
    return absent_B11T.new_zeros(absent_B11T.shape, dtype=dtype).masked_fill(
        absent_B11T, float("-inf")
    )


def arithmetic(x: Tensor) -> torch.dtype:
    """Return the type that products are computed in.

    Parameters
    ----------
    x
        One of the factors.

    Returns
    -------
    torch.dtype
        The type of autocast, where it is enabled, otherwise the type of `x`.
    """
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def _fused(
    query_BHSK: Tensor,
    key_BHTK: Tensor,
    value_BHTK: Tensor,
    mask_B11T: Tensor | None,
    bias_BH1T: Tensor | None,
) -> Tensor:
    """Attend by one of PyTorch's kernels.

    A kernel that keeps no scores has no gradient for what is added to them. So a bias is a further
    number of the keys, and 1 is that of the queries.
    """
    width = query_BHSK.shape[-1]
    if bias_BH1T is None:
        return scaled_dot_product_attention(query_BHSK, key_BHTK, value_BHTK, mask_B11T)
    one_BHSN = query_BHSK.new_ones(1).expand(*query_BHSK.shape[:-1], BIAS_WIDTH)
    zero_BHTN = key_BHTK.new_zeros(1).expand(*key_BHTK.shape[:-1], BIAS_WIDTH)
    number_BHT1 = bias_BH1T.transpose(-1, -2) * width**0.5
    mixed_BHSW = scaled_dot_product_attention(
        torch.cat([query_BHSK, one_BHSN], dim=-1),
        torch.cat([key_BHTK, number_BHT1, zero_BHTN[..., 1:]], dim=-1),
        torch.cat([value_BHTK, zero_BHTN], dim=-1),
        mask_B11T,
        scale=width**-0.5,
    )
    return mixed_BHSW[..., :width]


def _plain(
    query_BHSK: Tensor,
    key_BHTK: Tensor,
    value_BHTK: Tensor,
    mask_B11T: Tensor | None,
    bias_BH1T: Tensor | None,
) -> Tensor:
    """Attend by two products in the given arithmetic; PyTorch's reference computes bf16 in fp32."""
    scores_BHST = (query_BHSK * query_BHSK.shape[-1] ** -0.5) @ key_BHTK.transpose(-1, -2)
    if mask_B11T is not None:
        scores_BHST = scores_BHST + mask_B11T
    if bias_BH1T is not None:
        scores_BHST = scores_BHST + bias_BH1T
    return torch.softmax(scores_BHST, dim=-1) @ value_BHTK


def split_heads(x_BSD: Tensor, heads: int) -> Tensor:
    """Return [B, S, D] as [B, H, S, D / H].

    Parameters
    ----------
    x_BSD
        All heads next to each other.
    heads
        Number of heads.

    Returns
    -------
    torch.Tensor
        A view.
    """
    return x_BSD.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x_BHSK: Tensor) -> Tensor:
    """Return [B, H, S, K] as [B, S, H * K].

    Parameters
    ----------
    x_BHSK
        Heads in a dimension of their own.

    Returns
    -------
    torch.Tensor
        A copy where the heads do not lie next to each other.
    """
    return x_BHSK.transpose(1, 2).flatten(-2)


def rotary_tables(
    positions: int, head_width: int, heads: int = 1, base: float = 10_000.0
) -> tuple[Tensor, Tensor]:
    """Return the tables of rotary positions (Su et al. 2021, arXiv:2104.09864).

    Parameters
    ----------
    positions
        Number of positions S.
    head_width
        Width K of a head.
    heads
        Heads next to each other, which have the same angles.
    base
        Base of the geometric series of frequencies.

    Returns
    -------
    cos_SE, sin_SE : torch.Tensor
        Cosines and signed sines [S, E] in fp32.
    """
    frequency = base ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    cos = angle.cos().float()
    sin = angle.sin().float()
    return torch.cat([cos, cos] * heads, dim=-1), torch.cat([-sin, sin] * heads, dim=-1)


def rotate(x_BSE: Tensor, cos_SE: Tensor, sin_SE: Tensor, heads: int = 1) -> Tensor:
    """Return queries or keys, turned by the angle of the position.

    Parameters
    ----------
    x_BSE
        Vectors of all heads, next to each other.
    cos_SE, sin_SE
        What `rotary_tables` returns.
    heads
        Number of heads.

    Returns
    -------
    torch.Tensor
        [B, S, E].
    """
    return _Rotation.apply(x_BSE, cos_SE, sin_SE, heads)


class _Rotation(torch.autograd.Function):
    """A rotation, whose gradient is the rotation back: nothing of the input is kept for it."""

    @staticmethod
    def forward(ctx: Any, x_BSE: Tensor, cos_SE: Tensor, sin_SE: Tensor, heads: int) -> Tensor:
        """Return [B, S, E], turned forward; the parameters are those of `rotate`."""
        ctx.heads = heads
        ctx.save_for_backward(cos_SE, sin_SE)
        return _turn(x_BSE, cos_SE, sin_SE, heads, 1.0)

    @staticmethod
    def backward(ctx: Any, grad_BSE: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of `x_BSE`, [B, S, E], which is turned back."""
        cos_SE, sin_SE = ctx.saved_tensors
        return _turn(grad_BSE, cos_SE, sin_SE, ctx.heads, -1.0), None, None, None


def _turn(x_BSE: Tensor, cos_SE: Tensor, sin_SE: Tensor, heads: int, sign: float) -> Tensor:
    """Return vectors turned by the angles of their positions, or back with a sign of -1."""
    first, second = x_BSE.unflatten(-1, (heads, -1)).chunk(2, dim=-1)
    # The rows are joined first: kernels over half a head each take four times as long in bf16 on a
    # CPU.
    swapped_BSE = torch.cat([second, first], dim=-1).flatten(-2)
    return (x_BSE * cos_SE).addcmul_(swapped_BSE, sin_SE, value=sign)
