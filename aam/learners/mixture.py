"""Weights of several methods that are mixed, by how well they predict what they never saw.

Shape suffixes: N samples, M methods, C classes (1 where a number is predicted).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from aam.data.predictions import class_codes
from aam.learners.temperature import apply_temperature, fit_temperature

RIDGE = 2.0
"""Penalty of weights that are not equal, for one group; it is divided by the number of groups."""
SMOOTH = 0.01
"""Part of the mean error of the best method below which an error counts as its square."""
TINY = 1e-100
"""Errors below which squares would be 0: they count in units of the largest."""
LEAST_PROBABILITY = 1e-3
"""What a smaller probability counts as where its logarithm is taken."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Mixture:
    """Weights of methods, and the temperatures that their probabilities are scaled by."""

    weights: Mapping[str, float]
    """Weights that are not negative, and that sum to 1."""
    temperatures: Mapping[str, float]
    """1 where numbers are predicted."""

    @classmethod
    def fit(
        cls,
        values: Mapping[str, Floats],
        observed: NDArray[Any],
        classes: Sequence[str],
        unit: NDArray[Any],
    ) -> "Mixture":
        """Learn the mixture of least absolute error, or, for classes, of least balanced log loss.

        The weights are pulled towards equal ones, the more so the fewer groups there are.

        Parameters
        ----------
        values
            Predicted numbers [N, 1], or probabilities [N, C], by method.
        observed
            Numbers, or names of classes, [N].
        classes
            Names of the classes; none where numbers are predicted.
        unit
            Group of each sample, [N].

        Returns
        -------
        Mixture
            Without any samples that of equal weights.
        """
        if not len(observed):
            return cls.equal(list(values))
        strength = RIDGE / len(np.unique(unit))
        if not classes:
            errors = [observed - value_NC[:, 0] for value_NC in values.values()]
            error_NM = np.stack(errors, axis=1)
            largest = float(np.abs(error_NM).max())
            if 0 < largest < TINY:
                error_NM = error_NM / largest
            weight_N = np.full(len(observed), 1.0 / len(observed))
            loss: _AbsoluteErrors | _LogLosses = _AbsoluteErrors(error_NM, weight_N)
            weight_M = _fit_weights(loss, strength, methods=len(values))
            return cls(_by_name(values, weight_M), dict.fromkeys(values, 1.0))
        code_N = class_codes(observed, classes)
        temperatures = {}
        true_probabilities = []
        for name, probability_NC in values.items():
            temperatures[name] = fit_temperature(observed, probability_NC, classes, strength)
            scaled_NC = apply_temperature(probability_NC, temperatures[name])
            true_probabilities.append(scaled_NC[np.arange(len(code_N)), code_N])
        probability_NM = np.stack(true_probabilities, axis=1)
        importance_N = 1.0 / np.bincount(code_N, minlength=len(classes))[code_N]
        loss = _LogLosses(probability_NM, importance_N / importance_N.sum())
        weight_M = _fit_weights(loss, strength, methods=len(values))
        return cls(_by_name(values, weight_M), temperatures)

    @classmethod
    def equal(cls, names: Sequence[str]) -> "Mixture":
        """Return a mixture of equal weights, used when there are no predictions to fit weights to.

        Parameters
        ----------
        names
            Names of the methods.
        """
        return cls(dict.fromkeys(names, 1.0 / len(names)), dict.fromkeys(names, 1.0))

    def plain(self) -> dict[str, dict[str, float]]:
        """Return weights and temperatures as JSON has them."""
        return {"weights": dict(self.weights), "temperatures": dict(self.temperatures)}

    def apply(self, values: Mapping[str, Floats]) -> Floats:
        """Return the mixed numbers, or probabilities, [N, C].

        Parameters
        ----------
        values
            What each method predicts, [N, C] by name.
        """
        parts = []
        for name, weight in self.weights.items():
            value_NC = values[name]
            if value_NC.shape[1] > 1:
                value_NC = apply_temperature(value_NC, self.temperatures[name])
            parts.append(weight * value_NC)
        return np.sum(parts, axis=0)


