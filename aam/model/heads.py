"""Heads on the embeddings, the loss of distances, and the statistics that heads standardize by.

Shape suffixes: B samples, N and M samples of two sets, A ASVs in a sample, D width, P nucleotides
per patch, C outputs, K classes, T = K - 1 thresholds; of nucleotides M masked ones.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import batch_norm, gelu, mse_loss, pad, softplus

from aam.config.metrics import METRICS
from aam.model.asv_encoders import Architecture
from aam.model.batch import Masked

STATISTICS_SAMPLES = 1024
"""Training samples that the statistics are taken from."""


class DistanceHead(nn.Module):
    """Distances of all pairs of samples from a projection of their standardized embeddings.

    The Euclidean distance x of two projections, whose scale is learned, becomes 1 - exp(-x) for a
    bounded metric.

    Parameters
    ----------
    width
        Width D of an embedding.
    bounded
        Whether the distances are 1 at most.
    """

    def __init__(self, width: int, *, bounded: bool) -> None:
        super().__init__()
        # Training standardizes by the batch. Otherwise the running statistics count, which momentum
        # 0 leaves alone: `recalibrate_batch_norm` sets them after training.
        self.standardize = nn.BatchNorm1d(width, affine=False, momentum=0.0)
        self.project = nn.Linear(width, width, bias=False)
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.bounded = bounded

    def forward(self, sample_BD: Tensor) -> Tensor:
        """Return the distances of all pairs of samples.

        Parameters
        ----------
        sample_BD
            Embeddings.

        Returns
        -------
        torch.Tensor
            Distances [B, B], fp32.
        """
        projected_BD = self.project_samples(sample_BD)
        return self.pairwise_distances(projected_BD, projected_BD)

    def project_samples(self, sample_ND: Tensor) -> Tensor:
        """Standardize and project embeddings, in fp32 whatever the arithmetic around.

        Parameters
        ----------
        sample_ND
            Embeddings.

        Returns
        -------
        torch.Tensor
            [N, D], fp32.
        """
        with torch.autocast(sample_ND.device.type, enabled=False):
            return self.project(self.standardize(sample_ND.float()))

    @torch.no_grad()
    def calibrate(self, sample_BD: Tensor, mean: float) -> None:
        """Set the scale so that some untrained embeddings have a given mean distance.

        Parameters
        ----------
        sample_BD
            Embeddings.
        mean
            Mean distance of all pairs.
        """
        standard_BD = batch_norm(sample_BD.float(), None, None, training=True)
        pairs = torch.pdist(self.project(standard_BD))
        # The Euclidean distance that the last layer turns into the mean: it inverts 1 - exp(-x).
        wanted = -math.log1p(-min(mean, 0.99)) if self.bounded else mean
        unscaled = float(pairs.mean())
        self.log_scale.fill_(math.log(max(wanted, 1e-6) / max(unscaled, 1e-6)))

    def pairwise_distances(self, a_ND: Tensor, b_MD: Tensor) -> Tensor:
        """Return the distances of two sets of samples.

        Parameters
        ----------
        a_ND, b_MD
            Their projected embeddings, fp32.

        Returns
        -------
        torch.Tensor
            Distances [N, M], fp32.
        """
        with torch.autocast(a_ND.device.type, enabled=False):
            # Embeddings of one study lie close together: far from the origin their squares cancel.
            center_D = b_MD.detach().mean(dim=0)
            a_ND = a_ND - center_D
            b_MD = b_MD - center_D
            product_NM = a_ND @ b_MD.T
            square_a_N1 = a_ND.square().sum(-1, keepdim=True)
            square_b_M = b_MD.square().sum(-1)
            square_NM = square_a_N1 + square_b_M - 2.0 * product_NM
            # The root has no finite slope at zero, where a sample meets itself.
            euclidean_NM = square_NM.clamp(min=1e-8).sqrt() * self.log_scale.exp()
            return 1.0 - torch.exp(-euclidean_NM) if self.bounded else euclidean_NM


def distance_head(shape: Architecture, metric: str) -> DistanceHead:
    """Return what turns sample embeddings into distances.

    Parameters
    ----------
    shape
        Architecture of the encoder.
    metric
        A name in `aam.config.metrics.METRICS`.

    Returns
    -------
    DistanceHead
        With new weights, from torch's random state.
    """
    return DistanceHead(shape.width, bounded=METRICS[metric].bounded)


def pairwise_error(predicted_BB: Tensor, true_BB: Tensor, variance: float) -> Tensor:
    """Return the mean squared error over pairs of different samples.

    Parameters
    ----------
    predicted_BB, true_BB
        Distances, with zeros on the diagonals.
    variance
        Unit of the result. With the variance of the true distances, predicting their mean costs 1.

    Returns
    -------
    torch.Tensor
        One number.
    """
    pairs = predicted_BB.shape[0] * (predicted_BB.shape[0] - 1)
    return mse_loss(predicted_BB, true_BB, reduction="sum") / (pairs * variance)


class NucleotideHead(nn.Module):
    """Logits of the four bases at masked positions only.

    Parameters
    ----------
    width
        Width D of a patch.
    patch_bp
        Nucleotides of a patch.
    """

    def __init__(self, width: int, patch_bp: int) -> None:
        super().__init__()
        self.patch_bp = patch_bp
        self.norm = nn.LayerNorm(width)
        self.bases = nn.Linear(width, patch_bp * 4)

    def forward(self, hidden_MD: Tensor, masked: Masked) -> Tensor:
        """Return the logits of the four bases.

        Parameters
        ----------
        hidden_MD
            Patches of the masked nucleotides of one block.
        masked
            These nucleotides.

        Returns
        -------
        torch.Tensor
            Logits [M, 4], fp32, in the order A, C, G, T.
        """
        logits_MP4 = self.bases(self.norm(hidden_MD)).unflatten(-1, (self.patch_bp, 4))
        # A patch has logits for all of its positions; each masked nucleotide takes those of its
        # own.
        offset_M11 = (masked.position_M % self.patch_bp)[:, None, None].expand(-1, 1, 4)
        return logits_MP4.gather(1, offset_M11).squeeze(1).float()


class ValueHead(nn.Module):
    """Two layers from a sample embedding to outputs.

    Embeddings of one study lie close, and drift together: they are standardized first.

    Parameters
    ----------
    width
        Width D of an embedding.
    outputs
        Number of outputs, C.
    """

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        # Training standardizes by the batch. Otherwise the running statistics count, which momentum
        # 0 leaves alone: `recalibrate_batch_norm` sets them after training.
        self.standardize = nn.BatchNorm1d(width, affine=False, momentum=0.0)
        self.hidden = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.0)
        self.out = nn.Linear(width, outputs)

    def forward(self, sample_BD: Tensor) -> Tensor:
        """Return the outputs.

        Parameters
        ----------
        sample_BD
            Embeddings.

        Returns
        -------
        torch.Tensor
            [B, C], fp32.
        """
        return self.from_standard(self.standard(sample_BD))

    def standard(self, sample_BD: Tensor) -> Tensor:
        """Return standardized embeddings [B, D]."""
        return self.standardize(sample_BD.float())

    def from_standard(self, standard_BD: Tensor) -> Tensor:
        """Return [B, C] in fp32 from standardized embeddings."""
        return self.out(self.dropout(gelu(self.hidden(standard_BD)))).float()


class Thresholds(nn.Module):
    """Logits of lying above each class but the highest: one score against ordered thresholds.

    These are the rank-consistent outputs of CORAL (Cao, Mirjalili & Raschka 2020,
    arXiv:1901.07884). At the start a score of 0 gives the classes' fractions of the training
    samples, because steps are too few to move far.

    Parameters
    ----------
    fractions
        Fraction of the training samples in each class, the lowest class first.
    """

    LEAST = 0.01
    """Least fraction of a class, and least gap of two thresholds, that the start is made from."""

    def __init__(self, fractions: Sequence[float]) -> None:
        super().__init__()
        below_T = torch.tensor(fractions, dtype=torch.float64).cumsum(0)[:-1]
        start_T = torch.logit(below_T.clamp(self.LEAST, 1 - self.LEAST))
        gap_T = start_T.diff().clamp(min=self.LEAST)
        self.first = nn.Parameter(start_T[:1].float())
        # expm1 and log invert the softplus of the forward pass.
        self.gaps = nn.Parameter(gap_T.expm1().log().float())

    def forward(self, score_B1: Tensor) -> Tensor:
        """Return the logits of a score.

        Parameters
        ----------
        score_B1
            Score of each sample, the higher the higher its class.

        Returns
        -------
        torch.Tensor
            Logits [B, T], descending in each row, fp32.
        """
        rise_T = softplus(self.gaps).expand(len(self.gaps), -1).tril().sum(dim=1)
        threshold_T = self.first + pad(rise_T, (1, 0))
        return score_B1.float() - threshold_T


def select_evenly(samples: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `STATISTICS_SAMPLES` of the samples, evenly spread over their order.

    Parameters
    ----------
    samples
        Positions of samples in the store.

    Returns
    -------
    numpy.ndarray
        Some of these positions, in the same order.
    """
    return samples[
        np.linspace(0, len(samples) - 1, min(len(samples), STATISTICS_SAMPLES)).astype(np.int64)
    ]


@torch.no_grad()
def recalibrate_batch_norm(heads: nn.Module, embedding_ND: Tensor) -> None:
    """Set the statistics of every standardization in `heads` to those of some embeddings.

    Training standardizes by the statistics of its batches, whose nucleotides are masked. The
    samples that are scored later are not masked, so that their statistics differ.

    Parameters
    ----------
    heads
        Module whose layers of batch normalization are changed in place.
    embedding_ND
        Embeddings of samples, in fp32, on any device.
    """
    for layer in heads.modules():
        if isinstance(layer, nn.BatchNorm1d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            layer.running_mean.copy_(embedding_ND.mean(dim=0))
            layer.running_var.copy_(embedding_ND.var(dim=0, unbiased=False))
