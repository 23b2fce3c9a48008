"""All baselines, on the folds of a task.

The training folds alone decide everything: the median, the trees, the number of neighbours, the
features and the penalties.
"""

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from aam.evaluate.baselines import (
    constant,
    elastic_net,
    gradient_boosting,
    knn_unifrac,
    random_forest,
    svm_unifrac,
)
from aam.evaluate.baselines.problem import Predictor, Problem, Rows
from aam.evaluate.predictions import PROBABILITY

METHODS: dict[str, Predictor] = {
    "random_forest": random_forest.predict,
    "random_forest_median": random_forest.predict_median,
    "gradient_boosting": gradient_boosting.predict,
    "elastic_net": elastic_net.predict,
    "knn_unifrac": knn_unifrac.predict,
    "svm_unifrac": svm_unifrac.predict,
}
"""What follows the constant, by name."""
OF_NUMBERS = frozenset({"random_forest_median"})
"""Methods that predict no classes."""


def predict_baselines(task: Problem, threads: int) -> pd.DataFrame:
    """Predict every sample from the other folds, with every baseline.

    The samples of fold -1 are predicted from all folds, and no fold from them.

    Parameters
    ----------
    task
        The labelled samples.
    threads
        Cores to use.

    Returns
    -------
    pandas.DataFrame
        Columns `row` (of `task`), `fold`, `baseline`, `observed`, `predicted` and
        `probability:<class>`; sorted by baseline, then row. The same for any number of threads.
    """
    suited = {name: m for name, m in METHODS.items() if task.regression or name not in OF_NUMBERS}
    baselines = {"median" if task.regression else "majority": constant.predict, **suited}
    # On several threads BLAS adds up in another order, and OpenMP costs boosting more than it
    # gives: its loops are short, and threads that wait for a busy core spin.
    with threadpool_limits(1):
        parts = [
            _predict_fold(task, name, predictor, int(fold), threads)
            for name, predictor in baselines.items()
            for fold in np.unique(task.fold)
        ]
    table = pd.concat(parts, ignore_index=True)
    order = np.lexsort((table["row"], table["baseline"].map(list(baselines).index)))
    return table.iloc[order].reset_index(drop=True)


def _predict_fold(
    task: Problem, name: str, predictor: Predictor, fold: int, threads: int
) -> pd.DataFrame:
    train: Rows = np.flatnonzero((task.fold != fold) & (task.fold >= 0))
    test: Rows = np.flatnonzero(task.fold == fold)
    if len(np.unique(task.target[train])) == 1:
        # Training samples that are all alike teach every method the same, and some refuse them.
        predictor = constant.predict
    values, probabilities_TC = predictor(task, fold, train, test, threads)
    part = pd.DataFrame(
        {
            "row": test,
            "fold": task.fold[test],
            "baseline": name,
            "observed": task.target[test],
            "predicted": values,
        }
    )
    for column, class_name in enumerate(task.classes):
        part[PROBABILITY + class_name] = probabilities_TC[:, column]
    return part
