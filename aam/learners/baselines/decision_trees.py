"""Decision trees on the rarefied reads: boosted ones, and forests whose parts serve all folds.

A forest has a part for each fit of a nested cross-validation (`aam.data.nested_folds`), whose trees
learn from all samples but those of two blocks of folds. A block is predicted by all parts that have
not seen it; one of two blocks without the labels of the other, by the part that has seen neither;
and other samples by all parts. So the same trees give cross-validated and nested predictions.

Shape suffixes: N samples, T training samples, R rows to predict, L leaves of all trees, P features,
C classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.preprocessing import OneHotEncoder

from aam.data.folds import TEST
from aam.data.nested_folds import blocks_of_folds, inner_fits
from aam.learners.baselines.arrays import HALF_EDGE
from aam.learners.baselines.problem import (
    Prediction,
    Problem,
    RowSplit,
    fit_predict,
    frequent_features,
    frequent_reads,
)
from aam.util.seeds import seed_of

ITERATIONS = 100
"""Trees that boosting adds up."""
TREES = 200
"""Trees of the parts that predict a block of folds."""
WHOLE_TREES = 100
"""Trees of a forest that learns from all samples outside of a fold."""
TREE_SAMPLES = 2500
"""Samples that each tree draws in a study with landmarks."""
ROWS_AT_ONCE = 4096
"""Rows whose medians are computed at a time."""
WHOLE = 2.0**40
"""Parts of a weight of one that weights are rounded to, before they are added up."""

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]
Forest = Any
"""A forest of scikit-learn."""
Combine = Callable[[Problem, Sequence["ForestPart"], Rows], Prediction]
"""Returns what the parts of a forest say of some rows."""


def gradient_boosting(task: Problem) -> Prediction:
    """Predict with boosted trees for absolute errors, or for balanced classes."""
    return fit_predict(task, new_gradient_boosting(task), frequent_reads(task).toarray())


def new_gradient_boosting(task: Problem) -> Any:
    """Return boosted trees of scikit-learn, not fitted.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
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
    return (
        HistGradientBoostingRegressor(loss="absolute_error", **settings)
        if task.regression
        else HistGradientBoostingClassifier(class_weight="balanced", **settings)
    )


def random_forest(task: Problem, splits: Sequence[RowSplit]) -> list[Prediction]:
    """Predict with a random forest: the mean of its trees, or their fractions of votes.

    Every tree sees all samples of its part, since the parts differ by whole blocks of them. Trees
    do not care about monotone transformations, so reads are taken as they are. Classes are weighted
    to balance them, because a forest otherwise hardly predicts a rare class and the balanced scores
    would flatter whatever is compared with it.

    Parameters
    ----------
    task
        The labelled samples, as `Problem.encode` returns them.
    splits
        Rows to train on and rows to predict.

    Returns
    -------
    list of tuple
        The `Prediction` of each split.
    """
    return _predict_by_parts(task, splits, new_random_forest(task), mean_of_trees)


def random_forest_median(task: Problem, splits: Sequence[RowSplit]) -> list[Prediction]:
    """Predict a number with the same forest, but the median of the leaves instead of the mean.

    Parameters and results are those of `random_forest`.
    """
    return _predict_by_parts(task, splits, new_random_forest(task), median_of_leaves)


def extra_trees(task: Problem, splits: Sequence[RowSplit]) -> list[Prediction]:
    """Predict with trees that are split at random: the median of their leaves, or their votes.

    For numbers every fold has a forest that learns from all samples outside of it: medians gain by
    it, votes do not. In a study with landmarks a tree draws few of the samples either way, so that
    the parts serve.

    Geurts, P., Ernst, D., & Wehenkel, L. (2006). Extremely randomized trees. Machine Learning
    63:3-42. Parameters and results are those of `random_forest`.
    """
    forest = new_extra_trees(task)
    if task.regression:
        shared = task.landmarks is not None
        return _predict_by_parts(task, splits, forest, median_of_leaves, shared=shared)
    return _predict_by_parts(task, splits, forest, mean_of_trees)


