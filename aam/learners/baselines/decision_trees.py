"""Decision trees on the rarefied reads: boosted ones, and forests.

The baselines are functions of the type `aam.learners.baselines.problem.Predictor`.

Shape suffixes: T training samples, R rows to predict, L leaves of all trees.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.preprocessing import OneHotEncoder

from aam.learners.baselines.problem import (
    LANDMARKS,
    Prediction,
    Problem,
    fit_predict,
    frequent_reads,
    leave_each_part_out,
    predict,
    search,
)

ITERATIONS = 100
"""Trees that boosting adds up."""
TREES = 200
"""Trees of a forest."""
ROWS_AT_ONCE = 1024
"""Rows whose medians are computed at a time."""
TRIED_TREES = 30
"""Trees of a forest that settings are chosen by."""
FOREST = {"max_features": (0.1, 0.33, "sqrt")}
"""Candidate settings of the forest; the first of equals is taken."""


def gradient_boosting(task: Problem) -> Prediction:
    """Predict with boosted trees for absolute errors, or for balanced classes."""
    settings: dict[str, Any] = {
        "max_iter": ITERATIONS,
        "learning_rate": 0.1,
        "max_leaf_nodes": 15,
        "min_samples_leaf": 5,
        "l2_regularization": 1.0,
        "max_features": 0.1,
        "max_bins": 63,
        "early_stopping": False,
        "random_state": task.random_state("gradient_boosting"),
    }
    model = (
        HistGradientBoostingRegressor(loss="absolute_error", **settings)
        if task.regression
        else HistGradientBoostingClassifier(class_weight="balanced", **settings)
    )
    return fit_predict(task, model, frequent_reads(task).toarray())


def random_forest(task: Problem) -> Prediction:
    """Predict with a random forest: the mean of its trees, or their fractions of votes.

    Trees do not care about monotone transformations, so reads are taken as they are. Classes
    are weighted to balance every bootstrap sample, because a forest otherwise hardly predicts
    a rare class and the balanced scores would flatter whatever is compared with it.
    """
    return _forest(task)[0]


def random_forest_median(task: Problem) -> Prediction:
    """Predict a number with the same forest, but the median instead of the mean."""
    return _forest(task)[1]


def extra_trees(task: Problem) -> Prediction:
    """Predict with trees that are split at random: the median of their leaves, or their votes.

    All trees see all training samples, or a part of many (`_drawn_samples`). Geurts, P., Ernst, D.,
    & Wehenkel, L. (2006). Extremely randomized trees. Machine Learning 63:3-42.
    """
    reads = _trees_reads(task)
    train = reads[task.train]
    test = reads[task.test]
    target = task.target[task.train]
    settings: dict[str, Any] = {
        "n_estimators": TREES,
        "max_features": 0.33,
        "min_samples_leaf": 2,
        "random_state": task.random_state("extra_trees"),
        **_drawn_samples(task),
    }
    if not task.regression:
        forest = ExtraTreesClassifier(class_weight="balanced", **settings)
        return predict(task, forest.fit(train, target), test)
    forest = ExtraTreesRegressor(**settings).fit(train, target)
    return leaf_medians(forest, train, target, test), np.zeros((len(task.test), 0))


def leaf_medians(
    forest: RandomForestRegressor | ExtraTreesRegressor,
    train: Any,
    target_T: NDArray[np.float64],
    rows: Any,
) -> NDArray[np.float64]:
    """Return the median of the training targets that share leaves with each row.

    A tree gives each of the training samples in the row's leaf the same part of a weight of one.
    Meinshausen, N. (2006). Quantile regression forests. JMLR 7:983-999.

    Parameters
    ----------
    forest
        A forest that was fitted to the training samples.
    train
        Features of the training samples, [T, P].
    target_T
        Their targets.
    rows
        Features of the rows to predict, [R, P].

    Returns
    -------
    numpy.ndarray
        Weighted medians, [R].
    """
    leaves = OneHotEncoder(dtype=np.float64)
    train_TL = leaves.fit_transform(forest.apply(train))
    size_L = np.asarray(train_TL.sum(axis=0)).ravel()
    weight_LT = (train_TL / size_L).T
    order = np.argsort(target_T, kind="stable")
    leaves_RL = leaves.transform(forest.apply(rows))
    medians = []
    for first in range(0, leaves_RL.shape[0], ROWS_AT_ONCE):
        weight_RT = (leaves_RL[first : first + ROWS_AT_ONCE] @ weight_LT).toarray()
        total_RT = weight_RT[:, order].cumsum(axis=1)
        # The median is the first target at which half of the weight is reached.
        position_R = (total_RT >= 0.5 * total_RT[:, -1:]).argmax(axis=1)
        medians.append(target_T[order][position_R])
    return np.concatenate(medians)


def _forest(task: Problem) -> tuple[Prediction, Prediction]:
    """Return what a forest predicts: the mean of its trees, and the medians of its leaves.

    Classes have one prediction, which is returned twice. Two baselines need the same forest, so it
    is fitted once per fold. The fraction of features of a split is chosen with fewer trees. A tree
    sees as many samples as the fold has, or a part of many (`_drawn_samples`).
    """
    if "forest" in task.shared:
        return task.shared["forest"]
    reads = _trees_reads(task)
    train = reads[task.train]
    test = reads[task.test]
    target = task.target[task.train]
    settings: dict[str, Any] = {
        "n_estimators": min(TREES, TRIED_TREES),
        "max_features": FOREST["max_features"][0],
        "min_samples_leaf": 2,
        "random_state": task.random_state("random_forest"),
        **_drawn_samples(task),
    }
    forest = (
        RandomForestRegressor(**settings)
        if task.regression
        else RandomForestClassifier(class_weight="balanced_subsample", **settings)
    )
    splits = leave_each_part_out(task)
    if splits:
        tried = search(task, forest, FOREST, splits).set_params(refit=False).fit(train, target)
        forest.set_params(**tried.best_params_)
    forest.set_params(n_estimators=TREES).fit(train, target)
    # Threads would add up the trees in any order, and so change the last bits.
    mean = predict(task, forest.set_params(n_jobs=1), test)
    median = mean
    if task.regression:
        _, no_probabilities = mean
        median = leaf_medians(forest, train, target, test), no_probabilities
    task.shared["forest"] = (mean, median)
    return task.shared["forest"]


def _drawn_samples(task: Problem) -> dict[str, Any]:
    """Return how many samples a forest of a large study draws for each of its trees.

    The time of a tree grows with its samples. So in a study with landmarks every tree draws as many
    samples as there are landmarks, with replacement and from all training samples.
    """
    samples = len(task.train)
    if task.landmarks is None or samples <= LANDMARKS:
        return {}
    # A fraction, because the search for settings fits trees to parts of the training samples.
    return {"bootstrap": True, "max_samples": LANDMARKS / samples}


def _trees_reads(task: Problem) -> csr_array:
    """Return the reads of frequent features in numbers of 32 bits, as forests take them."""
    reads_NP = frequent_reads(task).astype(np.float32)
    reads_NP.indices = reads_NP.indices.astype(np.int32)
    reads_NP.indptr = reads_NP.indptr.astype(np.int32)
    return reads_NP
