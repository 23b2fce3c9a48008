"""The mixture of several methods that the other folds ask for.

A super learner (van der Laan, Polley & Hubbard 2007, doi:10.2202/1544-6115.1309) weights methods by
their cross-validated predictions. Here no label of a fold enters the weights of that fold.

Shape suffixes: N samples, M methods, C classes.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize

from aam.evaluate.metrics import class_codes
from aam.evaluate.predictions import (
    PROBABILITY,
    QUANTILE,
    class_names,
    class_probabilities,
    numbers,
)

RIDGE = 2.0
"""Strength of the pull towards equal weights, for one group; of G groups it is 1 / G of that."""
SMOOTH = 0.01
"""Part of the mean error of equal weights below which an error counts as its square."""
LEAST_PROBABILITY = 1e-3
"""What a smaller probability counts as where its logarithm is taken."""

Floats = NDArray[np.float64]


def super_learner(
    tables: Mapping[str, pd.DataFrame], groups: pd.Series
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return the mixture of cross-validated predictions, and the weights for other samples.

    Every fold is predicted with weights fitted to the other folds of 0 and above; the rows of fold
    -1 with those fitted to all folds, which are returned. The weights, none below zero and of sum
    one, have the least absolute error, or the least log loss with all classes counting alike, and
    a penalty on their distance from equal ones.

    Parameters
    ----------
    tables
        Predictions of the same samples and folds by method.
    groups
        Group of each sample, or its ID, by sample ID: the fewer, the stronger the penalty.

    Returns
    -------
    table : pandas.DataFrame
        The rows of the first table, with the mixed `predicted` or probabilities.
    weights : dict
        Of each method.
    """
    first = next(iter(tables.values()))
    others = [part.set_index("sample-id").loc[first["sample-id"]] for part in tables.values()]
    fold, observed = first["fold"].to_numpy(), first["observed"]
    assert all((part["fold"].to_numpy() == fold).all() for part in others), "other folds"
    unit, classes = groups.loc[first["sample-id"]].to_numpy(), class_names(first)
    if classes:
        value_NCM = np.stack([class_probabilities(part, classes) for part in others], axis=2)
        code = class_codes(observed, classes)
        fit_NM = value_NCM[np.arange(len(code)), code]
        importance = 1.0 / np.bincount(code, minlength=len(classes))[code]
    else:
        value_NCM = np.stack([numbers(part["predicted"]) for part in others], axis=1)[:, None]
        fit_NM = numbers(observed)[:, None] - value_NCM[:, 0]
        importance = np.ones(len(fold))
    mixed_NC, known = np.empty(value_NCM.shape[:2]), fold >= 0
    all_M = np.full(len(others), 1.0 / len(others))
    for number in np.unique(fold):
        rows = known & (fold != number)
        # A single fold has no others to ask.
        if rows.any():
            strength = RIDGE / len(np.unique(unit[rows]))
            weight_M = _weights(fit_NM[rows], importance[rows], strength, bool(classes))
        else:
            weight_M = all_M
        mixed_NC[fold == number] = value_NCM[fold == number] @ weight_M
    strength = RIDGE / len(np.unique(unit[known]))
    all_M = _weights(fit_NM[known], importance[known], strength, bool(classes))
    table = first.drop(columns=[name for name in first if str(name).startswith(QUANTILE)])
    if classes:
        table[[PROBABILITY + name for name in classes]] = mixed_NC
        table["predicted"] = np.array(classes)[mixed_NC.argmax(axis=1)]
    else:
        table["predicted"] = mixed_NC[:, 0]
    return table, dict(zip(tables, map(float, all_M), strict=True))


def _weights(fit_NM: Floats, importance_N: Floats, strength: float, are_shares: bool) -> Floats:
    """Return the weights [M] for errors, or for probabilities of the observed classes, [N, M]."""
    methods = fit_NM.shape[1]
    equal_M, share_N = np.full(methods, 1.0 / methods), importance_N / importance_N.sum()
    smooth = SMOOTH * float(share_N @ np.abs(fit_NM @ equal_M)) or 1.0

    def loss(weight_M: Floats) -> tuple[float, Floats]:
        mixed_N = fit_NM @ weight_M
        if are_shares:
            sure_N = np.maximum(mixed_N, LEAST_PROBABILITY)
            slope_N = np.where(mixed_N > LEAST_PROBABILITY, -1.0 / sure_N, 0.0)
            return float(share_N @ -np.log(sure_N)), (share_N * slope_N) @ fit_NM
        error_N = np.sqrt(mixed_N**2 + smooth**2)
        return float(share_N @ error_N), (share_N * mixed_N / error_N) @ fit_NM

    unit = max(loss(equal_M)[0], 1e-12)

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
