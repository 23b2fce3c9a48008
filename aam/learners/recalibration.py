"""Probabilities brought to how frequent classes are, and to how well they tell classes apart.

All methods are fitted with classes balanced, so that a rare class gets probabilities that are too
high. A class's log-probability is multiplied by one slope and moved by an intercept of the class:

    p'_c ∝ exp(slope * log p_c + intercept_c)

With slope 0 every sample gets the frequencies of the classes, which is the best constant.

Shape suffixes: N samples, C classes, G groups, P parameters (a slope, then the intercepts).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from aam.data.predictions import class_codes

PSEUDO_SAMPLES = 1.0
"""Samples that are added, spread evenly over the classes: no frequency is 0, no slope infinite."""
FLOOR = 1e-3
"""Share of the uniform distribution that is mixed into probabilities before the logarithm."""
LEAST_EVIDENCE = 4.0
"""Likelihood-ratio statistic up to which a slope counts as chance."""
TOLERANCE = 1e-8
"""Length of the gradient of the mean log loss at which the fit ends."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A slope and an intercept per class, fitted by log loss that does not balance classes."""

    slope: float
    """Not below 0; 0: every sample gets the frequencies of the classes."""
    intercept_C: Floats

    @classmethod
    def fit(
        cls,
        observed: ArrayLike,
        probabilities: ArrayLike,
        classes: Sequence[str],
        group: ArrayLike,
    ) -> "Recalibration":
        """Learn from predictions of samples that the method was not trained on.

        The slope of least log loss is multiplied by 1 - 4 / w, and it is 0 where w is below 4.
        w is twice the gain of log-likelihood over the frequencies of the classes, divided by how
        much more the gain varies because samples of one group are alike. So a slope that chance
        explains is 0, and one that is clearly shown stays almost as it is.

        Parameters
        ----------
        observed
            Names of the true classes, [N].
        probabilities
            The method's own, [N, C].
        classes
            Names of the columns, [C].
        group
            What keeps samples together, [N]; a sample that is alone has a name of its own.

        Returns
        -------
        Recalibration
            Without any samples the one that leaves probabilities as they are.
        """
        code_N = class_codes(observed, classes)
        if not len(code_N):
            return cls(slope=1.0, intercept_C=np.zeros(len(classes)))
        label_NC = _smoothed_labels(code_N, len(classes))
        frequency_C = label_NC.mean(axis=0)
        input_NC = _inputs(probabilities)
        constant_loss = -float(frequency_C @ np.log(frequency_C))

        fitted, loss = _least_log_loss(input_NC, label_NC)
        gain = 2.0 * len(code_N) * (constant_loss - loss)
        evidence = gain / _inflation(input_NC, label_NC, np.asarray(group))
        if fitted.slope <= 0 or evidence <= LEAST_EVIDENCE:
            return cls(slope=0.0, intercept_C=np.log(frequency_C))
        slope = fitted.slope * (1.0 - LEAST_EVIDENCE / evidence)
        # The intercepts belong to the slope: with another one the frequencies would be missed.
        shrunken, _ = _least_log_loss(input_NC, label_NC, slope=slope)
        return shrunken

    def apply(self, probabilities: ArrayLike) -> Floats:
        """Return calibrated probabilities, [N, C].

        Parameters
        ----------
        probabilities
            The method's own, [N, C].
        """
        return softmax(self.slope * _inputs(probabilities) + self.intercept_C, axis=1)

    def plain(self, classes: Sequence[str]) -> dict[str, Any]:
        """Return slope and intercepts as JSON has them.

        Parameters
        ----------
        classes
            Names of the classes, [C].
        """
        intercepts = dict(zip(classes, self.intercept_C.tolist(), strict=True))
        return {"slope": self.slope, "intercepts": intercepts}


def class_frequencies(observed: ArrayLike, classes: Sequence[str]) -> Floats:
    """Return how frequent each class is, smoothed by one sample that is spread evenly, [C].

    Parameters
    ----------
    observed
        Names of the classes of N samples.
    classes
        All classes, in order.
    """
    code_N = class_codes(observed, classes)
    count_C = np.bincount(code_N, minlength=len(classes)).astype(np.float64)
    return (count_C + PSEUDO_SAMPLES / len(classes)) / (len(code_N) + PSEUDO_SAMPLES)


