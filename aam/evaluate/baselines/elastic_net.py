"""A linear model with an elastic net on centred log-ratios.

Shape suffixes: N samples, P features.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import ElasticNetCV, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aam.evaluate.baselines.inner import leave_one_part_out, leave_parts_out, search
from aam.evaluate.baselines.problem import Prediction, Problem, fit_predict, prevalent_reads

COSTS = (0.003, 0.01, 0.03, 0.1)
"""Candidate weights of the data against the penalty, for classes; the strongest penalty first."""

PSEUDOCOUNT = 0.5


def predict(task: Problem) -> Prediction:
    """Predict with a penalty that is chosen by leaving out whole training folds."""
    if task.regression:
        # Where all are of one group, nothing but samples is left to choose by.
        cv: Any = leave_parts_out(task, parts=3) or min(3, len(task.train))
        model = ElasticNetCV(
            l1_ratio=(0.1, 0.5, 0.9),
            alphas=30,
            eps=0.01,
            cv=cv,
            max_iter=1000,
            tol=1e-3,
        )
    else:
        logistic = LogisticRegression(
            C=COSTS[0],
            l1_ratio=0.5,
            solver="saga",
            class_weight="balanced",
            max_iter=100,
            tol=1e-3,
            random_state=task.random_state("elastic_net"),
        )
        model = search(task, logistic, {"C": COSTS}, leave_one_part_out(task))
    ratios_NP = centred_log_ratios(prevalent_reads(task))
    return fit_predict(task, make_pipeline(StandardScaler(), model), ratios_NP)


def centred_log_ratios(reads_NP: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(reads + 0.5), less its mean over the features of a sample, [N, P].

    Aitchison, J. (1982). The statistical analysis of compositional data. JRSS B 44, 139-177.
    """
    logs_NP = np.log(reads_NP + PSEUDOCOUNT)
    return logs_NP - logs_NP.mean(axis=1, keepdims=True)
