"""Random forests on the rarefied reads.

Shape suffixes: T training samples, R rows to predict, L leaves of all trees.
"""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.preprocessing import OneHotEncoder

from aam.evaluate.baselines import problem
from aam.evaluate.baselines.problem import Prediction, Problem

TREES = 200


def predict(task: Problem) -> Prediction:
    """Predict with a random forest: the mean of its trees, or their fractions of votes.

    Trees do not care about monotone transformations, so reads are taken as they are. Classes
    are weighted to balance every bootstrap sample, because a forest otherwise hardly predicts
    a rare class and the balanced scores would flatter whatever is compared with it.
    """
    reads = _float_reads(task.counts)
    forest = _fit(task, reads)
    # Threads would add up the trees in any order, and so change the last bits.
    forest.set_params(n_jobs=1)
    return problem.predict(task, forest, reads[task.test])


def predict_median(task: Problem) -> Prediction:
    """Predict a number with the same forest, but the median instead of the mean."""
    reads = _float_reads(task.counts)
    train, test = reads[task.train], reads[task.test]
    medians = leaf_medians(_fit(task, reads), train, task.target[task.train], test)
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


def _fit(task: Problem, reads: scipy.sparse.csr_array) -> Any:
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
    return forest.fit(reads[task.train], task.target[task.train])


def _float_reads(counts: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return reads as the trees want them: float32, with 32-bit indices."""
    reads = counts.astype(np.float32)
    reads.indices, reads.indptr = reads.indices.astype(np.int32), reads.indptr.astype(np.int32)
    return reads
