"""Reads as the features of linear models and of boosted trees.

Shape suffixes: N samples, T training samples, F features, P prevalent features.
"""

import numpy as np
from numpy.typing import NDArray

from aam.evaluate.baselines.problem import Problem, Rows

PREVALENCE = 0.01
"""Least share of the training samples that a feature is in."""

PSEUDOCOUNT = 0.5


def prevalent_reads(task: Problem, train: Rows) -> NDArray[np.float64]:
    """Return the reads of the features that are in enough training samples, [N, P].

    Where no feature is in as many, the commonest ones are taken.
    """
    share_F = (task.counts[train] > 0).mean(axis=0)
    chosen = np.flatnonzero(share_F >= min(PREVALENCE, share_F.max()))
    return task.counts[:, chosen].toarray().astype(np.float64)


def centred_log_ratios(reads_NP: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(reads + 0.5), less its mean over the features of a sample, [N, P].

    References
    ----------
    Aitchison, J. (1982). The statistical analysis of compositional data. Journal of the Royal
    Statistical Society B 44, 139-177.
    """
    logs_NP = np.log(reads_NP + PSEUDOCOUNT)
    return logs_NP - logs_NP.mean(axis=1, keepdims=True)