def new_extra_trees(task: Problem) -> Forest:
    """Return the settings of trees that are split at random.

    Parameters
    ----------
    task
        The labelled samples.
    """
    forest = (
        ExtraTreesRegressor() if task.regression else ExtraTreesClassifier(class_weight="balanced")
    )
    return forest.set_params(max_features=0.33, min_samples_leaf=2)


def new_random_forest(task: Problem) -> Forest:
    """Return the settings of a random forest.

    Parameters
    ----------
    task
        The labelled samples.
    """
    forest = (
        RandomForestRegressor()
        if task.regression
        else RandomForestClassifier(class_weight="balanced")
    )
    return forest.set_params(max_features=0.1, min_samples_leaf=2, bootstrap=False)


@dataclass(frozen=True, eq=False)
class ForestPart:
    """Trees that learned from the same samples."""

    forest: Forest
    """Its trees, fitted."""
    train: Rows
    """Rows that they learned from."""
    features: NDArray[np.intp]
    """Columns of the reads that they look at."""

    def reads(self, task: Problem, rows: Rows) -> NDArray[np.float32]:
        """Return the reads of some rows as the trees take them, [R, P]."""
        return task.counts[rows][:, self.features].toarray().astype(np.float32)


def _predict_by_parts(
    task: Problem,
    splits: Sequence[RowSplit],
    forest: Forest,
    combine: Combine,
    *,
    shared: bool = True,
) -> list[Prediction]:
    """Predict each split by the parts of a forest that have learned from its training rows alone.

    Parameters
    ----------
    task
        The labelled samples.
    splits
        Rows to train on and rows to predict.
    forest
        The settings of a forest.
    combine
        Returns the prediction for some rows.
    shared
        Whether a split gets the parts that learn from some of its training rows. Otherwise, unless
        a part learns from all of them, it gets a forest of its own.
    """
    grown: dict[int, ForestPart] = {}
    return [
        combine(task, parts_of_split(task, train, forest, shared=shared, grown=grown), rows)
        for train, rows in splits
    ]


def parts_of_split(
    task: Problem,
    train: Rows,
    forest: Forest,
    *,
    shared: bool,
    grown: dict[int, ForestPart] | None = None,
) -> list[ForestPart]:
    """Return the parts of a forest that have learned from the training rows of a split alone.

    Parameters
    ----------
    task
        The labelled samples.
    train
        The rows.
    forest
        The settings of a forest.
    shared
        See `_predict_by_parts`.
    grown
        Parts that are there already, by their number; those that are grown are added.
    """
    if grown is None:
        grown = {}
    trains, trees = _training_rows_of_parts(task)
    chosen = [
        number
        for number, part in enumerate(trains)
        if np.isin(part, train).all() and (shared or len(part) == len(train))
    ]
    for number in chosen:
        if number not in grown:
            grown[number] = _grow(task, trains[number], forest, trees, number)
    return [grown[number] for number in chosen] or [_grow(task, train, forest, WHOLE_TREES, None)]


