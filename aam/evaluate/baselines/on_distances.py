"""Baselines that look at unweighted UniFrac.

Shape suffixes: N samples, T training samples.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from aam.evaluate.baselines.inner import Split, leave_one_part_out, leave_parts_out, search
from aam.evaluate.baselines.problem import Prediction, Problem, fit_predict

NEIGHBOURS = (1, 3, 5, 10, 20, 40)
"""Candidate numbers of neighbours; the smallest of equals is taken."""
COSTS = {"C": (0.1, 0.3, 1.0, 3.0, 10.0)}
"""Candidate weights of the data against the penalty; the strongest penalty first."""


def knn_unifrac(task: Problem) -> Prediction:
    """Predict from the nearest training samples, weighted by the inverse of their distance."""
    kind = KNeighborsRegressor if task.regression else KNeighborsClassifier
    splits = leave_parts_out(task, parts=10)
    smallest = min((len(inner) for inner, _ in splits), default=1)
    model = search(
        task,
        kind(n_neighbors=1, weights="distance", metric="precomputed"),
        {"n_neighbors": [k for k in NEIGHBOURS if k <= smallest]},
        splits,
    )
    return fit_predict(task, model, task.distances, pairwise=True)


def svm_unifrac(task: Problem) -> Prediction:
    """Predict with exp(-gamma d); gamma is one over the median distance of the training pairs.

    With the square of the distance, the kernel would not be positive semidefinite. The cost is
    chosen on one part of the training folds that is left out. Probabilities are the softmax of
    the decision values, divided by the temperature of least log loss on the parts left out.

    Guo et al. (2017), On calibration of modern neural networks, arXiv:1706.04599.
    """
    kernel_NN = kernel(task.distances, task.train)
    split = leave_one_part_out(task)
    if task.regression:
        regressor = search(task, SVR(kernel="precomputed"), COSTS, split)
        scaled = TransformedTargetRegressor(regressor, transformer=StandardScaler())
        return fit_predict(task, scaled, kernel_NN, pairwise=True)
    classifier = search(task, SVC(kernel="precomputed", class_weight="balanced"), COSTS, split)
    target = task.target[task.train]
    classifier.fit(kernel_NN[np.ix_(task.train, task.train)], target)
    calibrated = CalibratedClassifierCV(
        getattr(classifier, "best_estimator_", classifier),
        method="temperature",
        cv=_complete_splits(task) or [(np.arange(len(target)), np.arange(len(target)))],
        ensemble=False,
    )
    return fit_predict(task, calibrated, kernel_NN, pairwise=True)


def _complete_splits(task: Problem) -> list[Split]:
    """Return splits that leave out every training sample once; none if one would miss a class."""
    target = task.target[task.train]
    splits = leave_parts_out(task)
    complete = all(len(np.unique(target[inner])) == len(np.unique(target)) for inner, _ in splits)
    return splits if complete else []


def kernel(distances_NN: NDArray[np.float32], train: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return exp(-gamma d), [N, N]."""
    distances_TT = distances_NN[np.ix_(train, train)].astype(np.float64)
    pairs = distances_TT[np.triu_indices(len(train), 1)]
    gamma = 1.0 / float(np.median(pairs) or pairs.mean() or 1.0)
    return np.exp(-gamma * distances_NN.astype(np.float64))
