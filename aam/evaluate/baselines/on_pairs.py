"""Methods on pairs of samples: support vectors on kernels, nearest neighbours on UniFrac.

Shape suffixes: N samples, P features, T training samples.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from aam.evaluate.baselines.inner import Split, leave_each_part_out, leave_parts_out, search
from aam.evaluate.baselines.log_ratios import centred_log_ratios, clade_logs
from aam.evaluate.baselines.problem import Prediction, Problem, fit_predict, prevalent_reads

COSTS = {"C": (0.1, 0.3, 1.0, 3.0, 10.0)}
"""Candidate weights of the data against the penalty; the strongest penalty first."""
NEIGHBOURS = (1, 3, 5, 10, 20, 40)
"""Candidate numbers of neighbours; the smallest of equals is taken."""

Floats = NDArray[np.float64]


def svm_unifrac(task: Problem) -> Prediction:
    """Predict with exp(-gamma d); gamma is one over the median distance of the training pairs.

    With the square of the distance, the kernel would not be positive semidefinite.
    """
    return _support_vectors(task, [laplacian(task.distances, task.train)])


def svm_clr(task: Problem) -> Prediction:
    """Predict with a linear or a Gaussian kernel of centred log-ratios."""
    return _support_vectors(task, _kernels(task, centred_log_ratios(prevalent_reads(task))))


def svm_clades(task: Problem) -> Prediction:
    """Predict with a linear or a Gaussian kernel of the log-reads of the clades of the tree."""
    return _support_vectors(task, _kernels(task, clade_logs(task)))


def knn_unifrac(task: Problem) -> Prediction:
    """Predict from the nearest training samples, weighted by the inverse of their distance."""
    kind = KNeighborsRegressor if task.regression else KNeighborsClassifier
    splits = leave_parts_out(task, parts=10)
    smallest = min((len(inner) for inner, _ in splits), default=1)
    grid = {"n_neighbors": [k for k in NEIGHBOURS if k <= smallest]}
    model = kind(n_neighbors=1, weights="distance", metric="precomputed")
    return fit_predict(task, search(task, model, grid, splits), task.distances, pairwise=True)


def laplacian(distances_NN: NDArray[np.float32], train: NDArray[np.intp]) -> Floats:
    """Return exp(-gamma d), [N, N]."""
    distances_TT = distances_NN[np.ix_(train, train)].astype(np.float64)
    pairs = distances_TT[np.triu_indices(len(train), 1)]
    gamma = 1.0 / float(np.median(pairs) or pairs.mean() or 1.0)
    return np.exp(-gamma * distances_NN.astype(np.float64))


def _kernels(task: Problem, features_NP: Floats) -> list[Floats]:
    """Return a linear and a Gaussian kernel, [N, N] each.

    Features are centred and scaled as a whole, so that those that vary more count more; the mean
    square of the distance of two training samples is then 2.
    """
    train = features_NP[task.train]
    scaled_NP = (features_NP - train.mean(axis=0)) / (np.sqrt(train.var(axis=0).sum()) or 1.0)
    linear_NN = scaled_NP @ scaled_NP.T
    square_N = np.diag(linear_NN)
    return [linear_NN, np.exp(linear_NN - (square_N[:, None] + square_N) / 2)]


def _support_vectors(task: Problem, kernels: Sequence[Floats]) -> Prediction:
    """Predict with the kernel and the cost that are best on parts of the training folds.

    Probabilities are the softmax of the decision values, divided by the temperature of least log
    loss on the parts left out (Guo et al. 2017, arXiv:1706.04599).
    """
    split, target = leave_each_part_out(task), task.target[task.train]
    tried: list[tuple[Any, Floats]] = []
    known, machine = target, SVC(kernel="precomputed", class_weight="balanced")
    if task.regression:
        known = StandardScaler().fit_transform(target[:, None])[:, 0]
        machine = SVR(kernel="precomputed", epsilon=0.0)
    for kernel_NN in kernels:
        found = search(task, clone(machine), COSTS, split)
        tried.append((found.fit(kernel_NN[np.ix_(task.train, task.train)], known), kernel_NN))
    # Of equals the first; without a part to leave out there is no score, and the first is taken.
    best, kernel_NN = max(tried, key=lambda one: getattr(one[0], "best_score_", 0.0))
    model = getattr(best, "best_estimator_", best)
    if task.regression:
        scaled = TransformedTargetRegressor(model, transformer=StandardScaler())
        return fit_predict(task, scaled, kernel_NN, pairwise=True)
    every = np.arange(len(target))
    splits = _complete_splits(task) or [(every, every)]
    calibrated = CalibratedClassifierCV(model, method="temperature", cv=splits, ensemble=False)
    return fit_predict(task, calibrated, kernel_NN, pairwise=True)


def _complete_splits(task: Problem) -> list[Split]:
    """Return splits that leave out every training sample once; none if one would miss a class."""
    target = task.target[task.train]
    splits = leave_parts_out(task)
    complete = all(len(np.unique(target[inner])) == len(np.unique(target)) for inner, _ in splits)
    return splits if complete else []
