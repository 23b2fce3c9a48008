"""What a practitioner would try first, on the same folds and the same rarefied table.

The training folds alone decide everything: the median, the trees, the number of neighbours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import mean_absolute_error, recall_score
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from aam.evaluate.predictions import PROBABILITY
from aam.util.seeds import seed_of

NEIGHBOURS = (1, 3, 5, 10, 20, 40)
"""Candidate numbers of neighbours."""

TREES = 200

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Problem:
    """The labelled samples of a task, N of them."""

    kind: str
    """regression or classification."""
    target: NDArray[Any]
    """Numbers, or names of classes, [N]."""
    fold: NDArray[np.int64]
    """Fold that each sample is held out in, [N]."""
    group: NDArray[np.str_]
    """Samples of one group never stand on both sides of a split, [N]; empty: of no group."""
    counts: scipy.sparse.csr_array
    """Rarefied reads, [N, features]."""
    distances: NDArray[np.float32]
    """Unweighted UniFrac, [N, N]."""
    seed: int
    """Seed of the trees."""

    @property
    def classes(self) -> list[str]:
        """Names of the classes, sorted; none in a regression."""
        return [] if self.kind == "regression" else sorted(set(self.target))


Predictor = Callable[[Problem, int, Rows, Rows, int], tuple[NDArray[Any], NDArray[np.float64]]]


def predict_baselines(task: Problem, threads: int) -> pd.DataFrame:
    """Predict every sample from the other folds, with every baseline.

    Returns
    -------
    pandas.DataFrame
        Columns `row` (of `task`), `fold`, `baseline`, `observed`, `predicted` and
        `probability:<class>`; sorted by baseline, then row. The same for any number of threads.
    """
    constant = "median" if task.kind == "regression" else "majority"
    baselines: dict[str, Predictor] = {
        constant: _constant,
        "random_forest": _random_forest,
        "knn_unifrac": _nearest_neighbours,
    }
    parts = []
    for name, predictor in baselines.items():
        for fold in np.unique(task.fold):
            train, test = np.flatnonzero(task.fold != fold), np.flatnonzero(task.fold == fold)
            predicted, probabilities = predictor(task, int(fold), train, test, threads)
            part = pd.DataFrame(
                {
                    "row": test,
                    "fold": task.fold[test],
                    "baseline": name,
                    "observed": task.target[test],
                    "predicted": predicted,
                }
            )
            for column, class_name in enumerate(task.classes):
                part[PROBABILITY + class_name] = probabilities[:, column]
            parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    order = np.lexsort((table["row"], table["baseline"].map(list(baselines).index)))
    return table.iloc[order].reset_index(drop=True)


def _constant(
    task: Problem, fold: int, train: Rows, test: Rows, threads: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Predict the median of the training folds, or their commonest class."""
    regression = task.kind == "regression"
    model = DummyRegressor(strategy="median") if regression else DummyClassifier(strategy="prior")
    model.fit(np.zeros((len(train), 1)), task.target[train])
    return _predicted(task, model, np.zeros((len(test), 1)))


def _random_forest(
    task: Problem, fold: int, train: Rows, test: Rows, threads: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Predict with a random forest on the rarefied reads.

    Trees do not care about monotone transformations, so reads are taken as they are. Classes
    are weighted to balance every bootstrap sample, because a forest otherwise hardly predicts
    a rare class and the balanced scores would flatter whatever is compared with it.
    """
    settings: dict[str, Any] = {
        "n_estimators": TREES,
        "max_features": 0.1,
        "min_samples_leaf": 2,
        "random_state": seed_of("random_forest", task.seed, fold) % 2**32,
        "n_jobs": threads,
    }
    model = (
        RandomForestRegressor(**settings)
        if task.kind == "regression"
        else RandomForestClassifier(class_weight="balanced_subsample", **settings)
    )
    model.fit(_reads(task.counts, train), task.target[train])
    # Threads would add up the trees in any order, and so change the last bits.
    model.set_params(n_jobs=1)
    return _predicted(task, model, _reads(task.counts, test))


def _nearest_neighbours(
    task: Problem, fold: int, train: Rows, test: Rows, threads: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Predict from the nearest training samples, weighted by the inverse of their distance."""
    model = _neighbours(task, train, _best_neighbours(task, train))
    return _predicted(task, model, task.distances[np.ix_(test, train)])


def _best_neighbours(task: Problem, train: Rows) -> int:
    """Choose the number of neighbours within the training samples; the smallest of equals."""
    splits = [(train[inner], train[left]) for inner, left in _inner_splits(task, train)]
    smallest = min((len(inner) for inner, _ in splits), default=1)
    candidates = [k for k in NEIGHBOURS if k <= smallest]
    losses = {
        k: np.mean([_loss(task, inner, left, k) for inner, left in splits]) if splits else 0.0
        for k in candidates
    }
    return min(losses, key=lambda k: float(losses[k]))


def _inner_splits(task: Problem, train: Rows) -> list[tuple[Rows, Rows]]:
    """Leave out one training fold after the other, or groups where there is one fold only."""
    fold = task.fold[train]
    group = np.where(task.group[train] == "", train.astype(str), task.group[train])
    if len(np.unique(fold)) > 1:
        return list(LeaveOneGroupOut().split(train, groups=fold))
    parts = min(5, len(np.unique(group)))
    return list(GroupKFold(parts).split(train, groups=group)) if parts > 1 else []


def _loss(task: Problem, train: Rows, test: Rows, k: int) -> float:
    guess = _neighbours(task, train, k).predict(task.distances[np.ix_(test, train)])
    if task.kind == "regression":
        return float(mean_absolute_error(task.target[test], guess))
    truth = task.target[test]
    present = np.unique(truth)
    return -float(recall_score(truth, guess, labels=present, average="macro", zero_division=0))


def _neighbours(task: Problem, train: Rows, k: int) -> BaseEstimator:
    kind = KNeighborsRegressor if task.kind == "regression" else KNeighborsClassifier
    model = kind(n_neighbors=k, weights="distance", metric="precomputed")
    return model.fit(task.distances[np.ix_(train, train)], task.target[train])


def _predicted(
    task: Problem, model: Any, features: NDArray[Any] | scipy.sparse.csr_array
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return predictions [T] and the probabilities of all classes [T, C], 0 for untrained ones."""
    if task.kind == "regression":
        return model.predict(features), np.zeros((features.shape[0], 0))
    probabilities = np.zeros((features.shape[0], len(task.classes)))
    columns = np.searchsorted(task.classes, model.classes_)
    probabilities[:, columns] = model.predict_proba(features)
    return np.asarray(task.classes)[probabilities.argmax(axis=1)], probabilities


def _reads(counts: scipy.sparse.csr_array, rows: Rows) -> scipy.sparse.csr_array:
    """Return rows as the trees want them: float32, with 32-bit indices."""
    reads = counts[rows].astype(np.float32)
    reads.indices, reads.indptr = reads.indices.astype(np.int32), reads.indptr.astype(np.int32)
    return reads
