"""Losses on targets from the sample metadata.

Letters: B samples, C outputs or classes.
"""

from torch import Tensor
from torch.nn.functional import cross_entropy, huber_loss


def regression_error(predicted_BC: Tensor, true_BC: Tensor) -> Tensor:
    """Return the Huber loss of standardized targets: squared below one deviation, linear above."""
    return huber_loss(predicted_BC, true_BC)


def classification_error(logits_BC: Tensor, share_BC: Tensor) -> Tensor:
    """Return the cross-entropy against class shares."""
    return cross_entropy(logits_BC, share_BC)
