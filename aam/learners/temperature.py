"""Temperatures, which the probabilities of classes are scaled by: p^(1/T), normalized.

Guo et al. (2017), On calibration of modern neural networks, arXiv:1706.04599.

Shape suffixes: N samples, C classes.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from aam.data.predictions import LEAST_PROBABILITY, class_codes

TEMPERATURES = (0.05, 20.0)
"""Least and largest temperature."""


def fit_logit_temperature(
    logit_NC: NDArray[np.float64],
    code_N: NDArray[np.int64],
    strength: float = 0.0,
    weight_N: NDArray[np.float64] | None = None,
) -> float:
    """Return what logits are divided by for the least log loss of the true classes.

    Parameters
    ----------
    logit_NC
        Logits of the classes.
    code_N
        Number of the true class of each sample.
    strength
        Strength of the penalty on the squared logarithm of the temperature: without it, few samples
        without an error would make others too sure.
    weight_N
        Weights of the samples in the mean log loss; None: equal ones.

    Returns
    -------
    float
        The temperature, within `TEMPERATURES`.
    """

    def penalized_log_loss(log_temperature: float) -> float:
        log_share_NC = log_softmax(logit_NC / math.exp(log_temperature), axis=1)
        log_share_N = np.take_along_axis(log_share_NC, code_N[:, None], axis=1)[:, 0]
        loss = -float(np.average(log_share_N, weights=weight_N))
        return loss + strength * log_temperature**2

    # The logarithm is bounded, as a temperature of 0 would be best where all classes are right.
    bounds = tuple(math.log(value) for value in TEMPERATURES)
    return math.exp(minimize_scalar(penalized_log_loss, bounds=bounds, method="bounded").x)


def fit_temperature(
    observed: ArrayLike, probabilities: ArrayLike, classes: Sequence[str], strength: float = 0.0
) -> float:
    """Return the temperature of probabilities of least log loss.

    Parameters
    ----------
    observed
        Names of the true classes, [N].
    probabilities
        [N, C].
    classes
        Names of the columns, [C].
    strength
        Strength of the penalty, as for `fit_logit_temperature`.

    Returns
    -------
    float
        The temperature, within `TEMPERATURES`.
    """
    return fit_logit_temperature(_logits(probabilities), class_codes(observed, classes), strength)


def apply_temperature(probabilities: ArrayLike, temperature: float) -> NDArray[np.float64]:
    """Return p^(1/T), normalized, [N, C].

    Parameters
    ----------
    probabilities
        p, [N, C].
    temperature
        T.
    """
    return softmax(_logits(probabilities) / temperature, axis=1)


def _logits(probabilities: ArrayLike) -> NDArray[np.float64]:
    return np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), LEAST_PROBABILITY))
