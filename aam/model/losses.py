"""Losses of targets, each one number.

Shape suffixes: B samples, C numbers, Q quantiles, K classes, T = K - 1 thresholds, O raw outputs, E
encoded values of a target.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from aam.data.target import QUANTILES, Target


def pinball_error(predicted_BCQ: Tensor, true_BC: Tensor, level_Q: Tensor) -> Tensor:
    """Return the mean pinball loss of several quantiles (Koenker & Bassett 1978).

    Parameters
    ----------
    predicted_BCQ
        Quantiles in any order: they are sorted, so that none can cross another.
    true_BC
        True numbers.
    level_Q
        Levels of the quantiles, ascending.

    Returns
    -------
    torch.Tensor
        One number.
    """
    missing_BCQ = true_BC[..., None] - predicted_BCQ.sort(dim=-1).values
    return torch.maximum(level_Q * missing_BCQ, (level_Q - 1) * missing_BCQ).mean()


def class_error(logits_BK: Tensor, true_BK: Tensor, weight_K: Tensor | None) -> Tensor:
    """Return the mean cross-entropy against class probabilities.

    Parameters
    ----------
    logits_BK
        Raw outputs.
    true_BK
        Probabilities of the classes.
    weight_K
        Weights of the classes; None: all are equal. The mean is over samples, not over weights.

    Returns
    -------
    torch.Tensor
        One number.
    """
    return functional.cross_entropy(logits_BK, true_BK, weight=weight_K)


def ordinal_error(logits_BT: Tensor, true_BK: Tensor, weight_K: Tensor | None) -> Tensor:
    """Return the mean binary cross-entropy of "above class k", one question per threshold.

    This is the loss of CORAL (Cao, Mirjalili & Raschka 2020, arXiv:1901.07884).

    Parameters
    ----------
    logits_BT
        Logits of lying above each class but the highest.
    true_BK
        Probabilities of the classes, the lowest first.
    weight_K
        Weights of the classes; None: all are equal. A sample has the mean weight of its classes.

    Returns
    -------
    torch.Tensor
        One number.
    """
    # On an accelerator a running sum has no deterministic algorithm.
    below_BT = true_BK[:, None].expand(-1, true_BK.shape[1] - 1, -1).tril().sum(dim=2)
    above_BT = (1 - below_BT).clamp(0, 1)
    error_BT = functional.binary_cross_entropy_with_logits(logits_BT, above_BT, reduction="none")
    if weight_K is not None:
        error_BT = error_BT * (true_BK @ weight_K)[:, None]
    return error_BT.mean()


LOSSES: dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "mae": lambda output, true, _: functional.l1_loss(output, true),
    "huber": lambda output, true, _: functional.huber_loss(output, true),
    "mse": lambda output, true, _: functional.mse_loss(output, true),
    "quantile": lambda output, true, level_Q: pinball_error(
        output.unflatten(1, (-1, len(QUANTILES))), true, level_Q
    ),
    "cross_entropy": class_error,
    "ordinal": ordinal_error,
}
"""Losses of raw outputs [B, O] by encoded values [B, E]; `aam.config.losses` says which fits what.
The third argument is the `constant` of `TargetLoss`: levels of quantiles, weights of classes (None:
all are equal), or nothing."""


class TargetLoss(nn.Module):
    """The loss of a target, a name in `LOSSES`.

    Levels of quantiles and class weights move to the device with the model, because copying them in
    a step would wait for it. They are not among the saved weights: the target is saved with the
    model.

    Parameters
    ----------
    target
        Has the name of the loss and the classes' weights.
    """

    constant: Tensor | None
    """Levels of the quantiles, or weights of the classes; None: the loss needs neither."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.loss = target.loss
        values = QUANTILES if target.loss == "quantile" else target.class_weights
        self.register_buffer("constant", torch.tensor(values) if values else None, persistent=False)

    def forward(self, output_BO: Tensor, true_BE: Tensor) -> Tensor:
        """Return the mean loss.

        Parameters
        ----------
        output_BO
            Raw outputs.
        true_BE
            Encoded values of the target.

        Returns
        -------
        torch.Tensor
            One number.
        """
        return LOSSES[self.loss](output_BO, true_BE, self.constant)
