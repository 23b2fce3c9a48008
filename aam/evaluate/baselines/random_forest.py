"""Random forests on the rarefied reads.

Shape suffixes: T training samples, R rows to predict, L leaves of all trees.
"""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.preprocessing import OneHotEncoder

from aam.evaluate.baselines.problem import Prediction, Problem, Rows, predicted
from aam.util.seeds import seed_of

TREES = 200


def predict(task: Problem, fold: int, train: Rows, test: Rows, threads: int) -> Prediction:
    """Predict with a random forest: the mean of its trees, or their shares of votes.

    Trees do not care about monotone transformations, so reads are taken as they are. Classes
    are weighted to balance every bootstrap sample, because a forest otherwise hardly predicts
    a rare class and the balanced scores would flatter whatever is compared with it.
    """
    reads = float_reads(task.counts)
    if task.regression:
        model = grown(reads[train], task.target[train], _seed(task, fold), threads)
    else:
        model = RandomForestClassifier(
            class_weight="balanced_subsample", **_settings(_seed(task, fold), threads)
        ).fit(reads[train], task.target[train])
    # Threads would add up the trees in any order, and so change the last bits.
    model.set_params(n_jobs=1)
    return predicted(task, model, reads[test])


def predict_median(task: Problem, fold: int, train: Rows, test: Rows, threads: int) -> Prediction:
    """Predict a number with the same forest, but the median instead of the mean."""
    reads = float_reads(task.counts)
    model = grown(reads[train], task.target[train], _seed(task, fold), threads)
    medians = leaf_medians(model, reads[train], task.target[train], reads[test])
    return medians, np.zeros((len(test), 0))


def grown(features: Any, target: NDArray[Any], seed: int, threads: int) -> RandomForestRegressor:
    """Return a forest grown on training samples."""
    return RandomForestRegressor(**_settings(seed, threads)).fit(features, target)


def leaf_medians(
    model: RandomForestRegressor, train: Any, target_T: NDArray[np.float64], rows: Any
) -> NDArray[np.float64]:
    """Return the median of the training targets that share leaves with each row, [R].

    A tree gives each of the training samples in the row's leaf the same part of a weight of one.
    Meinshausen, N. (2006). Quantile regression forests. JMLR 7:983-999.

    Parameters
    ----------
    model
        A fitted forest.
    train, target_T
        Features and targets that it was fitted on.
    rows
        Features of the rows to predict.
    """
    leaves = OneHotEncoder(dtype=np.float64).fit(model.apply(train))
    train_TL = leaves.transform(model.apply(train))
    size_L = np.asarray(train_TL.sum(axis=0)).ravel()
    weight_RT = (leaves.transform(model.apply(rows)) @ (train_TL / size_L).T).toarray()
    order = np.argsort(target_T, kind="stable")
    total_RT = weight_RT[:, order].cumsum(axis=1)
    return target_T[order][(total_RT >= 0.5 * total_RT[:, -1:]).argmax(axis=1)]


def float_reads(counts: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return reads as the trees want them: float32, with 32-bit indices."""
    reads = counts.astype(np.float32)
    reads.indices, reads.indptr = reads.indices.astype(np.int32), reads.indptr.astype(np.int32)
    return reads


def _settings(seed: int, threads: int) -> dict[str, Any]:
    return {
        "n_estimators": TREES,
        "max_features": 0.1,
        "min_samples_leaf": 2,
        "random_state": seed,
        "n_jobs": threads,
    }


def _seed(task: Problem, fold: int) -> int:
    return seed_of("random_forest", task.seed, fold) % 2**32
