"""Linear methods on log-ratios, and methods on pairs of samples: kernels and nearest neighbours.

The baselines are functions of the type `aam.learners.baselines.problem.Predictor`.

Shape suffixes: N samples, L samples that pairs are taken with (all, or landmarks), P features, E
branches of the tree, T training samples, R rows that are asked for.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import ElasticNetCV, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR

from aam.learners.baselines.problem import (
    PREVALENCE,
    PSEUDOCOUNT,
    Prediction,
    Problem,
    Split,
    fit_predict,
    frequent_reads,
    leave_each_part_out,
    leave_one_part_out,
    leave_parts_out,
    predict,
    prevalent_reads,
    search,
)

LOGISTIC_COSTS = (0.003, 0.01, 0.03, 0.1)
"""Candidate weights of data against penalty in the elastic net of classes; most penalty first."""
COSTS = {"C": (0.1, 0.3, 1.0, 3.0, 10.0)}
"""Candidate weights of the data against the penalty; the strongest penalty first."""
ROWS_AT_ONCE = 1024
"""Rows of pairs, and of features of landmarks, that are made at a time."""
NEIGHBOURS = (1, 3, 5, 10, 20, 40)
"""Candidate numbers of neighbours; the smallest of equals is taken."""
Floats = NDArray[np.float64]
PairsOfRows = Callable[[NDArray[np.intp]], Floats]
"""Distances or kernel of some rows: takes R rows of the task, and returns [R, L]."""


def elastic_net(task: Problem) -> Prediction:
    """Predict with a penalty that is chosen by leaving out whole training folds.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    task = task.restrict_to_landmarks()
    if task.regression:
        cv: Any = leave_parts_out(task, parts=3)
        ratios = (0.1, 0.5, 0.9)
        model = ElasticNetCV(l1_ratio=ratios, alphas=30, eps=0.01, cv=cv, max_iter=1000, tol=1e-3)
    else:
        logistic = LogisticRegression(
            C=LOGISTIC_COSTS[0],
            l1_ratio=0.5,
            solver="saga",
            class_weight="balanced",
            max_iter=100,
            tol=1e-3,
            random_state=task.random_state("elastic_net"),
        )
        model = search(task, logistic, {"C": LOGISTIC_COSTS}, leave_one_part_out(task))
    reads_NP = frequent_reads(task)
    log_ratios = FunctionTransformer(centred_log_ratios, kw_args={"added": task.pseudocount})
    scaled = make_pipeline(log_ratios, StandardScaler(), model)
    return fit_predict(task, scaled, reads_NP)


def centred_log_ratios(reads_NP: csr_array, added: float = PSEUDOCOUNT) -> NDArray[np.float64]:
    """Return log(reads + 0.5), less its mean over the features of a sample.

    Aitchison, J. (1982). The statistical analysis of compositional data. JRSS B 44, 139-177.

    Parameters
    ----------
    reads_NP
        Reads of N samples and P features.
    added
        What is added instead of 0.5, to amounts: `Problem.pseudocount`.

    Returns
    -------
    numpy.ndarray
        Natural logarithms, float64 [N, P].
    """
    logs_NP = np.log(reads_NP.toarray() + added)
    return logs_NP - logs_NP.mean(axis=1, keepdims=True)


def clade_logs(task: Problem) -> Callable[[csr_array], NDArray[np.float64]]:
    """Return a function that makes log-reads of clades from reads of features.

    The function returns log(reads + 0.5) below each branch, times the root of the branch's length,
    [N, E], for the branches that lead to reads in enough training samples. Like balances of the
    tree (PhILR: Silverman et al. 2017, doi:10.7554/eLife.21887), it lets related features count
    together, and long branches more.

    Parameters
    ----------
    task
        The samples, whose training samples decide which branches are taken, and their tree.

    Returns
    -------
    callable
        Takes reads [N, F], and returns float64 [N, E].
    """
    reads_TE = (task.counts[task.train] @ task.above).tocsc()
    prevalence_E = np.diff(reads_TE.indptr) / len(task.train)
    chosen = np.flatnonzero(prevalence_E >= min(PREVALENCE, prevalence_E.max()))
    above_FE = task.above[:, chosen]
    root_E = np.sqrt(task.lengths[chosen])
    added = task.pseudocount

    def log_reads(reads_NF: csr_array) -> NDArray[np.float64]:
        return np.log((reads_NF @ above_FE).toarray() + added) * root_E

    return log_reads


