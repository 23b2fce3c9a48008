"""Baselines that look at the rarefied reads, and the constant, which looks at nothing.

Shape suffixes: N samples, P features, T training samples, R rows to predict, L leaves of all trees.
"""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import ElasticNetCV, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from aam.evaluate.baselines.inner import leave_one_part_out, leave_parts_out, search
from aam.evaluate.baselines.problem import (
    Prediction,
    Problem,
    fit_predict,
    predict,
    prevalent_reads,
)

ITERATIONS = 200
TREES = 200
LOGISTIC_COSTS = (0.003, 0.01, 0.03, 0.1)
"""Candidate weights of the data against the penalty, for classes; the strongest penalty first."""

PSEUDOCOUNT = 0.5


def constant(task: Problem) -> Prediction:
    """Predict the median of the training folds, or their most frequent class."""
    median, majority = DummyRegressor(strategy="median"), DummyClassifier(strategy="prior")
    return fit_predict(
        task, median if task.regression else majority, np.zeros((len(task.target), 1))
    )


def elastic_net(task: Problem) -> Prediction:
    """Predict with a penalty that is chosen by leaving out whole training folds."""
    if task.regression:
        # Where all are of one group, nothing but samples is left to choose by.
        cv: Any = leave_parts_out(task, parts=3) or min(3, len(task.train))
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
    ratios_NP = centred_log_ratios(prevalent_reads(task))
    return fit_predict(task, make_pipeline(StandardScaler(), model), ratios_NP)


def centred_log_ratios(reads_NP: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(reads + 0.5), less its mean over the features of a sample, [N, P].

    Aitchison, J. (1982). The statistical analysis of compositional data. JRSS B 44, 139-177.
    """
    logs_NP = np.log(reads_NP + PSEUDOCOUNT)
    return logs_NP - logs_NP.mean(axis=1, keepdims=True)


def gradient_boosting(task: Problem) -> Prediction:
    """Predict with boosted trees of fixed settings; classes are weighted to count alike."""
    settings: dict[str, Any] = {
        "max_iter": ITERATIONS,
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "min_samples_leaf": 5,
        "l2_regularization": 1.0,
        "max_features": 0.3,
        "max_bins": 63,
        "early_stopping": False,
        "random_state": task.random_state("gradient_boosting"),
    }
    model = (
        HistGradientBoostingRegressor(**settings)
        if task.regression
        else HistGradientBoostingClassifier(class_weight="balanced", **settings)
    )
    return fit_predict(task, model, prevalent_reads(task))


def random_forest(task: Problem) -> Prediction:
    """Predict with a random forest: the mean of its trees, or their fractions of votes.

    Trees do not care about monotone transformations, so reads are taken as they are. Classes
    are weighted to balance every bootstrap sample, because a forest otherwise hardly predicts
    a rare class and the balanced scores would flatter whatever is compared with it.
    """
    forest, _, test = _forest(task)
    # Threads would add up the trees in any order, and so change the last bits.
    forest.set_params(n_jobs=1)
    return predict(task, forest, test)


def random_forest_median(task: Problem) -> Prediction:
    """Predict a number with the same forest, but the median instead of the mean."""
    forest, train, test = _forest(task)
    medians = leaf_medians(forest, train, task.target[task.train], test)
    return medians, np.zeros((len(medians), 0))


def leaf_medians(
    forest: RandomForestRegressor, train: Any, target_T: NDArray[np.float64], rows: Any
) -> NDArray[np.float64]:
    """Return the median of the training targets that share leaves with each row, [R].

    A tree, fitted on `train` and `target_T`, gives each of the training samples in the row's leaf
    the same part of a weight of one.
    Meinshausen, N. (2006). Quantile regression forests. JMLR 7:983-999.
    """
    leaves = OneHotEncoder(dtype=np.float64)
    train_TL = leaves.fit_transform(forest.apply(train))
    size_L = np.asarray(train_TL.sum(axis=0)).ravel()
    weight_RT = (leaves.transform(forest.apply(rows)) @ (train_TL / size_L).T).toarray()
    order = np.argsort(target_T, kind="stable")
    total_RT = weight_RT[:, order].cumsum(axis=1)
    return target_T[order][(total_RT >= 0.5 * total_RT[:, -1:]).argmax(axis=1)]


def _forest(task: Problem) -> tuple[Any, scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Return the fitted forest, and the reads of the training samples and of those to predict."""
    reads = task.counts.astype(np.float32)
    # The trees take no 64-bit indices.
    reads.indices, reads.indptr = reads.indices.astype(np.int32), reads.indptr.astype(np.int32)
    train = reads[task.train]
    settings: dict[str, Any] = {
        "n_estimators": TREES,
        "max_features": 0.1,
        "min_samples_leaf": 2,
        "random_state": task.random_state("random_forest"),
    }
    forest = (
        RandomForestRegressor(**settings)
        if task.regression
        else RandomForestClassifier(class_weight="balanced_subsample", **settings)
    )
    return forest.fit(train, task.target[task.train]), train, reads[task.test]
