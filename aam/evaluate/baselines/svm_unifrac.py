"""Support vectors on a kernel of unweighted UniFrac.

Shape suffixes: T training samples, R rows, K classes trained on.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.class_weight import compute_sample_weight

from aam.evaluate.baselines.inner import Split, leave_one_part_out, loss
from aam.evaluate.baselines.problem import Prediction, Problem, Rows, classified

COSTS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidate weights of the data against the penalty; the strongest penalty first."""

DEFAULT_COST = 1.0
"""Where there is nothing to choose by."""


def predict(task: Problem, fold: int, train: Rows, test: Rows, threads: int) -> Prediction:
    """Predict with exp(-gamma d); gamma is one over the median distance of the training pairs.

    With the square of the distance, the kernel would not be positive semidefinite. The cost is
    chosen on one part of the training folds that is left out. The same part sets the temperature
    of the probabilities, the softmax of the decision values.

    References
    ----------
    Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of modern neural
    networks. ICML.
    """
    gamma = _gamma(task.distances[np.ix_(train, train)])
    kernel_TT = _kernel(task.distances[np.ix_(train, train)], gamma)
    kernel_RT = _kernel(task.distances[np.ix_(test, train)], gamma)
    split = leave_one_part_out(task, train)
    cost, temperature = DEFAULT_COST, 1.0
    if split is not None:
        cost, chosen = _best(task, train, split, kernel_TT)
        if not task.regression:
            temperature = _temperature(task, train, split, kernel_TT, chosen)
    model = _machine(task, cost).fit(kernel_TT, task.target[train])
    if task.regression:
        return model.predict(kernel_RT), np.zeros((len(test), 0))
    return classified(
        task, model.classes_, softmax(_logits(model, kernel_RT) / temperature, axis=1)
    )


def _gamma(distances_TT: NDArray[np.float32]) -> float:
    pairs = distances_TT[np.triu_indices(len(distances_TT), 1)].astype(np.float64)
    return 1.0 / float(np.median(pairs) or pairs.mean() or 1.0)


def _kernel(distances: NDArray[np.float32], gamma: float) -> NDArray[np.float64]:
    return np.exp(-gamma * distances.astype(np.float64))


def _machine(task: Problem, cost: float) -> Any:
    if task.regression:
        machine = SVR(kernel="precomputed", C=cost)
        return TransformedTargetRegressor(machine, transformer=StandardScaler())
    return SVC(kernel="precomputed", C=cost, class_weight="balanced")


def _best(
    task: Problem, train: Rows, split: Split, kernel_TT: NDArray[np.float64]
) -> tuple[float, Any]:
    """Return the best cost and its model, trained on the inner rows."""
    inner, left = split
    kernel, across = kernel_TT[np.ix_(inner, inner)], kernel_TT[np.ix_(left, inner)]
    models = [_machine(task, cost).fit(kernel, task.target[train[inner]]) for cost in COSTS]
    losses = [loss(task, train[left], _guess(task, model, across)) for model in models]
    best = int(np.argmin(losses))
    return COSTS[best], models[best]


def _guess(task: Problem, model: Any, kernel: NDArray[np.float64]) -> NDArray[Any]:
    if task.regression:
        return model.predict(kernel)
    return model.classes_[_logits(model, kernel).argmax(axis=1)]


def _logits(model: SVC, kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one decision value per class, [R, K]; of two classes the first has 0."""
    values = model.decision_function(kernel)
    return values if values.ndim == 2 else np.stack([np.zeros_like(values), values], axis=1)


def _temperature(
    task: Problem, train: Rows, split: Split, kernel_TT: NDArray[np.float64], model: SVC
) -> float:
    """Return what decision values are divided by: the least log loss where classes count alike."""
    inner, left = split
    left = left[np.isin(task.target[train[left]], model.classes_)]
    if not len(left):
        return 1.0
    truth = task.target[train[left]]
    logits_RK = _logits(model, kernel_TT[np.ix_(left, inner)])
    weights_R = compute_sample_weight("balanced", truth)

    columns_R = np.searchsorted(model.classes_, truth)
    rows_R = np.arange(len(truth))

    def surprise(log_temperature: float) -> float:
        shares_RK = log_softmax(logits_RK / np.exp(log_temperature), axis=1)
        return -float(np.average(shares_RK[rows_R, columns_R], weights=weights_R))

    found = minimize_scalar(surprise, bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(found.x))