def _training_rows_of_parts(task: Problem) -> tuple[list[Rows], int]:
    """Return the rows that each part of a forest learns from, and its number of trees."""
    fits = inner_fits(task.fold, task.units, ring=task.has_few_landmarks)
    blocks = blocks_of_folds(task.fold)
    block_N = np.array([blocks.get(int(fold), TEST) for fold in task.fold])
    trains = [np.flatnonzero(fit.is_training_N) for fit in fits]
    parts_of_block = [
        sum(not (block_N[train] == block).any() for train in trains) for block in {*blocks.values()}
    ]
    return trains, -(-TREES // max(min(parts_of_block, default=1), 1))


def _grow(task: Problem, train: Rows, forest: Forest, trees: int, number: int | None) -> ForestPart:
    """Fit the trees of a part with a number, or of a forest that has no parts.

    The time of a tree grows with its samples, and many trees of few samples predict as well as few
    trees of many. So in a study with landmarks every tree draws `TREE_SAMPLES`, with replacement
    and from all training samples.
    """
    features = frequent_features(task.learn_from(train))
    settings: dict[str, Any] = {
        "n_estimators": trees,
        "random_state": seed_of("forest", task.seed, number) % 2**32,
    }
    if task.landmarks is not None and len(train) > TREE_SAMPLES:
        settings |= {"bootstrap": True, "max_samples": TREE_SAMPLES}
    part = ForestPart(clone(forest).set_params(**settings), train, features)
    part.forest.fit(part.reads(task, train), task.target[train])
    return part


def mean_of_trees(task: Problem, parts: Sequence[ForestPart], rows: Rows) -> Prediction:
    """Return the mean prediction of all trees, or their mean probabilities.

    Parameters
    ----------
    task
        The samples that the trees learned from.
    parts
        The forest.
    rows
        Rows to predict.
    """
    if task.regression:
        values = [part.forest.predict(part.reads(task, rows)) for part in parts]
        return np.mean(values, axis=0), np.zeros((len(rows), 0))
    share_RC = np.zeros((len(rows), len(task.classes)))
    for part in parts:
        codes: NDArray[np.int64] = part.forest.classes_
        share_RC[:, codes] += part.forest.predict_proba(part.reads(task, rows))
    return task.decode(np.arange(len(task.classes)), share_RC / len(parts))


def median_of_leaves(task: Problem, parts: Sequence[ForestPart], rows: Rows) -> Prediction:
    """Return the median of the training targets that share leaves with each row.

    A tree gives each of the training samples in the row's leaf the same part of a weight of one. In
    a study with landmarks these alone count, because leaves hold dozens of all samples.
    Meinshausen, N. (2006). Quantile regression forests. JMLR 7:983-999. Parameters and results are
    those of `mean_of_trees`.
    """
    # Columns are sorted by target, so that a median is where half of the weight is reached.
    order = np.argsort(task.target, kind="stable")
    position_N = np.argsort(order)
    encoders = []
    for part in parts:
        train = part.train
        if task.landmarks is not None:
            train = np.intersect1d(train, task.landmarks)
        # A leaf without a landmark is unknown and says nothing.
        leaves = OneHotEncoder(dtype=np.float64, handle_unknown="ignore")
        train_TL = leaves.fit_transform(part.forest.apply(part.reads(task, train)))
        size_L = np.asarray(train_TL.sum(axis=0)).ravel()
        weight_LT = csr_array((train_TL / size_L).T)
        weight_LT = csr_array(
            (weight_LT.data, position_N[train][weight_LT.indices], weight_LT.indptr),
            shape=(weight_LT.shape[0], len(order)),
        )
        encoders.append((part, leaves, weight_LT))
    medians = []
    # A row whose leaves are all unknown gets the median of the training samples.
    middle = np.sort(position_N[parts[0].train])[len(parts[0].train) // 2]
    for first in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[first : first + ROWS_AT_ONCE]
        weight_RN = sum(
            csr_array(leaves.transform(part.forest.apply(part.reads(task, some)))) @ weight_LN
            for part, leaves, weight_LN in encoders
        )
        unknown = np.flatnonzero(np.diff(weight_RN.indptr) == 0)
        at = np.full(len(unknown), middle)
        weight_RN += csr_array((np.ones(len(unknown)), (unknown, at)), shape=weight_RN.shape)
        medians.append(task.target[order][_half_positions(csr_array(weight_RN))])
    return np.concatenate(medians), np.zeros((len(rows), 0))


def _half_positions(weight_RN: csr_array) -> Rows:
    """Return the column of each row at which half of its weight is reached."""
    weight_RN.sort_indices()
    # Sums of whole numbers do not depend on the rows before. Where two labels tie, rounding would
    # choose one of them.
    total = np.cumsum(np.rint(weight_RN.data * WHOLE).astype(np.int64))
    ends = weight_RN.indptr[1:]
    before_R = np.concatenate([[0], total[ends[:-1] - 1]])
    half_R = before_R + (total[ends - 1] - before_R) // 2
    at = np.searchsorted(total, half_R - round(HALF_EDGE * WHOLE))
    return weight_RN.indices[at]
