"""The nearest samples by unweighted UniFrac."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from aam.evaluate.baselines.inner import leave_folds_out, loss
from aam.evaluate.baselines.problem import Prediction, Problem, Rows, predicted

NEIGHBOURS = (1, 3, 5, 10, 20, 40)
"""Candidate numbers of neighbours."""


def predict(task: Problem, fold: int, train: Rows, test: Rows, threads: int) -> Prediction:
    """Predict from the nearest training samples, weighted by the inverse of their distance."""
    model = _neighbours(task, train, _best_neighbours(task, train))
    return predicted(task, model, task.distances[np.ix_(test, train)])


def _best_neighbours(task: Problem, train: Rows) -> int:
    """Choose the number of neighbours within the training samples; the smallest of equals."""
    splits = [(train[inner], train[left]) for inner, left in leave_folds_out(task, train)]
    smallest = min((len(inner) for inner, _ in splits), default=1)
    candidates = [k for k in NEIGHBOURS if k <= smallest]
    losses = {
        k: np.mean([_loss(task, inner, left, k) for inner, left in splits]) if splits else 0.0
        for k in candidates
    }
    return min(losses, key=lambda k: float(losses[k]))


def _loss(task: Problem, train: Rows, test: Rows, k: int) -> float:
    guess = _neighbours(task, train, k).predict(task.distances[np.ix_(test, train)])
    return loss(task, test, guess)


def _neighbours(task: Problem, train: Rows, k: int) -> BaseEstimator:
    kind = KNeighborsRegressor if task.regression else KNeighborsClassifier
    model = kind(n_neighbors=k, weights="distance", metric="precomputed")
    return model.fit(task.distances[np.ix_(train, train)], task.target[train])
