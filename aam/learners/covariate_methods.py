"""What covariates say of a target alone, and what features say of the rest.

Each of these methods is fitted on the folds and nested parts of the baselines, so that
`aam.learners.super_learner` can mix them. Two look at covariates alone: a spline and a forest. Two
look at both: they begin with the spline, and a ridge or a forest learns from the features what it
leaves. For classes, what is left is 1 or 0 less the probability of a class.

Where the features say nothing beyond the covariates, there is nothing left to learn, and the ridge
may learn nothing at all: its penalty is chosen by parts of the training folds, and an infinite one
is among the candidates.

Shape suffixes: N samples, T training samples, R rows to predict, B samples of a part that is left
out, P columns or features, K classes (1 where a number is predicted).
"""

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from aam.data.covariates import Covariates
from aam.data.predictions import class_codes, class_order
from aam.learners.baselines.decision_trees import ForestPart, median_of_leaves
from aam.learners.baselines.linear_and_nearest import centred_log_ratios
from aam.learners.baselines.problem import (
    Prediction,
    Problem,
    Split,
    frequent_reads,
    leave_parts_out,
    predict,
    prevalent_reads,
)
from aam.learners.nested_predictions import CrossValidated, NestedCrossValidation, table_of
from aam.util.machine import end_with

ALONE = ("covariate_spline", "covariate_forest")
"""Methods that look at covariates alone."""
JOINT = ("joint_ridge", "joint_forest")
"""Methods that look at covariates and features."""
KNOTS = (0.05, 0.35, 0.65, 0.95)
"""Quantiles of a number that are knots of its spline: Harrell (2015), Regression Modeling
Strategies, section 2.4."""
FEW_KNOTS = (0.1, 0.5, 0.9)
"""The same with fewer than `MANY` numbers."""
MANY = 100
LEAST_IN_LEVEL = 2
"""Training samples of a category below which it counts as one that was not seen."""
PENALTY = 1.0
"""Penalty of the squared coefficients of the spline."""
RIDGE = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
"""Candidate penalties of the ridge on features, per training sample, beside an infinite one."""
TREES = 100
"""Trees of a forest."""
LEAF = 5
"""Least samples of a leaf."""
STEPS = 30
"""Steps of reweighted least squares."""
LEAST_PROBABILITY = 0.01
"""Probability of a class below which nothing is taken off."""

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class MedianRidge(RegressorMixin, BaseEstimator):
    """A linear regression of least absolute errors with a squared penalty.

    It is fitted by reweighted least squares: Schlossmacher, E. J. (1973), An iterative technique
    for absolute deviations curve fitting, JASA 68:857.

    Parameters
    ----------
    penalty
        Factor of the sum of the squared coefficients, in units of the mean absolute error.
    """

    def __init__(self, penalty: float = 1.0) -> None:
        self.penalty = penalty

    def fit(self, X: Floats, y: Floats) -> Self:
        """Fit the coefficients to standardized columns X [T, P] and a target y [T]."""
        columns = np.column_stack([np.ones(len(y)), X])
        penalty_P = np.full(columns.shape[1], self.penalty)
        penalty_P[0] = 1e-9
        rest_T = y - np.median(y)
        scale = float(np.abs(rest_T).mean()) or 1.0
        for _ in range(STEPS):
            weight_T = scale / np.maximum(np.abs(rest_T), 1e-3 * scale)
            gram_PP = (columns.T * weight_T) @ columns + np.diag(penalty_P)
            self.coefficients_ = np.linalg.solve(gram_PP, columns.T @ (weight_T * y))
            rest_T = y - columns @ self.coefficients_
        return self

    def predict(self, X: Floats) -> Floats:
        """Return predictions [R] of columns [R, P]."""
        result: Floats = np.column_stack([np.ones(len(X)), X]) @ self.coefficients_
        return result


def fit_with_covariates(task: Problem, covariates: Covariates, threads: int) -> CrossValidated:
    """Predict the samples of a task by all methods that look at covariates.

    Parameters
    ----------
    task
        The labelled samples. Those of fold -1 are predicted from all folds, and no fold from them.
    covariates
        Those of the same samples.
    threads
        Processes at a time; the tables are the same for any number.

    Returns
    -------
    CrossValidated
        The tables; methods stand in the column `baseline`.
    """
    nested = NestedCrossValidation(task)
    parts = nested.hold_out(task.encode())
    processes = 1 if task.has_few_landmarks else min(threads, len(parts))
    at_a_time = Parallel(processes, initializer=end_with, initargs=(os.getpid(),))
    tables = at_a_time(delayed(_fit_part)(part, covariates) for part in parts)
    if processes > 1:
        # The work of a process is counted when it has ended.
        get_reusable_executor().shutdown()
    return nested.tables({name: [table[name] for table in tables] for name in (*ALONE, *JOINT)})