def svm_distances(task: Problem) -> Prediction:
    """Predict with exp(-gamma d); gamma is one over the median distance of the training pairs.

    The distance d is unweighted UniFrac, or without a tree Bray-Curtis. With the square of UniFrac,
    the kernel would not be positive semidefinite.
    """
    task = task.restrict_to_landmarks()
    return support_vectors(task, [laplacian(task.distances, task.train, task.columns)])


def svm_clr(task: Problem) -> Prediction:
    """Predict with a linear or a Gaussian kernel of centred log-ratios."""
    task = task.restrict_to_landmarks()
    log_ratios = partial(centred_log_ratios, added=task.pseudocount)
    return support_vectors(task, _kernels(task, prevalent_reads(task), log_ratios))


def svm_clades(task: Problem) -> Prediction:
    """Predict with a linear or a Gaussian kernel of the log-reads of the clades of the tree."""
    task = task.restrict_to_landmarks()
    return support_vectors(task, _kernels(task, task.counts, clade_logs(task)))


def knn_distances(task: Problem) -> Prediction:
    """Predict from the nearest training samples, weighted by the inverse of their distance."""
    task = task.restrict_to_landmarks()
    kind = KNeighborsRegressor if task.regression else KNeighborsClassifier
    splits = leave_parts_out(task, parts=10)
    smallest = min((len(inner) for inner, _ in splits), default=1)
    grid = {"n_neighbors": [k for k in NEIGHBOURS if k <= smallest]}
    model = kind(n_neighbors=1, weights="distance", metric="precomputed")
    return _fit_predict(task, search(task, model, grid, splits), task.distances.__getitem__)


def laplacian(
    distances_NL: NDArray[np.float32], train: NDArray[np.intp], columns: NDArray[np.intp]
) -> PairsOfRows:
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
    callable
        Takes rows, and returns their kernel, float64 [R, L].
    """
    distances_TT = distances_NL[np.ix_(train, columns)].astype(np.float64)
    pairs = distances_TT[np.triu_indices(len(train), 1)]
    # The median is 0 where most samples are copies, and the mean where all are.
    gamma = 1.0 / float(np.median(pairs) or pairs.mean() or 1.0)

    def kernel(rows: NDArray[np.intp]) -> Floats:
        return np.exp(-gamma * distances_NL[rows].astype(np.float64))

    return kernel


def _kernels(
    task: Problem, reads_NF: csr_array, features: Callable[[csr_array], Floats]
) -> list[PairsOfRows]:
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
    list of callable
        The linear and the Gaussian kernel.
    """
    if task.landmarks is not None:
        return _landmark_kernels(task, reads_NF, features)
    features_NP = features(reads_NF)
    train_TP = features_NP[task.train]
    scale = np.sqrt(train_TP.var(axis=0).sum()) or 1.0
    scaled_NP = (features_NP - train_TP.mean(axis=0)) / scale
    linear_NN = scaled_NP @ scaled_NP.T
    square_N = np.diag(linear_NN)
    gaussian_NN = _gaussian(linear_NN, square_N, square_N)
    return [linear_NN.__getitem__, gaussian_NN.__getitem__]


