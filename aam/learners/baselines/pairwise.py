"""Methods on pairs of samples: support vectors on kernels, nearest neighbours on UniFrac.

The baselines are functions of the type `aam.learners.baselines.problem.Predictor`.

Shape suffixes: N samples, L samples that pairs are taken with (all, or landmarks), P features, T
training samples, R rows at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from aam.learners.baselines.inner import Split, leave_each_part_out, leave_parts_out, search
from aam.learners.baselines.log_ratios import centred_log_ratios, clade_logs
from aam.learners.baselines.problem import Prediction, Problem, fit_predict, prevalent_reads

COSTS = {"C": (0.1, 0.3, 1.0, 3.0, 10.0)}
"""Candidate weights of the data against the penalty; the strongest penalty first."""
ROWS_AT_ONCE = 4096
"""Samples whose features are made at a time where all would not fit into memory."""
NEIGHBOURS = (1, 3, 5, 10, 20, 40)
"""Candidate numbers of neighbours; the smallest of equals is taken."""

Floats = NDArray[np.float64]


def svm_unifrac(task: Problem) -> Prediction:
    """Predict with exp(-gamma d); gamma is one over the median distance of the training pairs.

    With the square of the distance, the kernel would not be positive semidefinite.
    """
    task = task.restrict_to_landmarks()
    return support_vectors(task, [laplacian(task.distances, task.train, task.columns)])


def svm_clr(task: Problem) -> Prediction:
    """Predict with a linear or a Gaussian kernel of centred log-ratios."""
    task = task.restrict_to_landmarks()
    return support_vectors(task, _kernels(task, prevalent_reads(task), centred_log_ratios))


def svm_clades(task: Problem) -> Prediction:
    """Predict with a linear or a Gaussian kernel of the log-reads of the clades of the tree."""
    task = task.restrict_to_landmarks()
    return support_vectors(task, _kernels(task, task.counts, clade_logs(task)))


def knn_unifrac(task: Problem) -> Prediction:
    """Predict from the nearest training samples, weighted by the inverse of their distance."""
    task = task.restrict_to_landmarks()
    kind = KNeighborsRegressor if task.regression else KNeighborsClassifier
    splits = leave_parts_out(task, parts=10)
    smallest = min((len(inner) for inner, _ in splits), default=1)
    grid = {"n_neighbors": [k for k in NEIGHBOURS if k <= smallest]}
    model = kind(n_neighbors=1, weights="distance", metric="precomputed")
    return fit_predict(task, search(task, model, grid, splits), task.distances, pairwise=True)


def laplacian(
    distances_NL: NDArray[np.float32], train: NDArray[np.intp], columns: NDArray[np.intp]
) -> Floats:
    """Return the kernel exp(-gamma d) of distances.

    gamma is one over the median distance of the training pairs.

    Parameters
    ----------
    distances_NL
        Distances of all samples to all, or to the landmarks.
    train
        Rows of the training samples.
    columns
        Their columns.

    Returns
    -------
    numpy.ndarray
        The kernel, [N, L]: float64 where all samples are columns, else float32.
    """
    distances_TT = distances_NL[np.ix_(train, columns)].astype(np.float64)
    pairs = distances_TT[np.triu_indices(len(train), 1)]
    gamma = 1.0 / float(np.median(pairs) or pairs.mean() or 1.0)
    # All pairs are few enough for double precision; those with landmarks are not.
    is_square = len(distances_NL) == distances_NL.shape[1]
    kernel_NL: Floats = distances_NL.astype(np.float64 if is_square else np.float32)
    # The steps are done in place, since with landmarks the matrix takes gigabytes.
    np.multiply(kernel_NL, -gamma, out=kernel_NL)
    return np.exp(kernel_NL, out=kernel_NL)


def _kernels(
    task: Problem, reads_NF: csr_array, features: Callable[[csr_array], Floats]
) -> list[Floats]:
    """Return a linear and a Gaussian kernel of features of the reads.

    Features are centred and scaled as a whole, so that those that vary more count more; the mean
    square of the distance of two training samples is then 2.

    Parameters
    ----------
    task
        The samples, of which the training samples decide centre and scale.
    reads_NF
        Reads of all samples.
    features
        Makes features, [N, P], of reads.

    Returns
    -------
    list of numpy.ndarray
        The linear and the Gaussian kernel, [N, L] each.
    """
    features_LP = features(reads_NF if task.landmarks is None else reads_NF[task.landmarks])
    train_TP = features_LP[task.columns]
    center_P = train_TP.mean(axis=0)
    scale = np.sqrt(train_TP.var(axis=0).sum()) or 1.0
    scaled_LP = (features_LP - center_P) / scale
    if task.landmarks is None:
        linear_NL = scaled_LP @ scaled_LP.T
        square_N = np.diag(linear_NL)
        square_L = square_N
    else:

        def scaled_features(reads_RF: csr_array) -> Floats:
            return (features(reads_RF) - center_P) / scale

        scaled_LP = scaled_LP.astype(np.float32)
        square_L = np.square(scaled_LP).sum(axis=1)
        linear_NL, square_N = _products_with_landmarks(reads_NF, scaled_LP, scaled_features)
    # The exponent is -|x - y|^2 / 2, written as x y - (|x|^2 + |y|^2) / 2.
    gaussian_NL = np.exp(linear_NL - (square_N[:, None] + square_L) / 2)
    return [linear_NL, gaussian_NL]


def _products_with_landmarks(
    reads_NF: csr_array,
    scaled_LP: NDArray[np.float32],
    scaled_features: Callable[[csr_array], Floats],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return products of all samples with the landmarks, [N, L], and their squared lengths, [N].

    The features of all samples would not fit into memory: some rows are made at a time.
    """
    samples = reads_NF.shape[0]
    linear_NL = np.empty((samples, len(scaled_LP)), np.float32)
    square_N = np.empty(samples, np.float32)
    for first in range(0, samples, ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        scaled_RP = scaled_features(reads_NF[rows]).astype(np.float32)
        linear_NL[rows] = scaled_RP @ scaled_LP.T
        square_N[rows] = np.square(scaled_RP).sum(axis=1)
    return linear_NL, square_N


def support_vectors(task: Problem, kernels: Sequence[Floats]) -> Prediction:
    """Predict with the kernel and the cost that are best on parts of the training folds.

    Probabilities are the softmax of the decision values, divided by the temperature of least log
    loss on the parts left out (Guo et al. 2017, arXiv:1706.04599).

    Parameters
    ----------
    task
        The samples and the fold to predict.
    kernels
        Kernels of all samples with all, or with the landmarks, [N, L] each; the first of equals is
        taken.

    Returns
    -------
    tuple
        The `Prediction` of the held-out fold.
    """
    model, kernel_NL = _best_kernel(task, kernels)
    if task.regression:
        scaled = TransformedTargetRegressor(model, transformer=StandardScaler())
        return fit_predict(task, scaled, kernel_NL, pairwise=True)
    every = np.arange(len(task.train))
    splits = _complete_splits(task) or [(every, every)]
    calibrated = CalibratedClassifierCV(model, method="temperature", cv=splits, ensemble=False)
    return fit_predict(task, calibrated, kernel_NL, pairwise=True)


def _best_kernel(task: Problem, kernels: Sequence[Floats]) -> tuple[Any, Floats]:
    """Return a support vector machine with the cost that is best, and the kernel it is best on."""
    target = task.target[task.train]
    machine = SVC(kernel="precomputed", class_weight="balanced")
    if task.regression:
        target = StandardScaler().fit_transform(target[:, None])[:, 0]
        machine = SVR(kernel="precomputed", epsilon=0.0)
    splits = leave_each_part_out(task)
    fitted = []
    for kernel_NL in kernels:
        model = search(task, clone(machine), COSTS, splits)
        fitted.append(model.fit(kernel_NL[np.ix_(task.train, task.columns)], target))
    # Without a part to leave out there is no score, and the first kernel is taken.
    scores = [getattr(model, "best_score_", 0.0) for model in fitted]
    # Where scores are equal, the first kernel is taken.
    best = scores.index(max(scores))
    return getattr(fitted[best], "best_estimator_", fitted[best]), kernels[best]


def _complete_splits(task: Problem) -> list[Split]:
    """Return splits that leave out every training sample once; none if one would miss a class."""
    target = task.target[task.train]
    splits = leave_parts_out(task)
    classes = len(np.unique(target))
    is_complete = all(len(np.unique(target[inner])) == classes for inner, _ in splits)
    return splits if is_complete else []
