"""The statistics that heads standardize embeddings by, after training."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

SAMPLES = 1024
"""Training samples that the statistics are taken from."""


def select_evenly(samples: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `SAMPLES` of the samples, evenly spread over their order.

    Parameters
    ----------
    samples
        Positions of samples in the store.

    Returns
    -------
    numpy.ndarray
        Some of these positions, in the same order.
    """
    return samples[np.linspace(0, len(samples) - 1, min(len(samples), SAMPLES)).astype(np.int64)]


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