def _inputs(probabilities: ArrayLike) -> Floats:
    """Return logarithms of probabilities, with a floor below which they do not differ much."""
    share_NC = np.asarray(probabilities, dtype=np.float64)
    return np.log((1.0 - FLOOR) * share_NC + FLOOR / share_NC.shape[1])


def _smoothed_labels(code_N: NDArray[np.int64], classes: int) -> Floats:
    """Return 1 for the true class and 0 for others, [N, C], mixed with the uniform distribution.

    Their mean is `class_frequencies`. Platt, J. (1999), Probabilistic outputs for support vector
    machines, smooths labels likewise.
    """
    uniform = PSEUDO_SAMPLES / (len(code_N) + PSEUDO_SAMPLES)
    return (1.0 - uniform) * np.eye(classes)[code_N] + uniform / classes


def _inflation(input_NC: Floats, label_NC: Floats, group_N: NDArray[Any]) -> float:
    """Return how much more the score of the slope varies over groups than over lone samples.

    The score is the derivative of the log-likelihood by the slope where the slope is 0. Its mean
    is taken off first: what all groups agree on is no sign that samples of a group are alike.
    """
    residual_NC = label_NC - label_NC.mean(axis=0)
    score_N = (residual_NC * (input_NC - input_NC.mean(axis=0))).sum(axis=1)
    score_N = score_N - score_N.mean()
    _, code_N = np.unique(group_N.astype(str), return_inverse=True)
    score_G = np.bincount(code_N, weights=score_N)
    alone = float(score_N @ score_N)
    groups = len(score_G)
    if alone == 0 or groups == 1:
        return 1.0
    return max(1.0, groups / (groups - 1) * float(score_G @ score_G) / alone)


def _least_log_loss(
    input_NC: Floats, label_NC: Floats, slope: float | None = None
) -> tuple[Recalibration, float]:
    """Return the recalibration of least mean log loss, and that loss.

    The loss is convex. Where `slope` is given, the intercepts alone are fitted.
    """
    fixed_P = np.array([] if slope is None else [slope])
    frequent_C = np.log(label_NC.mean(axis=0))
    free = slice(len(fixed_P), None)

    def loss(free_P: Floats) -> tuple[float, Floats]:
        parameter_P = np.concatenate([fixed_P, free_P])
        log_share_NC = log_softmax(parameter_P[0] * input_NC + parameter_P[1:], axis=1)
        residual_NC = np.exp(log_share_NC) - label_NC
        slope_gradient = np.vdot(residual_NC, input_NC) / len(input_NC)
        gradient_P = np.concatenate([[slope_gradient], residual_NC.mean(axis=0)])
        return -float(np.vdot(label_NC, log_share_NC)) / len(input_NC), gradient_P[free]

    def curvature(free_P: Floats) -> Floats:
        parameter_P = np.concatenate([fixed_P, free_P])
        return _curvature(input_NC, parameter_P)[free, free]

    start_P = np.concatenate([[0.0], frequent_C])[free]
    # The Hessian is singular, since adding a number to all intercepts changes nothing: a trust
    # region bounds the steps along which the loss does not change.
    found = minimize(
        loss, start_P, jac=True, hess=curvature, method="trust-ncg", options={"gtol": TOLERANCE}
    )
    parameter_P = np.concatenate([fixed_P, found.x])
    intercept_C = parameter_P[1:] - parameter_P[1:].mean()
    return Recalibration(slope=float(parameter_P[0]), intercept_C=intercept_C), float(found.fun)


def _curvature(input_NC: Floats, parameter_P: Floats) -> Floats:
    """Return the Hessian of the mean log loss, [P, P]."""
    samples = len(input_NC)
    share_NC = softmax(parameter_P[0] * input_NC + parameter_P[1:], axis=1)
    centred_NC = input_NC - (share_NC * input_NC).sum(axis=1, keepdims=True)
    weighted_NC = share_NC * centred_NC
    curvature_PP = np.empty((len(parameter_P), len(parameter_P)))
    curvature_PP[0, 0] = (weighted_NC * centred_NC).sum() / samples
    curvature_PP[0, 1:] = weighted_NC.mean(axis=0)
    curvature_PP[1:, 0] = curvature_PP[0, 1:]
    curvature_PP[1:, 1:] = np.diag(share_NC.mean(axis=0)) - share_NC.T @ share_NC / samples
    return curvature_PP
