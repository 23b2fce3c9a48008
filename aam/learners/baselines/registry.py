"""All baselines, on the folds of a task; the training folds alone decide everything.

Shape suffixes: T samples to predict, C classes.
"""

import dataclasses
import logging
import os
import warnings
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from aam.config.baselines import BASELINES
from aam.data.folds import units_of
from aam.data.nested_folds import InnerFit, inner_fits
from aam.data.predictions import PROBABILITY
from aam.learners.baselines import decision_trees, log_ratios_and_pairs
from aam.learners.baselines.problem import NOWHERE, Prediction, Predictor, Problem, fit_predict
from aam.util.machine import end_with


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
    "random_forest": decision_trees.random_forest,
    "random_forest_median": decision_trees.random_forest_median,
    "extra_trees": decision_trees.extra_trees,
    "gradient_boosting": decision_trees.gradient_boosting,
    "elastic_net": log_ratios_and_pairs.elastic_net,
    "svm_clr": log_ratios_and_pairs.svm_clr,
    "svm_clades": log_ratios_and_pairs.svm_clades,
    "svm_unifrac": log_ratios_and_pairs.svm_distances,
    "knn_unifrac": log_ratios_and_pairs.knn_distances,
    "svm_bray_curtis": log_ratios_and_pairs.svm_distances,
    "knn_bray_curtis": log_ratios_and_pairs.knn_distances,
}
"""What predicts, by the name of a baseline in `aam.config.baselines.BASELINES`."""


def suitable_baselines(task: Problem) -> dict[str, Predictor]:
    """Return the baselines for the kind of target and of table that are asked for, by name.

    Parameters
    ----------
    task
        The labelled samples; the constant is among its baselines whether asked for or not.
    """
    suited = ("both", "numbers" if task.regression else "classes")
    return {
        name: PREDICTORS[name]
        for name, facts in BASELINES.items()
        if facts.targets in suited
        and facts.tree in (None, task.has_tree)
        and (task.asked is None or name in task.asked or facts.is_constant)
    }


def predict_baselines(
    task: Problem, threads: int, folds: Collection[int] | None = None
) -> pd.DataFrame:
    """Predict the samples of some folds from all others, with every baseline.

    Parameters
    ----------
    task
        The labelled samples. Those of fold -1 are predicted from all folds, and no fold from them.
    threads
        Processes at a time; the table is the same for any number.
    folds
        Folds to predict; None: all of them, -1 included.

    Returns
    -------
    pandas.DataFrame
        `row` (of `task`), `fold`, `baseline`, `observed`, `predicted` and the probabilities, sorted
        by baseline, then `row`.
    """
    chosen = np.unique(task.fold).tolist() if folds is None else folds
    # Encoded once, over all folds: each fold has the same codes and the same unit.
    encoded = task.encode()
    parts = [dataclasses.replace(encoded, held_out=fold) for fold in chosen]
    names = list(suitable_baselines(task))
    tables = [
        pd.concat(predictions).sort_index().reset_index(names="row")
        for predictions in zip(*_fit_all(parts, names, threads), strict=True)
    ]
    for name, table in zip(names, tables, strict=True):
        table.insert(1, "fold", task.fold[table["row"]])
        table.insert(2, "baseline", name)
        table.insert(3, "observed", task.target[table["row"]])
    return pd.concat(tables, ignore_index=True)


