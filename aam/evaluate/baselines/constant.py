"""The same for every sample: what a model must beat to have learned anything."""

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from aam.evaluate.baselines.problem import Prediction, Problem, fit_predict


def predict(task: Problem) -> Prediction:
    """Predict the median of the training folds, or their commonest class."""
    median, majority = DummyRegressor(strategy="median"), DummyClassifier(strategy="prior")
    return fit_predict(
        task, median if task.regression else majority, np.zeros((len(task.target), 1))
    )
