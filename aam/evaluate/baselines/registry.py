"""All baselines, on the folds of a task; the training folds alone decide everything."""

import dataclasses
import logging
import os
import warnings
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from joblib.externals.loky import get_reusable_executor  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from aam.evaluate.baselines import log_ratios, on_pairs, on_reads
from aam.evaluate.baselines.problem import Predictor, Problem
from aam.evaluate.predictions import PROBABILITY
from aam.util.machine import end_with

BASELINES: dict[str, tuple[Predictor, str]] = {
    "median": (on_reads.constant, "numbers"),
    "majority": (on_reads.constant, "classes"),
    "random_forest": (on_reads.random_forest, "both"),
    "random_forest_median": (on_reads.random_forest_median, "numbers"),
    "gradient_boosting": (on_reads.gradient_boosting, "both"),
    "elastic_net": (log_ratios.elastic_net, "both"),
    "svm_clr": (on_pairs.svm_clr, "both"),
    "svm_clades": (on_pairs.svm_clades, "both"),
    "svm_unifrac": (on_pairs.svm_unifrac, "both"),
    "knn_unifrac": (on_pairs.knn_unifrac, "both"),
}
"""By name: what predicts, and which targets it is for."""


def baselines_of(task: Problem) -> dict[str, Predictor]:
    """Return the baselines for the kind of target that are asked for, by name."""
    suited = ("both", "numbers" if task.regression else "classes")
    return {
        name: predict
        for name, (predict, targets) in BASELINES.items()
        if targets in suited
        and (task.asked is None or name in task.asked or predict is on_reads.constant)
    }


def predict_baselines(
    task: Problem, threads: int, folds: Collection[int] | None = None
) -> pd.DataFrame:
    """Predict the samples of some folds from all others, with every baseline.

    The samples of fold -1 are predicted from all folds, and no fold from them. The table is sorted
    by baseline, then `row` (of `task`), and is the same for any number of threads.
    """
    asked = np.unique(task.fold).tolist() if folds is None else folds
    parts = [dataclasses.replace(task, held_out=fold) for fold in asked]
    # Processes, as threads wait for each other: much of a search is Python.
    # With landmarks the matrices of one fold alone are gigabytes.
    processes = min(threads, len(parts)) if task.landmarks is None else 1
    at_a_time = Parallel(processes, initializer=end_with, initargs=(os.getpid(),))
    found = at_a_time(delayed(_of_fold)(part) for part in parts)
    if processes > 1:
        # The work of a process is counted when it has ended.
        get_reusable_executor().shutdown()
    tables = [_joined(task, name, [one[name] for one in found]) for name in baselines_of(task)]
    return pd.concat(tables, ignore_index=True)


def _of_fold(part: Problem) -> dict[str, pd.DataFrame]:
    """Predict one fold with every baseline."""
    # Training samples that are all alike teach every method the same; some refuse them.
    alike, found = len(np.unique(part.target[part.train])) == 1, {}
    # On several threads BLAS adds up in another order, and OpenMP costs boosting more than it
    # gives: its loops are short, and threads that wait for a busy core spin.
    with threadpool_limits(1), warnings.catch_warnings():
        # A weak penalty may need more steps; how well it predicts by then decides about it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # A class of few samples may be missing in a part that is left out.
        for message in ("y_pred contains classes not in y_true", "A single label was found"):
            warnings.filterwarnings("ignore", message=message)
        for name, predict in baselines_of(part).items():
            logging.getLogger(__name__).info("fold %d: %s", part.held_out, name)
            values, probabilities_TC = (on_reads.constant if alike else predict)(part)
            if part.regression:
                values = np.clip(values, *part.bounds)
            columns = [PROBABILITY + class_name for class_name in part.classes]
            table = pd.DataFrame(probabilities_TC, index=part.test, columns=columns)
            table.insert(0, "predicted", values)
            found[name] = table
    return found


def _joined(task: Problem, name: str, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    table = pd.concat(parts).sort_index().reset_index(names="row")
    table.insert(1, "fold", task.fold[table["row"]])
    table.insert(2, "baseline", name)
    table.insert(3, "observed", task.target[table["row"]])
    return table
