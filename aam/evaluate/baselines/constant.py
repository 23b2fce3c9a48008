"""The same for every sample: what a model must beat to have learned anything."""

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from aam.evaluate.baselines.problem import Prediction, Problem, Rows, predicted


def predict(task: Problem, fold: int, train: Rows, test: Rows, threads: int) -> Prediction:
    """Predict the median of the training folds, or their commonest class."""
    model = (
        DummyRegressor(strategy="median") if task.regression else DummyClassifier(strategy="prior")
    )
    model.fit(np.zeros((len(train), 1)), task.target[train])
    return predicted(task, model, np.zeros((len(test), 1)))
