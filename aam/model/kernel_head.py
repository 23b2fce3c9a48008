"""A kernel head: numbers or logits from the likeness to the samples of training.

Shape suffixes: B samples, T training samples, D embedding, P known ASVs, F = D + P features, K
known ASVs that some samples have, G = D + K features, S positions of a sequence, O outputs, U ASVs
of a table.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

ABSENT = -1
"""Column of an ASV that the machine does not know."""


@dataclass(frozen=True)
class KernelShape:
    """Sizes of a kernel head."""

    samples: int
    """Samples of training."""
    asvs: int
    """ASVs whose reads it looks at."""
    length_bp: int
    """Nucleotides of a sequence that the encoder reads; ASVs are compared up to this length."""


class KernelHead(nn.Module):
    """Weighted likenesses of a sample to those of training, and a bias.

    The features of a sample are its embedding and the logarithms of its reads, centred and scaled.
    The likeness is a scalar product or, where `gaussian`, exp(-d^2 / 2) of the distance d.

    Parameters
    ----------
    shape
        Sizes of the machine.
    inputs
        Width D of an embedding.
    outputs
        Number of outputs, O.
    """

    center_F: Tensor
    """Means of the features."""
    scale_F: Tensor
    """Factors by which centred features are multiplied."""
    sample_TF: Tensor
    """The samples of training, centred and scaled."""
    weight_TO: Tensor
    """What the likeness to each sample of training adds to each output."""
    bias_O: Tensor
    gaussian: Tensor
    """Whether the likeness is Gaussian: a tensor, to be saved with the others."""
    asv_PS: Tensor
    """Tokens of the ASVs whose reads are features, in the order of these features."""

    def __init__(self, shape: KernelShape, inputs: int, outputs: int) -> None:
        super().__init__()
        features = inputs + shape.asvs
        asv_PS = torch.zeros(shape.asvs, shape.length_bp)
        self.register_buffer("center_F", torch.zeros(features))
        self.register_buffer("scale_F", torch.ones(features))
        self.register_buffer("sample_TF", torch.zeros(shape.samples, features))
        self.register_buffer("weight_TO", torch.zeros(shape.samples, outputs))
        self.register_buffer("bias_O", torch.zeros(outputs))
        self.register_buffer("gaussian", torch.tensor(False))
        self.register_buffer("asv_PS", asv_PS.to(torch.uint8))

    def forward(self, sample_BD: Tensor, log_BP: Tensor) -> Tensor:
        """Return raw outputs.

        Parameters
        ----------
        sample_BD
            Embeddings of samples.
        log_BP
            Their reads of the known ASVs, as `log_reads` returns them.

        Returns
        -------
        torch.Tensor
            [B, O], fp32.
        """
        with torch.autocast(sample_BD.device.type, enabled=False):
            feature_BF = torch.cat([sample_BD.float(), log_BP.float()], dim=1)
            return self.likeness(feature_BF) @ self.weight_TO + self.bias_O

    def likeness(self, feature_BF: Tensor) -> Tensor:
        """Return the likeness of samples to those of training.

        Parameters
        ----------
        feature_BF
            Embeddings and log-reads, next to each other.

        Returns
        -------
        torch.Tensor
            [B, T].
        """
        scaled_BF = (feature_BF - self.center_F) * self.scale_F
        product_BT = scaled_BF @ self.sample_TF.T
        if not self.gaussian:
            return product_BT
        square_B1 = scaled_BF.square().sum(dim=1, keepdim=True)
        # The squared distance d^2 is the sum of both squared norms less twice the product.
        return torch.exp(product_BT - (square_B1 + self._square_T()) / 2)

    def _square_T(self) -> Tensor:
        """Return the squared norms of the samples of training."""
        return self.sample_TF.square().sum(dim=1)

    @torch.no_grad()
    def part(self, column_K: Tensor) -> "KernelPart":
        """Return the machine for samples that have reads of some of the known ASVs alone.

        Parameters
        ----------
        column_K
            Columns of these ASVs, each once.

        Returns
        -------
        KernelPart
            A machine that gives the same outputs for such samples, from fewer features.
        """
        width = len(self.center_F) - len(self.asv_PS)
        embedding_D = torch.arange(width, device=column_K.device)
        kept_G = torch.cat([embedding_D, width + column_K])
        is_kept_F = torch.zeros(len(self.center_F), dtype=torch.bool, device=column_K.device)
        is_kept_F[kept_G] = True
        # In the other features all samples are alike: they have no reads.
        rest_F = torch.where(is_kept_F, 0.0, -self.center_F * self.scale_F)
        constant_T = self.sample_TF @ rest_F
        if self.gaussian:
            constant_T = constant_T - (rest_F.square().sum() + self._square_T()) / 2
        return KernelPart(
            center_G=self.center_F[kept_G],
            scale_G=self.scale_F[kept_G],
            sample_TG=self.sample_TF[:, kept_G],
            constant_T=constant_T,
            weight_TO=self.weight_TO,
            bias_O=self.bias_O,
            is_gaussian=bool(self.gaussian),
        )

    def columns(self, tokens_US: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the column of each ASV of a table.

        Parameters
        ----------
        tokens_US
            Tokens of the ASVs.

        Returns
        -------
        numpy.ndarray
            Columns [U], int64; `ABSENT` for an ASV that the machine does not know.
        """
        column_by_key = {}
        for column, row in enumerate(self.asv_PS.cpu().numpy()):
            column_by_key[_key(row)] = column
        read_US = tokens_US[:, : self.asv_PS.shape[1]]
        return np.array([column_by_key.get(_key(row), ABSENT) for row in read_US], np.int64)


@dataclass(frozen=True, eq=False)
class KernelPart:
    """A kernel head in the G features that some samples differ in; the others add a constant."""

    center_G: Tensor
    scale_G: Tensor
    sample_TG: Tensor
    constant_T: Tensor
    weight_TO: Tensor
    bias_O: Tensor
    is_gaussian: bool

    def __call__(self, sample_BD: Tensor, log_BK: Tensor) -> Tensor:
        """Return [B, O] in fp32, as the machine itself does."""
        with torch.autocast(sample_BD.device.type, enabled=False):
            feature_BG = torch.cat([sample_BD.float(), log_BK.float()], dim=1)
            scaled_BG = (feature_BG - self.center_G) * self.scale_G
            likeness_BT = scaled_BG @ self.sample_TG.T + self.constant_T
            if self.is_gaussian:
                square_B1 = scaled_BG.square().sum(dim=1, keepdim=True)
                likeness_BT = torch.exp(likeness_BT - square_B1 / 2)
            return likeness_BT @ self.weight_TO + self.bias_O


def log_reads(reads: Tensor) -> Tensor:
    """Return log(1 + 2 reads): 0 without reads, otherwise log(reads + 1/2) and a constant.

    Parameters
    ----------
    reads
        Reads, of any shape.

    Returns
    -------
    torch.Tensor
        Of the same shape and type.
    """
    return torch.log1p(2.0 * reads)


def _key(tokens_S: NDArray[np.uint8]) -> bytes:
    """Return what equal sequences share, whatever they are padded to."""
    # Behind the end of a sequence the tokens are 0.
    return tokens_S.tobytes().rstrip(b"\0")
