"""Sketches: what of a tree lies above an ASV, in numbers that a set of ASVs has the largest of.

Every branch b of length l gets K independent Gumbel variables G; the k-th number of a set of
branches is the largest log(l_b) + G_bk in it. It is a Gumbel variable again, whose location is the
logarithm of the set's length (the trick of Maddison, Tarlow and Minka 2014, arXiv:1411.0030). So
the mean of the sketch of sample s estimates log W_s up to a constant, the mean of the larger of two
sketches the logarithm of what both have together, and

    unweighted UniFrac of s and t = 2 - exp(log W_s - log W_st) - exp(log W_t - log W_st)

The sketch of a sample is the largest of those of its ASVs, whatever their number: an encoder learns
nothing but the sketch of one ASV. A second sketch of a sample weighs its ASVs by their reads. The
branch to an ASV alone cannot be known: its length is predicted, and its variables are a hash of the
sequence.

Shape suffixes: U ASVs, S positions, D width, K numbers of a sketch, B samples, A ASVs in a sample,
N and M samples of two sets, X width of an embedding with its sketch.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from aam.model.batch import SampleBlock

SKETCHED = "unweighted"
"""The metric that follows from sketches."""
POWER = 0.5
"""Exponent of an ASV's fraction of the reads in the second sketch of a sample."""
NEVER = -30.0
"""Less than any number of a sketch."""
_MIX = (0x85EBCA6B - (1 << 32), 0xC2B2AE35 - (1 << 32))
"""Factors of the finalizer of MurmurHash3, as signed numbers."""
_GOLDEN = 0x9E3779B9 - (1 << 32)


class SketchHead(nn.Module):
    """Sketches of ASVs from their embeddings."""

    def __init__(self, width: int, numbers: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, 4 * width)
        # The last output is the logarithm of the length of the ASV's own branch.
        self.out = nn.Linear(4 * width, numbers + 1)

    def forward(self, asv_UD: Tensor, tokens_US: Tensor) -> Tensor:
        """Return sketches [U, K] in fp32."""
        out_UK = self.out(gelu(self.hidden(self.norm(asv_UD)))).float()
        own_U1, inner_UK = out_UK[:, -1:], out_UK[:, :-1]
        return torch.maximum(inner_UK, own_U1 + own_noise(tokens_US, inner_UK.shape[1]))

    @torch.no_grad()
    def start(self, mean_K: Tensor, own: float) -> None:
        """Start at the mean sketch of some ASVs, and at the logarithm of a length."""
        self.out.bias.copy_(torch.cat([mean_K, mean_K.new_tensor([own])]))


@torch.no_grad()
def own_noise(tokens_US: Tensor, numbers: int) -> Tensor:
    """Return Gumbel variables [U, K] that are a hash of each sequence, the same on every device."""
    position_S = torch.arange(1, tokens_US.shape[1] + 1, device=tokens_US.device).int()
    number_K = torch.arange(1, numbers + 1, device=tokens_US.device).int()
    hash_U = (tokens_US.int() * _mixed(position_S * _GOLDEN)).sum(dim=1, dtype=torch.int32)
    bits_UK = _mixed(_mixed(hash_U)[:, None] ^ _mixed(number_K * _GOLDEN + 1))
    uniform_UK = ((_shifted(bits_UK, 8)).float() + 0.5) / (1 << 24)
    return -torch.log(-torch.log(uniform_UK.clamp(max=1 - 2**-24)))


def _mixed(value: Tensor) -> Tensor:
    value = (value ^ _shifted(value, 16)) * _MIX[0]
    value = (value ^ _shifted(value, 13)) * _MIX[1]
    return value ^ _shifted(value, 16)


def _shifted(value: Tensor, bits: int) -> Tensor:
    """Return the bits of int32 moved to the right, zeros behind them."""
    return (value >> bits) & ((1 << (32 - bits)) - 1)


def pooled_sketches(sketch_BAK: Tensor, block: SampleBlock) -> tuple[Tensor, Tensor]:
    """Return two sketches [B, K] of samples: the largest numbers of their ASVs.

    For the second every ASV has lengths in proportion to the root of its fraction of the reads;
    the reads of a masked ASV count as one.
    """
    reads_BA = block.counts_BA.clamp(min=1)
    if block.count_mask_BA is not None:
        reads_BA = reads_BA.masked_fill(block.count_mask_BA, 1.0)
    log_BA = torch.log(reads_BA / block.counts_BA.sum(dim=1, keepdim=True).clamp(min=1))
    sketch_BAK = sketch_BAK.float().masked_fill(~block.present_BA[..., None], NEVER)
    return sketch_BAK.amax(dim=1), (sketch_BAK + POWER * log_BA[..., None]).amax(dim=1)


class SketchDistance(nn.Module):
    """Unweighted UniFrac from the first sketches in the samples' embeddings."""

    def __init__(self, width: int, numbers: int) -> None:
        super().__init__()
        self.place = slice(width, width + numbers)

    def forward(self, sample_BX: Tensor) -> Tensor:
        """Return distances [B, B] in fp32."""
        sketch_BK = self.projected(sample_BX)
        return self.between(sketch_BK, sketch_BK)

    def projected(self, sample_NX: Tensor) -> Tensor:
        """Return the sketches [N, K]."""
        return sample_NX[:, self.place].float()

    def calibrate(self, sample_BX: Tensor, mean: float) -> None:
        """Do nothing: a sketch has no scale."""

    def between(self, a_NK: Tensor, b_MK: Tensor) -> Tensor:
        """Return the distances [N, M] of two sets of sketches, row after row to save memory."""
        with torch.autocast(a_NK.device.type, enabled=False):
            both_NM = torch.stack([torch.maximum(a_K, b_MK).mean(dim=1) for a_K in a_NK])
            own_N, own_M = a_NK.mean(dim=1), b_MK.mean(dim=1)
            # Estimates of two samples without a common branch may lie above 1.
            return 2.0 - (own_N[:, None] - both_NM).exp() - (own_M - both_NM).exp()