def _by_name(values: Mapping[str, Floats], weight_M: Floats) -> dict[str, float]:
    return dict(zip(values, map(float, weight_M), strict=True))


@dataclass(frozen=True, eq=False)
class _AbsoluteErrors:
    """The mean absolute error of a mixture, smooth near 0, as a function of the weights."""

    error_NM: Floats
    """Error of each method."""
    weight_N: Floats
    """Weight of each sample; they sum to 1."""
    least_unit: ClassVar = 0.0
    """Errors are as small as the unit of the target makes them."""

    def __call__(self, weight_M: Floats) -> tuple[float, Floats]:
        """Return the loss of some weights, and its slope [M]."""
        # The best method sets the scale: one that is far off would hide how the others differ.
        least_error = float((self.weight_N @ np.abs(self.error_NM)).min())
        smooth = SMOOTH * least_error if least_error > TINY else 1.0
        mixed_N = self.error_NM @ weight_M
        error_N = np.sqrt(mixed_N**2 + smooth**2)
        slope_M = (self.weight_N * mixed_N / error_N) @ self.error_NM
        return float(self.weight_N @ error_N), slope_M


@dataclass(frozen=True, eq=False)
class _LogLosses:
    """The mean log loss of a mixture, as a function of the weights."""

    probability_NM: Floats
    """Probability that each method gives to the observed class."""
    weight_N: Floats
    """Weight of each sample; they sum to 1."""
    least_unit: ClassVar = 1e-12
    """Log losses below it are rounding."""

    def __call__(self, weight_M: Floats) -> tuple[float, Floats]:
        """Return the loss of some weights, and its slope [M]."""
        mixed_N = self.probability_NM @ weight_M
        bounded_N = np.maximum(mixed_N, LEAST_PROBABILITY)
        slope_N = np.where(mixed_N > LEAST_PROBABILITY, -1.0 / bounded_N, 0.0)
        slope_M = (self.weight_N * slope_N) @ self.probability_NM
        return float(self.weight_N @ -np.log(bounded_N)), slope_M


def _fit_weights(loss: "_AbsoluteErrors | _LogLosses", strength: float, *, methods: int) -> Floats:
    """Return the weights of methods, [M], by least penalized loss on the simplex.

    The loss counts in units of that of the best single method. The penalty is the squared distance
    from equal weights, multiplied by the number of methods and the strength. SciPy's SLSQP starts
    from the best single method.

    Parameters
    ----------
    loss
        Returns the loss of some weights, and its slope [M].
    strength
        Strength of the penalty.
    methods
        Number of methods.
    """
    equal_M = np.full(methods, 1.0 / methods)
    # The search begins with the best method alone: from equal weights, where a method that is far
    # off has a share, no step would be short enough.
    losses = [loss(alone_M)[0] for alone_M in np.eye(methods)]
    best = int(np.argmin(losses))
    start_M = np.eye(methods)[best]
    loss_unit = max(losses[best], loss.least_unit)

    def penalized(weight_M: Floats) -> tuple[float, Floats]:
        value, slope_M = loss(weight_M)
        away_M = weight_M - equal_M
        penalty = strength * methods * float(away_M @ away_M)
        penalty_slope_M = 2 * strength * methods * away_M
        return value / loss_unit + penalty, slope_M / loss_unit + penalty_slope_M

    def excess(weight_M: Floats) -> float:
        return weight_M.sum() - 1.0

    minimum = minimize(
        penalized,
        start_M,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * methods,
        constraints={"type": "eq", "fun": excess, "jac": np.ones_like},
        options={"maxiter": 200, "ftol": 1e-9},
    )
    weight_M = np.clip(minimum.x, 0.0, None)
    return weight_M / weight_M.sum()
