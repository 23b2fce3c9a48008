"""Weights of several methods that are mixed, by how well they predict what they never saw.

The weights w of the methods minimize

    loss(w) / loss(best method) + pull * sum(w * log(w / prior)).

The prior of a method is proportional to exp(-t^2 / 2), the likelihood that it is as good as the
best, where it loses t standard errors more than the best. The standard errors are those of
differences between losses over groups, and their median is the pull. So the weights are nearly
equal where methods differ by no more than chance, a method that is clearly worse has none, and the
pull fades as the square root of the number of groups grows. The penalty is that of mirror averaging
(Juditsky, Rigollet & Tsybakov 2008, doi:10.1214/07-AOS546), the prior is akin to pseudo-BMA+
weights (Yao, Vehtari, Simpson & Gelman 2018, doi:10.1214/17-BA1091).

Shape suffixes: N samples, M methods, C classes (1 where a number is predicted), G groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from aam.data.predictions import class_codes
from aam.learners.temperature import apply_temperature, fit_temperature

TEMPERATURE_PULL = 2.0
"""Penalty of temperatures that are not 1, for one group; it is divided by the number of groups."""
PULL = 1.0
"""Factor of the standard error in the pull."""
LEAST_PULL = 1e-3
"""Pull where no group tells methods apart: methods that are the same have equal weights."""
SIMILARITY = 0.01
"""Correlation, within a group, of the differences between two methods that is expected beforehand.
It is about the median of two to five methods on mackerels and houses, grouped by day, town or room.
"""
SIMILARITY_FREEDOM = 8.0
"""Degrees of freedom that this expectation counts as, where groups have many samples."""
LEAST_LOG_PRIOR = -15.0
"""Least logarithm of a prior, relative to that of the best method."""
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

        The weights are pulled towards equal ones of the methods that may be as good as the best,
        the less so the better the groups tell them apart.

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
            Without any samples, and where groups are too few to tell methods apart, that of equal
            weights.
        """
        if not len(observed):
            return cls.equal(list(values))
        if not classes:
            errors = [observed - value_NC[:, 0] for value_NC in values.values()]
            error_NM = np.stack(errors, axis=1)
            largest = float(np.abs(error_NM).max())
            if 0 < largest < TINY:
                error_NM = error_NM / largest
            weight_N = np.full(len(observed), 1.0 / len(observed))
            loss: _AbsoluteErrors | _LogLosses = _AbsoluteErrors(error_NM, weight_N)
            weight_M = _fit_weights(loss, unit)
            return cls(_by_name(values, weight_M), dict.fromkeys(values, 1.0))
        strength = TEMPERATURE_PULL / len(np.unique(unit))
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
        return cls(_by_name(values, _fit_weights(loss, unit)), temperatures)

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

    @cached_property
    def _smooth(self) -> float:
        # The best method sets the scale: one that is far off would hide how the others differ.
        least_error = float((self.weight_N @ np.abs(self.error_NM)).min())
        return SMOOTH * least_error if least_error > TINY else 1.0

    def of_methods(self) -> Floats:
        """Return the loss of each sample by each method alone, [N, M]."""
        return np.sqrt(self.error_NM**2 + self._smooth**2)

    def __call__(self, weight_M: Floats) -> tuple[float, Floats]:
        """Return the loss of some weights, and its slope [M]."""
        mixed_N = self.error_NM @ weight_M
        error_N = np.sqrt(mixed_N**2 + self._smooth**2)
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

    def of_methods(self) -> Floats:
        """Return the loss of each sample by each method alone, [N, M]."""
        return -np.log(np.maximum(self.probability_NM, LEAST_PROBABILITY))

    def __call__(self, weight_M: Floats) -> tuple[float, Floats]:
        """Return the loss of some weights, and its slope [M]."""
        mixed_N = self.probability_NM @ weight_M
        bounded_N = np.maximum(mixed_N, LEAST_PROBABILITY)
        slope_N = np.where(mixed_N > LEAST_PROBABILITY, -1.0 / bounded_N, 0.0)
        slope_M = (self.weight_N * slope_N) @ self.probability_NM
        return float(self.weight_N @ -np.log(bounded_N)), slope_M