def _fit_part(part: Problem, covariates: Covariates) -> dict[str, pd.DataFrame]:
    """Predict the held-out fold with every method, by row."""
    logging.getLogger(__name__).info("fold %d: covariates", part.held_out)
    # On several threads BLAS adds up in another order.
    with threadpool_limits(1):
        values = _predict_part(part, covariates)
    return {
        name: table_of(part, part.test, _prediction(part, value_RK))
        for name, value_RK in values.items()
    }


def _prediction(part: Problem, value_RK: Floats) -> Prediction:
    """Return numbers, or the likeliest classes and their probabilities."""
    if part.regression:
        return value_RK[:, 0], np.zeros((len(value_RK), 0))
    return np.asarray(part.classes)[value_RK.argmax(axis=1)], value_RK


def _predict_part(part: Problem, covariates: Covariates) -> dict[str, Floats]:
    """Return numbers, or probabilities, of the held-out fold by every method, [R, K]."""
    part = part.restrict_to_landmarks()
    column_NP = make_columns(covariates, part.train)
    splits = leave_parts_out(part)
    spline_RK = _predict_spline(part, column_NP, part.train, part.test)
    forest_RK = _predict_forest(part, column_NP)
    left_TK = _outcomes(part)
    for training, left_out in splits:
        rows = part.train[left_out]
        left_TK[left_out] -= _predict_spline(part, column_NP, part.train[training], rows)
    weight_T = _balance(part)
    # Without its mean, what features say changes no prediction as a whole.
    left_TK -= np.average(left_TK, axis=0, weights=weight_T)
    ridge_RK = _learn_ridge(part, left_TK, weight_T, splits)
    trees_RK = _learn_forest(part, left_TK, weight_T)
    joint = dict(zip(JOINT, (ridge_RK, trees_RK), strict=True))
    added = {name: _add(part, spline_RK, value_RK) for name, value_RK in joint.items()}
    return dict(zip(ALONE, (spline_RK, forest_RK), strict=True)) | added


def make_columns(covariates: Covariates, train: Rows) -> Floats:
    """Return covariates as columns of numbers, by what the training samples have, [N, P].

    A number is a restricted cubic spline: its value, standardized and not beyond the training
    samples, and curves between knots. Missing numbers are the median, with a column that says so. A
    category, or that it is missing, is a column of 0 and 1; one that fewer than `LEAST_IN_LEVEL`
    training samples have is none. Columns that do not vary are left out.

    Parameters
    ----------
    covariates
        Those of all samples.
    train
        Rows of the training samples.
    """
    columns: list[Floats] = []
    for value_N in covariates.numbers.values():
        columns += _spline_columns(value_N, train)
        columns.append(np.isnan(value_N).astype(np.float64))
    for text_N in covariates.categories.values():
        levels, counts = np.unique(text_N[train].astype(np.str_), return_counts=True)
        for level in levels[counts >= LEAST_IN_LEVEL]:
            columns.append((text_N == level).astype(np.float64))
    varied = [column_N for column_N in columns if np.ptp(column_N[train]) > 0]
    if not varied:
        return np.zeros((covariates.samples, 1))
    return np.stack(varied, axis=1)


def _spline_columns(value_N: Floats, train: Rows) -> list[Floats]:
    """Return the columns of a number; none where it does not vary."""
    known = value_N[train]
    known = known[~np.isnan(known)]
    if not len(known) or np.ptp(known) == 0:
        return []
    filled_N = np.where(np.isnan(value_N), np.median(known), value_N)
    filled_N = np.clip(filled_N, known.min(), known.max())
    columns = [filled_N]
    knots = np.unique(np.quantile(known, KNOTS if len(known) >= MANY else FEW_KNOTS))
    if len(knots) > 2:
        last, before = knots[-1], knots[-2]

        def cubed(knot: float) -> Floats:
            return np.maximum(filled_N - knot, 0.0) ** 3

        for knot in knots[:-2]:
            # Beyond the outer knots the curve is straight.
            rise = cubed(knot) - cubed(before) * (last - knot) / (last - before)
            columns.append(rise + cubed(last) * (before - knot) / (last - before))
    return [_standardize(column_N, train) for column_N in columns]


def _standardize(column_N: Floats, train: Rows) -> Floats:
    spread = float(column_N[train].std())
    return (column_N - column_N[train].mean()) / (spread or 1.0)


def _outcomes(part: Problem) -> Floats:
    """Return what the training samples have: their numbers, or 1 for their class, [T, K]."""
    target_T = part.target[part.train]
    if part.regression:
        return np.asarray(target_T, np.float64)[:, None].copy()
    return (target_T[:, None] == _codes(part)).astype(np.float64)


def _codes(part: Problem) -> NDArray[np.int64]:
    """Return the code of each class, as `Problem.encode` numbers them."""
    return class_codes(part.classes, class_order(part.classes))


def _balance(part: Problem) -> Floats:
    """Return the weight of each training sample, their mean 1: classes count alike."""
    if part.regression:
        return np.ones(len(part.train))
    _, code_T, size_C = np.unique(part.target[part.train], return_inverse=True, return_counts=True)
    return np.asarray(len(code_T) / (len(size_C) * size_C[code_T]))


