"""Gradient-boosted trees on the rarefied reads of the prevalent features."""

from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from aam.evaluate.baselines.problem import Prediction, Problem, fit_predict, prevalent_reads

ITERATIONS = 200


def predict(task: Problem) -> Prediction:
    """Predict with boosted trees of fixed settings; classes are weighted to count alike."""
    settings: dict[str, Any] = {
        "max_iter": ITERATIONS,
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "min_samples_leaf": 5,
        "l2_regularization": 1.0,
        "max_features": 0.3,
        "max_bins": 63,
        "early_stopping": False,
        "random_state": task.random_state("gradient_boosting"),
    }
    model = (
        HistGradientBoostingRegressor(**settings)
        if task.regression
        else HistGradientBoostingClassifier(class_weight="balanced", **settings)
    )
    return fit_predict(task, model, prevalent_reads(task))