def _fit_weights(loss: "_AbsoluteErrors | _LogLosses", unit: NDArray[Any]) -> Floats:
    """Return the weights of methods, [M], as the module defines them.

    SciPy's L-BFGS varies their logarithms, which keeps them positive. The problem is convex in the
    weights, so that there is one minimum.

    Parameters
    ----------
    loss
        Returns the loss of some weights, and its slope [M].
    unit
        Group of each sample, [N].
    """
    loss_NM = loss.of_methods()
    mean_M = loss.weight_N @ loss_NM
    methods = len(mean_M)
    best = int(np.argmin(mean_M))
    loss_unit = max(mean_M[best], loss.least_unit)
    difference_NM = (np.delete(loss_NM, best, axis=1) - loss_NM[:, [best]]) / loss_unit
    error_M = _standard_errors(difference_NM, weight_N=loss.weight_N, unit=unit)
    if methods == 1 or np.isinf(error_M).any():
        return np.full(methods, 1.0 / methods)
    # The lower median: a method that is far off has a large error, which tells nothing of others.
    pull = max(PULL * float(np.sort(error_M)[(methods - 2) // 2]), LEAST_PULL)
    distance_M = (loss.weight_N @ difference_NM) / np.maximum(error_M, LEAST_PULL)
    log_prior_M = np.maximum(np.insert(-(distance_M**2) / 2, best, 0.0), LEAST_LOG_PRIOR)
    log_prior_M = log_softmax(log_prior_M)

    def penalized(logit_M: Floats) -> tuple[float, Floats]:
        log_weight_M = log_softmax(logit_M)
        weight_M = np.exp(log_weight_M)
        value, slope_M = loss(weight_M)
        log_ratio_M = log_weight_M - log_prior_M
        whole_slope_M = slope_M / loss_unit + pull * log_ratio_M
        logit_slope_M = weight_M * (whole_slope_M - weight_M @ whole_slope_M)
        return value / loss_unit + pull * float(weight_M @ log_ratio_M), logit_slope_M

    minimum = minimize(
        penalized,
        # In the prior a method that is far off has too little weight to hide the others.
        log_prior_M,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-8},
    )
    return softmax(minimum.x)


def _standard_errors(difference_NM: Floats, *, weight_N: Floats, unit: NDArray[Any]) -> Floats:
    """Return the standard errors of weighted mean differences over groups, [M].

    Few groups tell little about how much the samples of a group have in common, so the variance of
    their sums is moderated, as that of a gene is among all genes (Smyth 2004,
    doi:10.2202/1544-6115.1027): by that of single samples, times the effect of a usual correlation
    within groups. It counts as `SIMILARITY_FREEDOM` degrees of freedom where groups are large, and
    not at all where each sample is a group. The result is as uncertain as Student's t, which has no
    variance with two degrees of freedom or fewer: there the standard errors are infinite.
    """
    names, group_N = np.unique(unit, return_inverse=True)
    groups, inner = len(names), len(unit) - len(names)
    prior_freedom = SIMILARITY_FREEDOM * inner / (SIMILARITY_FREEDOM + inner)
    freedom = prior_freedom + groups - 1
    if groups == 1 or freedom <= 2:
        return np.full(difference_NM.shape[1], np.inf)
    centred_NM = weight_N[:, None] * (difference_NM - weight_N @ difference_NM)
    sum_GM = np.zeros((groups, centred_NM.shape[1]))
    np.add.at(sum_GM, group_N, centred_NM)
    group_weight_G = np.bincount(group_N, weights=weight_N)
    usual_size = (group_weight_G**2).sum() / (weight_N**2).sum()
    single_M = (centred_NM**2).sum(axis=0)
    usual_M = single_M * (1 + SIMILARITY * (usual_size - 1))
    total_M = prior_freedom * usual_M + groups * (sum_GM**2).sum(axis=0)
    return np.sqrt(total_M / (freedom - 2))
