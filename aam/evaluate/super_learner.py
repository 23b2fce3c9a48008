"""The mixture of several methods that the other folds ask for.

A super learner (van der Laan, Polley & Hubbard 2007, doi:10.2202/1544-6115.1309) weights methods by
their cross-validated predictions. No label of a fold is fitted to by the weights of that fold; the
methods behind the predictions for the other folds have seen them.

Shape suffixes: N samples, M methods, C classes (1 where a number is predicted).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize

from aam.evaluate.conformal import at_temperature, temperature
from aam.evaluate.metrics import class_codes
from aam.evaluate.predictions import (
    PROBABILITY,
    QUANTILE,
    class_names,
    class_probabilities,
    numbers,
)

FORMAT = 1
"""Of the directories that are written and read."""
SETTINGS, FOLDS, TREE, SEQUENCES, MODEL = (
    *("super_learner.json", "folds.tsv", "tree.nwk", "sequences.fasta", "model"),
)
"""What lies in one, beside a table per view; `aam.inference.with_baselines` reads it."""
RIDGE = 0.5
"""Strength of the pull towards equal weights, for one group; of G groups it is 1 / G of that."""
SMOOTH = 0.01
"""Part of the mean error of the best method below which an error counts as its square."""
LEAST_PROBABILITY = 1e-3
"""What a smaller probability counts as where its logarithm is taken."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Mixture:
    """Weights of methods, and the temperatures that their probabilities are scaled by."""

    weights: Mapping[str, float]
    """None below zero, of sum one."""
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
        """Return the mixture of least absolute error, or of least log loss.

        All classes count alike. A penalty on the distance from equal weights is the stronger the
        fewer groups (`unit`, [N]) there are. Without samples the weights are equal.
        """
        if not len(observed):
            equal, scales = 1.0 / len(values), dict.fromkeys(values, 1.0)
            return cls(dict.fromkeys(values, equal), scales)
        strength = RIDGE / len(np.unique(unit))
        if not classes:
            error_NM = np.stack([observed - value_NC[:, 0] for value_NC in values.values()], axis=1)
            weight_M = _weights(error_NM, np.ones(len(observed)), strength, are_shares=False)
            return cls(_named(values, weight_M), dict.fromkeys(values, 1.0))
        scales = {
            name: temperature(observed, share_NC, classes) for name, share_NC in values.items()
        }
        scaled = [at_temperature(share_NC, scales[name]) for name, share_NC in values.items()]
        code = class_codes(observed, classes)
        share_NM = np.stack([share_NC[np.arange(len(code)), code] for share_NC in scaled], axis=1)
        importance_N = 1.0 / np.bincount(code, minlength=len(classes))[code]
        weight_M = _weights(share_NM, importance_N, strength, are_shares=True)
        return cls(_named(values, weight_M), scales)

    def apply(self, values: Mapping[str, Floats]) -> Floats:
        """Return the mixed numbers, or probabilities, [N, C]."""
        parts = []
        for name, weight in self.weights.items():
            value_NC = values[name]
            if value_NC.shape[1] > 1:
                value_NC = at_temperature(value_NC, self.temperatures[name])
            parts.append(weight * value_NC)
        return np.sum(parts, axis=0)


def super_learner(
    tables: Mapping[str, pd.DataFrame], groups: pd.Series
) -> tuple[pd.DataFrame, Mixture]:
    """Return the first table with the mixed `predicted` and probabilities, and the last mixture.

    `tables` are predictions of the same samples and folds by method; `groups` has the group of each
    sample, or its ID, by sample ID. Every fold is predicted by a mixture fitted to the other folds
    of 0 and above; the rows of fold -1 by the one fitted to all folds, which is returned.
    """
    first = next(iter(tables.values()))
    classes, fold = class_names(first), first["fold"].to_numpy()
    unit = groups.loc[first["sample-id"]].to_numpy()
    observed = first["observed"].to_numpy(np.str_) if classes else numbers(first["observed"])
    values = {}
    for name, table in tables.items():
        part = table.set_index("sample-id").loc[first["sample-id"]]
        assert (part["fold"].to_numpy() == fold).all(), "other folds"
        own = class_probabilities(part, classes) if classes else numbers(part["predicted"])
        values[name] = own.reshape(len(fold), -1)

    def fitted(rows: NDArray[np.bool_]) -> Mixture:
        known = {name: value_NC[rows] for name, value_NC in values.items()}
        return Mixture.fit(known, observed[rows], classes, unit[rows])

    mixed_NC = np.empty_like(next(iter(values.values())))
    for number in np.unique(fold):
        own = fold == number
        mixture = fitted(~own & (fold >= 0))
        mixed_NC[own] = mixture.apply({name: value_NC[own] for name, value_NC in values.items()})
    result = first.drop(columns=[name for name in first if str(name).startswith(QUANTILE)])
    if classes:
        result[[PROBABILITY + name for name in classes]] = mixed_NC
        result["predicted"] = np.array(classes)[mixed_NC.argmax(axis=1)]
    else:
        result["predicted"] = mixed_NC[:, 0]
    return result, fitted(fold >= 0)


def units_of(group: pd.Series) -> pd.Series:
    """Return the group of each sample, or its ID where it has none, by sample ID."""
    return group.where(group != "", group.index.to_series())


def _named(values: Mapping[str, Floats], weight_M: Floats) -> dict[str, float]:
    return dict(zip(values, map(float, weight_M), strict=True))


def _weights(fit_NM: Floats, importance_N: Floats, strength: float, *, are_shares: bool) -> Floats:
    """Return the weights [M] for errors, or for probabilities of the observed classes, [N, M]."""
    methods = fit_NM.shape[1]
    equal_M, share_N = np.full(methods, 1.0 / methods), importance_N / importance_N.sum()
    # By the best method: one that is far off would hide what tells the others apart.
    smooth = SMOOTH * float((share_N @ np.abs(fit_NM)).min()) or 1.0

    def loss(weight_M: Floats) -> tuple[float, Floats]:
        mixed_N = fit_NM @ weight_M
        if are_shares:
            sure_N = np.maximum(mixed_N, LEAST_PROBABILITY)
            slope_N = np.where(mixed_N > LEAST_PROBABILITY, -1.0 / sure_N, 0.0)
            return float(share_N @ -np.log(sure_N)), (share_N * slope_N) @ fit_NM
        error_N = np.sqrt(mixed_N**2 + smooth**2)
        return float(share_N @ error_N), (share_N * mixed_N / error_N) @ fit_NM

    unit = max(min(loss(alone_M)[0] for alone_M in np.eye(methods)), 1e-12)

    def penalized(weight_M: Floats) -> tuple[float, Floats]:
        value, slope_M = loss(weight_M)
        away_M = weight_M - equal_M
        penalty = strength * methods * float(away_M @ away_M)
        return value / unit + penalty, slope_M / unit + 2 * strength * methods * away_M

    found = minimize(
        penalized,
        equal_M,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * methods,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"maxiter": 200, "ftol": 1e-9},
    )
    weight_M = np.clip(found.x, 0.0, None)
    return weight_M / weight_M.sum()