def _predict_spline(part: Problem, column_NP: Floats, train: Rows, rows: Rows) -> Floats:
    """Return what a linear model of the columns says of some rows, [R, K]."""
    target = part.target[train]
    if part.regression:
        return MedianRidge(PENALTY).fit(column_NP[train], target).predict(column_NP[rows])[:, None]
    if len(np.unique(target)) == 1:
        return np.tile((target[0] == _codes(part)).astype(np.float64), (len(rows), 1))
    model = LogisticRegression(C=1.0 / PENALTY, class_weight="balanced", max_iter=500)
    return predict(part, model.fit(column_NP[train], target), column_NP[rows])[1]


def _predict_forest(part: Problem, column_NP: Floats) -> Floats:
    """Return what a forest of the columns says of the held-out fold, [R, K]."""
    settings: dict[str, Any] = {
        "n_estimators": TREES,
        "min_samples_leaf": LEAF,
        "max_features": 0.5,
        "random_state": part.random_state("covariate_forest"),
    }
    train_TP = column_NP[part.train]
    target_T = part.target[part.train]
    if part.regression:
        # Medians are taken of a forest on the counts of a task.
        columns = dataclasses.replace(part, counts=csr_array(column_NP))
        every = np.arange(column_NP.shape[1])
        forest = ForestPart(RandomForestRegressor(**settings), part.train, every)
        forest.forest.fit(forest.reads(columns, part.train), target_T)
        return median_of_leaves(columns, [forest], part.test)[0][:, None]
    votes = RandomForestClassifier(**settings).fit(train_TP, target_T, sample_weight=_balance(part))
    return predict(part, votes, column_NP[part.test])[1]


def _learn_ridge(
    part: Problem, left_TK: Floats, weight_T: Floats, splits: Sequence[Split]
) -> Floats:
    """Return what a ridge on centred log-ratios says of the rest of the held-out fold, [R, K].

    The errors of every part, left out, are those of the whole fit in closed form: with the inverse
    G of the penalized kernel they are G_BB^-1 (G y)_B. G is written by the singular vectors U of
    the features: U (1 / (s^2 + penalty) - 1 / penalty) U' + 1 / penalty.
    """
    reads_NP = prevalent_reads(part)
    train_TP = centred_log_ratios(reads_NP[part.train], added=part.pseudocount)
    mean_P = train_TP.mean(axis=0)
    train_TP -= mean_P
    scale = float(np.sqrt(np.square(train_TP).sum(axis=1).mean())) or 1.0
    root_T = np.sqrt(weight_T)[:, None]
    train_TP *= root_T / scale
    rest_TK = left_TK * root_T
    vector_TS, size_S, _ = np.linalg.svd(train_TP, full_matrices=False)
    turned_SK = vector_TS.T @ rest_TK
    # With an infinite penalty nothing is said, and all of the rest is missed.
    least = float(np.square(rest_TK).sum())
    best = np.zeros_like(rest_TK)
    for ratio in RIDGE if splits else ():
        penalty = ratio * len(rest_TK)
        inverse_S = 1.0 / (size_S**2 + penalty) - 1.0 / penalty
        solved_TK = vector_TS @ (inverse_S[:, None] * turned_SK) + rest_TK / penalty
        loss = 0.0
        for _, left_out in splits:
            vector_BS = vector_TS[left_out]
            inverse_BB = (vector_BS * inverse_S) @ vector_BS.T + np.eye(len(left_out)) / penalty
            loss += float(np.square(np.linalg.solve(inverse_BB, solved_TK[left_out])).sum())
        if loss < least:
            least = loss
            best = solved_TK
    test_RP = centred_log_ratios(reads_NP[part.test], added=part.pseudocount) - mean_P
    result: Floats = test_RP @ (train_TP.T @ best) / scale
    return result


def _learn_forest(part: Problem, left_TK: Floats, weight_T: Floats) -> Floats:
    """Return what a forest of reads says of the rest of the held-out fold, [R, K]."""
    reads = frequent_reads(part).astype(np.float32)
    # Forests take indices of 32 bits alone.
    reads.indices = reads.indices.astype(np.int32)
    reads.indptr = reads.indptr.astype(np.int32)
    forest = RandomForestRegressor(
        n_estimators=TREES,
        min_samples_leaf=LEAF,
        max_features=0.33,
        random_state=part.random_state("joint_forest"),
    )
    # One of two classes says both.
    target_TK = left_TK[:, 0] if left_TK.shape[1] <= 2 else left_TK
    forest.fit(reads[part.train], target_TK, sample_weight=weight_T)
    said_RK = forest.predict(reads[part.test]).reshape(len(part.test), -1)
    return np.hstack([said_RK, -said_RK]) if left_TK.shape[1] == 2 else said_RK


def _add(part: Problem, value_RK: Floats, said_RK: Floats) -> Floats:
    """Return what covariates say together with what features say of the rest, [R, K]."""
    if part.regression:
        return value_RK + said_RK
    share_RK = np.maximum(value_RK + said_RK, LEAST_PROBABILITY)
    return share_RK / share_RK.sum(axis=1, keepdims=True)
