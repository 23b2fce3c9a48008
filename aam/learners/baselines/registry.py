"""All baselines, on the folds of a task; the training folds alone decide everything."""

import dataclasses
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from aam.config.baselines import BASELINES, CONSTANTS, NEED_DISTANCES
from aam.data.folds import TEST
from aam.learners.baselines import decision_trees, kernel_ridge, linear_and_nearest
from aam.learners.baselines.problem import (
    JointPredictor,
    Prediction,
    Predictor,
    Problem,
    RowSplit,
    fit_predict,
)
from aam.learners.nested_predictions import (
    CrossValidated,
    NestedCrossValidation,
    fold_predictions,
    split_of_fold,
    table_of,
)
from aam.util.machine import end_with

Tell = Callable[[str, pd.DataFrame], None]
"""Is told the name of a baseline and its cross-validated predictions as soon as they are there."""


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


PREDICTORS: dict[str, Predictor] = {
    "median": constant,
    "majority": constant,
    "gradient_boosting": decision_trees.gradient_boosting,
    "elastic_net": linear_and_nearest.elastic_net,
    "knn_unifrac": linear_and_nearest.knn_distances,
    "knn_bray_curtis": linear_and_nearest.knn_distances,
}
"""What is fitted to each split, by the name of a baseline in `aam.config.baselines.BASELINES`."""
JOINT_PREDICTORS: dict[str, JointPredictor] = {
    "random_forest": decision_trees.random_forest,
    "random_forest_median": decision_trees.random_forest_median,
    "extra_trees": decision_trees.extra_trees,
    "kernel_clr": kernel_ridge.kernel_clr,
    "kernel_clades": kernel_ridge.kernel_clades,
    "kernel_unifrac": kernel_ridge.kernel_distances,
    "kernel_bray_curtis": kernel_ridge.kernel_distances,
}
"""What shares fits between splits."""


def suitable_baselines(task: Problem) -> list[str]:
    """Return the baselines for the kind of target and of table that are asked for, by name.

    Parameters
    ----------
    task
        The labelled samples; the constant is among its baselines whether asked for or not.
    """
    suited = ("both", "numbers" if task.regression else "classes")
    return [
        name
        for name, facts in BASELINES.items()
        if facts.targets in suited
        and facts.tree in (None, task.has_tree)
        and (
            facts.is_constant
            or (facts.default in suited if task.asked is None else name in task.asked)
        )
    ]


def cross_validate(task: Problem, threads: int, tell: Tell | None = None) -> CrossValidated:
    """Predict each fold from all others with every baseline, once more for the weights of mixtures.

    Parameters
    ----------
    task
        The labelled samples.
    threads
        Processes or threads at a time; the tables are the same for any number.
    tell
        Is called with the predictions of each baseline when it has been fitted.

    Returns
    -------
    CrossValidated
        The tables.
    """
    nested = NestedCrossValidation(task)
    # Encoded once, over all folds: each fold has the same codes and the same unit.
    encoded = task.encode()
    fitted = {}
    for name, tables in _fit_all(encoded, nested.splits, nested.hold_out(encoded), threads):
        fitted[name] = tables
        if tell is not None:
            tell(name, fold_predictions(task, name, tables[: len(nested.folds)]))
    return nested.tables({name: fitted[name] for name in suitable_baselines(task)}, CONSTANTS)


def predict_others(task: Problem, threads: int) -> pd.DataFrame:
    """Predict the rows of fold -1 from all labelled ones with every baseline.

    Parameters
    ----------
    task
        The labelled samples, and those to predict.
    threads
        Processes or threads at a time; the table is the same for any number.

    Returns
    -------
    pandas.DataFrame
        As `CrossValidated.predictions`.
    """
    encoded = dataclasses.replace(task.encode(), held_out=TEST)
    tables = dict(_fit_all(encoded, [split_of_fold(task, TEST)], [encoded], threads))
    parts = [fold_predictions(task, name, tables[name]) for name in suitable_baselines(task)]
    return pd.concat(parts, ignore_index=True)


def _fit_all(
    task: Problem, splits: Sequence[RowSplit], parts: Sequence[Problem], threads: int
) -> Iterator[tuple[str, list[pd.DataFrame]]]:
    """Yield the name of each baseline and what it predicts for each split, as soon as it is there.

    Methods that share fits are fitted first, in threads: they compute in compiled code. Of the
    others, as much is Python, so that threads would wait for each other: they get processes.

    Parameters
    ----------
    task
        The labelled samples, as `Problem.encode` returns them.
    splits
        Rows to train on and rows to predict.
    parts
        The task of each split, with a held-out fold of its rows.
    threads
        Threads or processes at a time.
    """
    names = suitable_baselines(task)
    joint = [name for name in names if name in JOINT_PREDICTORS]
    if task.landmarks is None:
        # The quickest comes first, so that its score is there soon.
        joint.sort(key=lambda name: name not in NEED_DISTANCES)
        at_a_time = threads
    else:
        # The slowest, kernels, come first, so that two threads end together. The matrices of a
        # kernel take gigabytes, so there are no more of them.
        joint.reverse()
        at_a_time = min(threads, 2)
    with threadpool_limits(1):
        # On several threads BLAS adds up in another order.
        in_threads = Parallel(at_a_time, backend="threading", return_as="generator_unordered")
        yield from in_threads(delayed(_fit_joint)(task, splits, name) for name in joint)
    alone = [name for name in names if name in PREDICTORS]
    processes = min(at_a_time, len(parts))
    if all(BASELINES[name].is_constant for name in alone):
        # A process takes longer to start than a constant takes to fit.
        processes = 1
    in_processes = Parallel(processes, initializer=end_with, initargs=(os.getpid(),))
    tables = in_processes(delayed(_fit_fold)(part, alone) for part in parts)
    if processes > 1:
        # The work of a process is counted when it has ended.
        get_reusable_executor().shutdown()
    yield from zip(alone, map(list, zip(*tables, strict=True)), strict=True)


def _fit_joint(
    task: Problem, splits: Sequence[RowSplit], name: str
) -> tuple[str, list[pd.DataFrame]]:
    """Return a name, and what the method predicts for each split."""
    logging.getLogger(__name__).info("%s", name)
    predictions = JOINT_PREDICTORS[name](task, splits)
    rows = (rows for _, rows in splits)
    return name, list(map(partial(table_of, task), rows, predictions))


def _fit_fold(part: Problem, names: Sequence[str]) -> list[pd.DataFrame]:
    """Predict the held-out fold with each of the baselines, by row."""
    # Training samples that are all alike teach every method the same; some refuse them.
    are_alike = len(np.unique(part.target[part.train])) == 1
    tables = []
    # OpenMP costs boosting more than it gives: its loops are short, and threads that wait for a
    # busy core spin.
    with threadpool_limits(1), warnings.catch_warnings():
        # A weak penalty may need more steps; how well it predicts by then decides about it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # A class of few samples may be missing in a part that is left out.
        for message in ("y_pred contains classes not in y_true", "A single label was found"):
            warnings.filterwarnings("ignore", message=message)
        for name in names:
            logging.getLogger(__name__).info("fold %d: %s", part.held_out, name)
            predictor = constant if are_alike else PREDICTORS[name]
            tables.append(table_of(part, part.test, predictor(part)))
    return tables
