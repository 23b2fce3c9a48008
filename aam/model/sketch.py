"""Sketches: numbers that stand for the branches above an ASV; a set's are the largest of its ASVs'.

Every branch b of length l gets K independent Gumbel variables G; the k-th number of a set of
branches is the largest log(l_b) + G_bk in it. It is a Gumbel variable again, whose location is the
logarithm of the set's length (the trick of Maddison, Tarlow and Minka 2014, arXiv:1411.0030). So
the mean of the sketch of sample s estimates log W_s up to a constant, the mean of the larger of two
sketches the logarithm of what both have together, and

    unweighted UniFrac of s and t = 2 - exp(log W_s - log W_st) - exp(log W_t - log W_st)

The sketch of a sample is the largest of those of its ASVs, whatever their number
(`aam.model.placement` makes those). A second sketch of a sample weighs its ASVs by their reads. The
variables of the branch to an ASV alone are a hash of the sequence.

Shape suffixes: U ASVs or branches, S positions, K numbers of a sketch, B samples, A ASVs in a
sample, N and M samples of two sets, X width of an embedding with its sketch.
"""

import torch
from torch import Tensor, nn

from aam.model.batch import SampleBlock

SKETCHED = "unweighted"
"""The metric that follows from sketches."""
POWER = 0.5
"""Exponent of an ASV's fraction of the reads in the second sketch of a sample."""
BELOW_ALL = -30.0
"""Less than any number of a sketch."""
_MIX = (0x85EBCA6B - (1 << 32), 0xC2B2AE35 - (1 << 32))
"""Factors of the finalizer of MurmurHash3, as signed numbers."""
_GOLDEN = 0x9E3779B9 - (1 << 32)


def own_noise(tokens_US: Tensor, numbers: int) -> Tensor:
    """Return Gumbel variables [U, K] that are a hash of each sequence, zeros behind it aside."""
    position_S = torch.arange(1, tokens_US.shape[1] + 1, device=tokens_US.device).int()
    hash_U = (tokens_US.int() * _mixed(position_S * _GOLDEN)).sum(dim=1, dtype=torch.int32)
    return _gumbel(hash_U, numbers)


def branch_noise(branch_U: Tensor, numbers: int) -> Tensor:
    """Return Gumbel variables [U, K] of some branches by their numbers, in int32."""
    return _gumbel((branch_U + 1) * _GOLDEN, numbers)


def _gumbel(hash_U: Tensor, numbers: int) -> Tensor:
    """Return Gumbel variables [U, K] that are a function of a hash, the same on every device."""
    number_K = torch.arange(1, numbers + 1, device=hash_U.device).int()
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

    For the second an ASV's lengths go with the root of its share of reads; masked, it has one read.
    """
    reads_BA = block.counts_BA.clamp(min=1)
    if block.count_mask_BA is not None:
        reads_BA = reads_BA.masked_fill(block.count_mask_BA, 1.0)
    log_BA = torch.log(reads_BA / block.counts_BA.sum(dim=1, keepdim=True).clamp(min=1))
    sketch_BAK = sketch_BAK.float().masked_fill(~block.present_BA[..., None], BELOW_ALL)
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
