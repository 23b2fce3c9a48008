"""Heads on the embeddings.

Letters: B samples, D width, M masked nucleotides, P nucleotides per patch, C outputs.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, gelu

from aam.model.batch import Masked


def standardization(width: int) -> nn.BatchNorm1d:
    """Return a layer that standardizes by the batch in training, else by what `settle` has set."""
    return nn.BatchNorm1d(width, affine=False, momentum=0.0)


class DistanceHead(nn.Module):
    """Distances of all pairs of samples from a projection of their standardized embeddings.

    The projection's Euclidean distance is mapped by 1 - exp(-x), whose scale the projection learns;
    `unbounded` metrics are left as they are.

    Parameters
    ----------
    width
        Width of the embeddings.
    bounded
        True for metrics between 0 and 1.
    """

    def __init__(self, width: int, *, bounded: bool) -> None:
        super().__init__()
        self.standardize = standardization(width)
        self.project = nn.Linear(width, width, bias=False)
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.bounded = bounded

    def forward(self, sample_BD: Tensor) -> Tensor:
        """Return distances [B, B] in fp32."""
        projected = self.projected(sample_BD)
        return self.between(projected, projected)

    def projected(self, sample_ND: Tensor) -> Tensor:
        """Return the projected embeddings [N, D] in fp32, whatever the arithmetic around."""
        with torch.autocast(sample_ND.device.type, enabled=False):
            return self.project(self.standardize(sample_ND.float()))

    @torch.no_grad()
    def calibrate(self, sample_BD: Tensor, mean: float) -> None:
        """Set the scale so that the mean distance of some untrained embeddings is `mean`."""
        standard_BD = batch_norm(sample_BD.float(), None, None, training=True)
        pairs = torch.pdist(self.project(standard_BD))
        wanted = -math.log1p(-min(mean, 0.99)) if self.bounded else mean
        self.log_scale.fill_(math.log(wanted / max(float(pairs.mean()), 1e-6)))

    def between(self, a_ND: Tensor, b_MD: Tensor) -> Tensor:
        """Return the distances [N, M] of two sets of projected embeddings."""
        with torch.autocast(a_ND.device.type, enabled=False):
            # Embeddings of one study lie close together: far from the origin their squares cancel.
            center_D = b_MD.detach().mean(dim=0)
            a_ND, b_MD = a_ND - center_D, b_MD - center_D
            product_NM = a_ND @ b_MD.T
            square = a_ND.square().sum(-1, keepdim=True) + b_MD.square().sum(-1) - 2.0 * product_NM
            # The root has no finite slope at zero, where a sample meets itself.
            euclidean = square.clamp(min=1e-8).sqrt() * self.log_scale.exp()
            return 1.0 - torch.exp(-euclidean) if self.bounded else euclidean


class NucleotideHead(nn.Module):
    """Logits of the four bases at masked positions only."""

    def __init__(self, width: int, patch_bp: int) -> None:
        super().__init__()
        self.patch_bp = patch_bp
        self.norm = nn.LayerNorm(width)
        self.bases = nn.Linear(width, patch_bp * 4)

    def forward(self, hidden_MD: Tensor, masked: Masked) -> Tensor:
        """Return logits [M, 4] in fp32 from the patches of one block's masked nucleotides."""
        logits_MP4 = self.bases(self.norm(hidden_MD)).unflatten(-1, (self.patch_bp, 4))
        offset_M11 = (masked.position_M % self.patch_bp)[:, None, None].expand(-1, 1, 4)
        return logits_MP4.gather(1, offset_M11).squeeze(1).float()


class ValueHead(nn.Module):
    """Two layers from a sample embedding to C outputs.

    Embeddings of one study lie close together, so they are standardized first: in training by the
    batch, so that a drift common to all samples has no effect, else by what `settle` has set.

    Parameters
    ----------
    width, outputs
        Width of the embedding; number of outputs.
    """

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.standardize = standardization(width)
        self.hidden = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.0)
        self.out = nn.Linear(width, outputs)

    def forward(self, sample_BD: Tensor) -> Tensor:
        """Return [B, C] in fp32."""
        hidden = gelu(self.hidden(self.standardize(sample_BD.float())))
        return self.out(self.dropout(hidden)).float()
