"""A linear model with an elastic net on centred log-ratios.

Shape suffixes: N samples, P features.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNetCV, LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.parallel import Parallel, delayed

from aam.evaluate.baselines.features import centred_log_ratios, prevalent_reads
from aam.evaluate.baselines.inner import leave_one_part_out, leave_parts_out, loss
from aam.evaluate.baselines.problem import Prediction, Problem, Rows, predicted
from aam.util.seeds import seed_of

L1_RATIOS = (0.1, 0.5, 0.9)
"""Candidate shares of the penalty that are absolute values, for numbers."""

ALPHAS = 30
"""Candidate strengths of the penalty, for numbers."""

COSTS = (0.003, 0.01, 0.03, 0.1)
"""Candidate weights of the data against the penalty, for classes; the strongest penalty first."""


def predict(task: Problem, fold: int, train: Rows, test: Rows, threads: int) -> Prediction:
    """Predict with a penalty that is chosen by leaving out whole training folds."""
    ratios_NP = centred_log_ratios(prevalent_reads(task, train))
    ratios_NP = StandardScaler().fit(ratios_NP[train]).transform(ratios_NP)
    with warnings.catch_warnings():
        # A weak penalty may need more steps; how well it predicts by then decides about it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = _linear if task.regression else _logistic
        model = fit(task, fold, ratios_NP, train, threads)
    return predicted(task, model, ratios_NP[test])


def _linear(
    task: Problem, fold: int, ratios_NP: NDArray[np.float64], train: Rows, threads: int
) -> Any:
    model = ElasticNetCV(
        l1_ratio=L1_RATIOS,
        alphas=ALPHAS,
        eps=0.01,
        cv=leave_parts_out(task, train, parts=3),
        max_iter=1000,
        tol=1e-3,
        n_jobs=threads,
    )
    return model.fit(ratios_NP[train], task.target[train])


def _logistic(
    task: Problem, fold: int, ratios_NP: NDArray[np.float64], train: Rows, threads: int
) -> Any:
    split = leave_one_part_out(task, train)
    cost = COSTS[0]
    if split is not None:
        inner, left = train[split[0]], train[split[1]]
        models = Parallel(n_jobs=threads, prefer="threads")(
            delayed(_fit_logistic)(task, fold, ratios_NP, inner, cost) for cost in COSTS
        )
        losses = [loss(task, left, model.predict(ratios_NP[left])) for model in models]
        cost = COSTS[int(np.argmin(losses))]
    return _fit_logistic(task, fold, ratios_NP, train, cost)


def _fit_logistic(
    task: Problem, fold: int, ratios_NP: NDArray[np.float64], rows: Rows, cost: float
) -> LogisticRegression:
    model = LogisticRegression(
        C=cost,
        l1_ratio=0.5,
        solver="saga",
        class_weight="balanced",
        max_iter=100,
        tol=1e-3,
        random_state=seed_of("elastic_net", task.seed, fold) % 2**32,
    )
    return model.fit(ratios_NP[rows], task.target[rows])
