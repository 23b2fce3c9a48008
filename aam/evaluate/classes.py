"""What scores and trainings ask of predicted classes alike.

Shape suffixes: N samples, C classes.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

TEMPERATURES = (0.05, 20.0)
"""Least and largest temperature."""


def mean_recall(truth: NDArray[Any], guess: NDArray[Any]) -> float:
    """Return the mean recall of the classes that occur, by names or numbers of classes [N]."""
    is_right = truth == guess
    return float(np.mean([is_right[truth == name].mean() for name in np.unique(truth)]))


def temperature_of(logit_NC: NDArray[np.float64], code_N: NDArray[np.int64]) -> float:
    """Return what logits are divided by for the least log loss of the true classes.

    Guo et al. (2017), On calibration of modern neural networks, arXiv:1706.04599.
    """

    def log_loss(log_temperature: float) -> float:
        log_share_NC = log_softmax(logit_NC / math.exp(log_temperature), axis=1)
        return -float(np.take_along_axis(log_share_NC, code_N[:, None], axis=1).mean())

    bounds = tuple(math.log(value) for value in TEMPERATURES)
    return math.exp(minimize_scalar(log_loss, bounds=bounds, method="bounded").x)
