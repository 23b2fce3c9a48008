"""A random forest on the rarefied reads."""

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from aam.evaluate.baselines.problem import Prediction, Problem, Rows, predicted
from aam.util.seeds import seed_of

TREES = 200


def predict(task: Problem, fold: int, train: Rows, test: Rows, threads: int) -> Prediction:
    """Predict with a random forest.

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
        if task.regression
        else RandomForestClassifier(class_weight="balanced_subsample", **settings)
    )
    model.fit(_reads(task.counts, train), task.target[train])
    # Threads would add up the trees in any order, and so change the last bits.
    model.set_params(n_jobs=1)
    return predicted(task, model, _reads(task.counts, test))


def _reads(counts: scipy.sparse.csr_array, rows: Rows) -> scipy.sparse.csr_array:
    """Return rows as the trees want them: float32, with 32-bit indices."""
    reads = counts[rows].astype(np.float32)
    reads.indices, reads.indptr = reads.indices.astype(np.int32), reads.indptr.astype(np.int32)
    return reads