def _landmark_kernels(
    task: Problem, reads_NF: csr_array, features: Callable[[csr_array], Floats]
) -> list[PairsOfRows]:
    """Return the kernels of `_kernels` with the landmarks, in fp32.

    Neither the features nor the pairs of all samples would fit into memory: some rows are made at a
    time.
    """
    landmarks = task.landmarks
    assert landmarks is not None
    scaled_LP = np.concatenate(
        [features(reads_NF[rows]).astype(np.float32) for rows in _blocks(landmarks)]
    )
    train_TP = scaled_LP[task.columns]
    center_P = train_TP.mean(axis=0, dtype=np.float64).astype(np.float32)
    train_TP -= center_P
    variance = np.square(train_TP, out=train_TP).sum(dtype=np.float64) / len(train_TP)
    scale = np.float32(np.sqrt(variance) or 1.0)
    scaled_LP -= center_P
    scaled_LP /= scale
    square_L = np.square(scaled_LP).sum(axis=1)

    def scaled_features(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        return (features(reads_NF[rows]).astype(np.float32) - center_P) / scale

    def linear(rows: NDArray[np.intp]) -> Floats:
        return scaled_features(rows) @ scaled_LP.T

    def gaussian(rows: NDArray[np.intp]) -> Floats:
        scaled_RP = scaled_features(rows)
        square_R = np.square(scaled_RP).sum(axis=1)
        return _gaussian(scaled_RP @ scaled_LP.T, square_R, square_L)

    return [linear, gaussian]


def _blocks(rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return rows in blocks of `ROWS_AT_ONCE`."""
    return [rows[first : first + ROWS_AT_ONCE] for first in range(0, len(rows), ROWS_AT_ONCE)]


def _training_pairs(task: Problem, pairs: PairsOfRows) -> Floats:
    """Return the pairs of the training samples with each other."""
    return np.concatenate([pairs(rows)[:, task.columns] for rows in _blocks(task.train)])


def _gaussian(product_RL: Floats, square_R: Floats, square_L: Floats) -> Floats:
    """Return exp(-|x - y|^2 / 2) by the product of x and y, and their squared lengths."""
    return np.exp(product_RL - (square_R[:, None] + square_L) / 2)


def support_vectors(task: Problem, kernels: Sequence[PairsOfRows]) -> Prediction:
    """Predict with the kernel and the cost that are best on parts of the training folds.

    Probabilities are the softmax of the decision values, divided by the temperature of least log
    loss on the parts left out (Guo et al. 2017, arXiv:1706.04599).

    Parameters
    ----------
    task
        The samples and the fold to predict.
    kernels
        Kernels of some rows with all samples, or with the landmarks; the first of equals is taken.

    Returns
    -------
    tuple
        The `Prediction` of the held-out fold.
    """
    model, kernel = _best_kernel(task, kernels)
    if task.regression:
        scaled = TransformedTargetRegressor(model, transformer=StandardScaler())
        return _fit_predict(task, scaled, kernel)
    # Where no split has all classes, the temperature is fitted to the samples that were trained on,
    # which is better than none.
    every = np.arange(len(task.train))
    splits = _complete_splits(task) or [(every, every)]
    calibrated = CalibratedClassifierCV(model, method="temperature", cv=splits, ensemble=False)
    return _fit_predict(task, calibrated, kernel)


def _best_kernel(task: Problem, kernels: Sequence[PairsOfRows]) -> tuple[Any, PairsOfRows]:
    """Return a support vector machine with the cost that is best, and the kernel it is best on."""
    target = task.target[task.train]
    machine = SVC(kernel="precomputed", class_weight="balanced")
    if task.regression:
        target = StandardScaler().fit_transform(target[:, None])[:, 0]
        machine = SVR(kernel="precomputed", epsilon=0.0)
    splits = leave_each_part_out(task)
    fitted = []
    for kernel in kernels:
        model = search(task, clone(machine), COSTS, splits)
        fitted.append(model.fit(_training_pairs(task, kernel), target))
    # Without a part to leave out there is no score, and the first kernel is taken.
    scores = [getattr(model, "best_score_", 0.0) for model in fitted]
    # Where scores are equal, the first kernel is taken.
    best = scores.index(max(scores))
    return getattr(fitted[best], "best_estimator_", fitted[best]), kernels[best]


def _fit_predict(task: Problem, model: Any, pairs: PairsOfRows) -> Prediction:
    """Fit a model to the pairs of the training samples, and predict the held-out fold."""
    model.fit(_training_pairs(task, pairs), task.target[task.train])
    predictions = [
        predict(task, model, pairs(rows)[:, task.columns]) for rows in _blocks(task.test)
    ]
    values, probabilities = zip(*predictions, strict=True)
    return np.concatenate(values), np.concatenate(probabilities)


def _complete_splits(task: Problem) -> list[Split]:
    """Return splits that leave out every training sample once; none if one would miss a class."""
    target = task.target[task.train]
    splits = leave_parts_out(task)
    classes = len(np.unique(target))
    is_complete = all(len(np.unique(target[inner])) == classes for inner, _ in splits)
    return splits if is_complete else []
