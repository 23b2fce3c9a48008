"""Nearest neighbours on unweighted UniFrac."""

from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from aam.evaluate.baselines.inner import leave_parts_out, search
from aam.evaluate.baselines.problem import Prediction, Problem, fit_predict

NEIGHBOURS = (1, 3, 5, 10, 20, 40)
"""Candidate numbers of neighbours; the smallest of equals is taken."""


def knn_unifrac(task: Problem) -> Prediction:
    """Predict from the nearest training samples, weighted by the inverse of their distance."""
    kind = KNeighborsRegressor if task.regression else KNeighborsClassifier
    splits = leave_parts_out(task, parts=10)
    smallest = min((len(inner) for inner, _ in splits), default=1)
    model = search(
        task,
        kind(n_neighbors=1, weights="distance", metric="precomputed"),
        {"n_neighbors": [k for k in NEIGHBOURS if k <= smallest]},
        splits,
    )
    return fit_predict(task, model, task.distances, pairwise=True)
