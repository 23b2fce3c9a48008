"""The baseline that looks at nothing: the median, or the most frequent class."""

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from aam.learners.baselines.problem import Prediction, Problem, fit_predict


def constant(task: Problem) -> Prediction:
    """Predict the median of the training folds, or their most frequent class.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    median = DummyRegressor(strategy="median")
    majority = DummyClassifier(strategy="prior")
    nothing = np.zeros((len(task.target), 1))
    return fit_predict(task, median if task.regression else majority, nothing)
