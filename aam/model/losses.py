"""Losses of targets and of masked counts, each one number.

Shape suffixes: B samples, C numbers, Q quantiles, K classes, T = K - 1 thresholds, O raw outputs, E
encoded values of a target, X ASVs of samples.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from aam.data.target import QUANTILES, Target

LEAST_VARIANCE = 0.1
"""Least variance of log(1 + reads) that is divided by: a batch may have equal reads throughout."""


def pinball_error(predicted_BCQ: Tensor, true_BC: Tensor, levels: Sequence[float]) -> Tensor:
    """Return the mean pinball loss of several quantiles (Koenker & Bassett 1978).

    The quantiles of the ascending `levels` come in any order: sorted, none can cross another.
    """
    level_Q = predicted_BCQ.new_tensor(levels)
    missing_BCQ = true_BC[..., None] - predicted_BCQ.sort(dim=-1).values
    return torch.maximum(level_Q * missing_BCQ, (level_Q - 1) * missing_BCQ).mean()


def class_error(logits_BK: Tensor, true_BK: Tensor, target: Target) -> Tensor:
    """Return the mean cross-entropy against class probabilities, over samples, not over weights."""
    weight_K = logits_BK.new_tensor(target.class_weights) if target.class_weights else None
    return functional.cross_entropy(logits_BK, true_BK, weight=weight_K)


def ordinal_error(logits_BT: Tensor, true_BK: Tensor, target: Target) -> Tensor:
    """Return the mean binary cross-entropy of "above class k", one question per threshold.

    Loss of CORAL (Cao, Mirjalili & Raschka 2020, arXiv:1901.07884), against probabilities of the
    classes, the lowest first; a sample has the mean weight of its classes.
    """
    # On an accelerator a running sum has no deterministic algorithm.
    below_BT = true_BK[:, None].expand(-1, true_BK.shape[1] - 1, -1).tril().sum(dim=2)
    above_BT = (1 - below_BT).clamp(0, 1)
    error_BT = functional.binary_cross_entropy_with_logits(logits_BT, above_BT, reduction="none")
    if target.class_weights:
        error_BT = error_BT * (true_BK @ true_BK.new_tensor(target.class_weights))[:, None]
    return error_BT.mean()


LOSSES: dict[str, Callable[[Tensor, Tensor, Target], Tensor]] = {
    "mae": lambda output, true, target: functional.l1_loss(output, true),
    "huber": lambda output, true, target: functional.huber_loss(output, true),
    "mse": lambda output, true, target: functional.mse_loss(output, true),
    "quantile": lambda output, true, target: pinball_error(
        output.unflatten(1, (-1, len(QUANTILES))), true, QUANTILES
    ),
    # The pinball loss of one level: an error too low costs that much, one too high the rest.
    "asymmetric": lambda output, true, target: pinball_error(
        output[..., None], true, [target.asymmetry]
    ),
    "cross_entropy": class_error,
    "ordinal": ordinal_error,
}
"""Of raw outputs [B, O] against encoded values [B, E]; `aam.config.losses` says which fits what."""


def count_error(
    predicted_X: Tensor, log_reads_X: Tensor, masked_X: Tensor, present_X: Tensor
) -> Tensor:
    """Return the mean squared error of log(1 + reads) over ASVs with masked counts; 0 without any.

    The true values are standardized by mean and deviation over the ASVs that are present: else the
    first gradients would only move the common mean.
    """
    masked_X = masked_X & present_X
    number = present_X.sum().clamp(min=1)
    mean = (log_reads_X * present_X).sum() / number
    variance = ((log_reads_X - mean).square() * present_X).sum() / number
    true_X = (log_reads_X - mean) / variance.clamp(min=LEAST_VARIANCE).sqrt()
    squared_X = (predicted_X - true_X).square() * masked_X
    return squared_X.sum() / masked_X.sum().clamp(min=1)
