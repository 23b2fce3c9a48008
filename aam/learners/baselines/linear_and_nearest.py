"""Linear methods on log-ratios, and methods on pairs of samples: kernels and nearest neighbours.

The baselines are functions of the type `aam.learners.baselines.problem.Predictor`.

Shape suffixes: N samples, L samples that pairs are taken with (all, or landmarks), P features, E
branches of the tree, T training samples, R rows that are asked for.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import ElasticNetCV, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from aam.learners.baselines.problem import (
    PREVALENCE,
    PSEUDOCOUNT,
    Prediction,
    Problem,
    fit_predict,
    frequent_reads,
    leave_one_part_out,
    leave_parts_out,
    predict,
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
    return fit_predict(task, new_elastic_net(task), frequent_reads(task))


def new_elastic_net(task: Problem) -> Any:
    """Return a pipeline of scikit-learn: log-ratios, which are scaled, and an elastic net.

    Parameters
    ----------
    task
        The samples, landmarks alone where there are some, and the fold to predict.
    """
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
    log_ratios = FunctionTransformer(centred_log_ratios, kw_args={"added": task.pseudocount})
    return make_pipeline(log_ratios, StandardScaler(), model)


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
    chosen = prevalent_branches(task)
    above_FE = task.above[:, chosen]
    root_E = np.sqrt(task.lengths[chosen])
    added = task.pseudocount

    def log_reads(reads_NF: csr_array) -> NDArray[np.float64]:
        return np.log((reads_NF @ above_FE).toarray() + added) * root_E

    return log_reads


def prevalent_branches(task: Problem) -> NDArray[np.intp]:
    """Return the branches that lead to reads in enough training samples, ascending.

    Parameters
    ----------
    task
        The samples and their tree.
    """
    samples_E = np.zeros(task.above.shape[1], np.int64)
    # Of a hundred thousand samples, reads below all branches take gigabytes.
    for first in range(0, len(task.train), ROWS_AT_ONCE):
        rows = task.train[first : first + ROWS_AT_ONCE]
        below = (task.counts[rows] @ task.above).indices
        samples_E += np.bincount(below, minlength=len(samples_E))
    prevalence_E = samples_E / len(task.train)
    return np.flatnonzero(prevalence_E >= min(PREVALENCE, prevalence_E.max()))


def knn_distances(task: Problem) -> Prediction:
    """Predict from the nearest training samples, weighted by the inverse of their distance."""
    task = task.restrict_to_landmarks()
    searched = new_neighbours(task)
    searched.fit(task.distances[np.ix_(task.train, task.columns)], task.target[task.train])
    predictions = [
        predict(task, searched, task.distances[np.ix_(rows, task.columns)])
        for rows in np.array_split(task.test, -(-len(task.test) // ROWS_AT_ONCE))
    ]
    values, probabilities = zip(*predictions, strict=True)
    return np.concatenate(values), np.concatenate(probabilities)


def new_neighbours(task: Problem) -> Any:
    """Return a method of scikit-learn that chooses how many neighbours are asked, not fitted.

    Parameters
    ----------
    task
        The samples, landmarks alone where there are some, and the fold to predict.
    """
    kind = KNeighborsRegressor if task.regression else KNeighborsClassifier
    splits = leave_parts_out(task, parts=10)
    smallest = min((len(inner) for inner, _ in splits), default=1)
    grid = {"n_neighbors": [k for k in NEIGHBOURS if k <= smallest]}
    model = kind(n_neighbors=1, weights="distance", metric="precomputed")
    return search(task, model, grid, splits)
