"""Reads as the features of linear models and of trees.

Shape suffixes: N samples, F features, P prevalent features.
"""

import numpy as np
from numpy.typing import NDArray

from aam.evaluate.baselines.problem import Problem

PREVALENCE = 0.01
"""Least fraction of the training samples that a feature is in."""


def prevalent_reads(task: Problem) -> NDArray[np.float64]:
    """Return the reads of the features that are in enough training samples, [N, P].

    Where no feature is in as many, the commonest ones are taken.
    """
    prevalence_F = (task.counts[task.train] > 0).mean(axis=0)
    chosen = np.flatnonzero(prevalence_F >= min(PREVALENCE, prevalence_F.max()))
    return task.counts[:, chosen].toarray().astype(np.float64)