def predict_nested(task: Problem, threads: int) -> pd.DataFrame:
    """Predict samples by baselines that saw neither their labels nor those of another block.

    The weights of a mixture for a block are fitted to these predictions of all other samples; see
    `aam.data.nested_folds`.

    Parameters
    ----------
    task
        The labelled samples; those of fold -1 take no part.
    threads
        Processes at a time; the table is the same for any number.

    Returns
    -------
    pandas.DataFrame
        `row` (of `task`), `without` (the block), `baseline`, `predicted` and the probabilities,
        sorted by baseline, then `without` and `row`. The constants are left out.
    """
    row_names = pd.RangeIndex(len(task.group)).astype(str)
    unit_N = units_of(pd.Series(task.group, row_names)).to_numpy(np.str_)
    # With landmarks a fit takes minutes, and a fifth of the samples is enough to fit weights to.
    fits = inner_fits(task.fold, unit_N, ring=task.landmarks is not None)
    learning = [
        name for name, predictor in suitable_baselines(task).items() if predictor != constant
    ]
    if not fits or not learning:
        columns = ["row", "without", "baseline", "predicted", *_probability_columns(task)]
        return pd.DataFrame(columns=columns)
    parts = _hold_out_rows(task.encode(), fits)
    tables = []
    for fit, predictions in zip(fits, _fit_all(parts, learning, threads), strict=True):
        for name, table in zip(learning, predictions, strict=True):
            for block, rows in fit.predicted.items():
                part = table.loc[rows].reset_index(names="row")
                part.insert(1, "without", block)
                part.insert(2, "baseline", name)
                tables.append(part)
    nested = pd.concat(tables, ignore_index=True)
    rank = {name: number for number, name in enumerate(learning)}
    order = np.lexsort((nested["row"], nested["without"], nested["baseline"].map(rank)))
    return nested.iloc[order].reset_index(drop=True)


def _hold_out_rows(task: Problem, fits: Sequence[InnerFit]) -> list[Problem]:
    """Return the task of each inner fit, with a held-out fold that is made of the fit's rows."""
    last = int(task.fold.max())
    parts = []
    for number, fit in enumerate(fits, start=1):
        # The number is that of no other fold, because the draws of a baseline depend on it.
        held_out = last + number
        fold = np.where(fit.is_training_N, task.fold, NOWHERE)
        fold[fit.rows] = held_out
        parts.append(dataclasses.replace(task, fold=fold, held_out=held_out))
    return parts


def _fit_all(
    parts: Sequence[Problem], names: Sequence[str], threads: int
) -> list[list[pd.DataFrame]]:
    """Return the predictions of each part by each baseline, in processes of their own."""
    # Threads would wait for each other, as much of a search is Python: processes do not.
    # With landmarks one fold at a time is fitted, since its matrices alone take gigabytes.
    processes = min(threads, len(parts)) if parts[0].landmarks is None else 1
    at_a_time = Parallel(processes, initializer=end_with, initargs=(os.getpid(),))
    predictions = at_a_time(delayed(_fit_fold)(part, names) for part in parts)
    if processes > 1:
        # The work of a process is counted when it has ended.
        get_reusable_executor().shutdown()
    return predictions


def _fit_fold(part: Problem, names: Sequence[str]) -> list[pd.DataFrame]:
    """Predict the held-out fold with each of the baselines, by row."""
    # Training samples that are all alike teach every method the same; some refuse them.
    are_alike = len(np.unique(part.target[part.train])) == 1
    predictors = suitable_baselines(part)
    tables = []
    # On several threads BLAS adds up in another order, and OpenMP costs boosting more than it
    # gives: its loops are short, and threads that wait for a busy core spin.
    with threadpool_limits(1), warnings.catch_warnings():
        # A weak penalty may need more steps; how well it predicts by then decides about it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # A class of few samples may be missing in a part that is left out.
        for message in ("y_pred contains classes not in y_true", "A single label was found"):
            warnings.filterwarnings("ignore", message=message)
        for name in names:
            logging.getLogger(__name__).info("fold %d: %s", part.held_out, name)
            predictor = constant if are_alike else predictors[name]
            values, probabilities_TC = predictor(part)
            if part.regression:
                values = np.clip(values * part.unit, *part.bounds)
            columns = _probability_columns(part)
            table = pd.DataFrame(probabilities_TC, index=part.test, columns=columns)
            table.insert(0, "predicted", values)
            tables.append(table)
    return tables


def _probability_columns(task: Problem) -> list[str]:
    return [PROBABILITY + name for name in task.classes]
