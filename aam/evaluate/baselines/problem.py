"""What a baseline gets and what it gives back.

Shape suffixes: N samples of a task, T samples to predict, F features, C classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Rows = NDArray[np.intp]

Prediction = tuple[NDArray[Any], NDArray[np.float64]]
"""Predicted values [T], and probabilities of all classes [T, C] (C = 0 for numbers)."""


@dataclass(frozen=True)
class Problem:
    """The labelled samples of a task, N of them."""

    kind: str
    """regression, classification or ordinal."""
    target: NDArray[Any]
    """Numbers, or names of classes, [N]."""
    classes: Sequence[str]
    """Names of the classes, in the order of their probabilities; none in a regression."""
    fold: NDArray[np.int64]
    """Fold that each sample is held out in, [N]; -1: in none, for testing alone."""
    group: NDArray[np.str_]
    """Samples of one group never stand on both sides of a split, [N]; empty: of no group."""
    counts: scipy.sparse.csr_array
    """Rarefied reads, [N, F]."""
    distances: NDArray[np.float32]
    """Unweighted UniFrac, [N, N]."""
    seed: int
    """Seed of what a baseline draws."""

    @property
    def regression(self) -> bool:
        """Whether the target is a number."""
        return self.kind == "regression"


Predictor = Callable[[Problem, int, Rows, Rows, int], Prediction]
"""Predicts samples of a problem, given the fold, rows to train on, rows to predict, and threads."""


def predicted(
    task: Problem, model: Any, features: NDArray[Any] | scipy.sparse.csr_array
) -> Prediction:
    """Return what a fitted scikit-learn model says of T samples with the given features."""
    if task.regression:
        return model.predict(features), np.zeros((features.shape[0], 0))
    return classified(task, model.classes_, model.predict_proba(features))


def classified(
    task: Problem, known: NDArray[Any], probabilities_TK: NDArray[np.float64]
) -> Prediction:
    """Return the likeliest classes, and the probabilities of all: 0 for those not trained on.

    Parameters
    ----------
    task
        The problem.
    known
        The K classes that the model was trained on.
    probabilities_TK
        Their probabilities, [T, K].
    """
    place = {name: column for column, name in enumerate(task.classes)}
    probabilities_TC = np.zeros((len(probabilities_TK), len(task.classes)))
    probabilities_TC[:, [place[name] for name in known]] = probabilities_TK
    return np.asarray(task.classes)[probabilities_TC.argmax(axis=1)], probabilities_TC
