"""All baselines, on the folds of a task; the training folds alone decide everything.

Shape suffixes: R rows to predict, C classes.
"""

import dataclasses
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from aam.config.baselines import BASELINES, NEED_DISTANCES
from aam.data.folds import TEST
from aam.data.nested_folds import inner_fits
from aam.data.predictions import PROBABILITY
from aam.learners.baselines import decision_trees, kernel_ridge, linear_and_nearest
from aam.learners.baselines.problem import (
    JointPredictor,
    Prediction,
    Predictor,
    Problem,
    RowSplit,
    fit_predict,
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


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """What baselines predict.

    Attributes
    ----------
    predictions
        `row` (of the task), `fold`, `baseline`, `observed`, `predicted` and the probabilities,
        sorted by baseline, then `row`. Rows of fold -1 are predicted from all folds, and no fold
        from them.
    nested
        `row`, `without` (a block of `aam.data.nested_folds`), `baseline`, `predicted` and the
        probabilities, sorted by baseline, then `without` and `row`: predictions by baselines that
        saw neither the labels of the rows nor those of the block. The weights of a mixture for a
        block are fitted to them. Constants are left out.
    """

    predictions: pd.DataFrame
    nested: pd.DataFrame


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
    folds = np.unique(task.fold).tolist()
    # With landmarks a fit takes minutes, and a fifth of the samples is enough to fit weights to.
    fits = inner_fits(task.fold, task.units, ring=task.has_few_landmarks)
    splits = [_fold_split(task, fold) for fold in folds]
    splits += [(np.flatnonzero(fit.is_training_N), fit.rows) for fit in fits]
    predictions = {}
    nested = {}
    for name, tables in _fit_all(task, splits, threads):
        predictions[name] = _predictions(task, name, tables[: len(folds)])
        if tell is not None:
            tell(name, predictions[name])
        if BASELINES[name].is_constant:
            continue
        nested[name] = [
            _named_part(table.loc[rows], block, name)
            for fit, table in zip(fits, tables[len(folds) :], strict=True)
            for block, rows in fit.predicted.items()
        ]
    names = suitable_baselines(task)
    return CrossValidated(
        predictions=pd.concat([predictions[name] for name in names], ignore_index=True),
        nested=_nested(task, [part for name in names for part in nested.get(name, [])]),
    )


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
    tables = dict(_fit_all(task, [_fold_split(task, TEST)], threads))
    parts = [_predictions(task, name, tables[name]) for name in suitable_baselines(task)]
    return pd.concat(parts, ignore_index=True)


def _fold_split(task: Problem, fold: int) -> RowSplit:
    """Return the rows to train on and the rows of a fold."""
    is_in_fold = task.fold == fold
    return np.flatnonzero(~is_in_fold & (task.fold >= 0)), np.flatnonzero(is_in_fold)


def _fit_all(
    task: Problem, splits: Sequence[RowSplit], threads: int
) -> Iterator[tuple[str, list[pd.DataFrame]]]:
    """Yield the name of each baseline and what it predicts for each split, as soon as it is there.

    Methods that share fits are fitted first, in threads: they compute in compiled code. Of the
    others, as much is Python, so that threads would wait for each other: they get processes.
    """
    # Encoded once, over all folds: each fold has the same codes and the same unit.
    encoded = task.encode()
    names = suitable_baselines(task)
    joint = [name for name in names if name in JOINT_PREDICTORS]
    # The quickest comes first, so that its score is there soon.
    joint.sort(key=lambda name: name not in NEED_DISTANCES)
    # With landmarks one at a time is fitted, since its matrices alone take gigabytes.
    at_a_time = threads if task.landmarks is None else 1
    with threadpool_limits(1):
        # On several threads BLAS adds up in another order.
        in_threads = Parallel(at_a_time, backend="threading", return_as="generator_unordered")
        yield from in_threads(delayed(_fit_joint)(encoded, splits, name) for name in joint)
    alone = [name for name in names if name in PREDICTORS]
    parts = _hold_out_rows(encoded, splits)
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


def _hold_out_rows(task: Problem, splits: Sequence[RowSplit]) -> list[Problem]:
    """Return the task of each split, with a held-out fold that is made of its rows."""
    last = int(task.fold.max())
    parts = []
    for number, (train, rows) in enumerate(splits):
        whole = np.unique(task.fold[rows])
        # The draws of a baseline depend on the number of the fold, so inner fits have numbers of
        # their own.
        is_fold = len(whole) == 1 and np.array_equal(rows, np.flatnonzero(task.fold == whole[0]))
        held_out = int(whole[0]) if is_fold else last + 1 + number
        fold = task.learn_from(train).fold
        fold[rows] = held_out
        parts.append(dataclasses.replace(task, fold=fold, held_out=held_out))
    return parts


def _fit_joint(
    task: Problem, splits: Sequence[RowSplit], name: str
) -> tuple[str, list[pd.DataFrame]]:
    """Return a name, and what the method predicts for each split."""
    logging.getLogger(__name__).info("%s", name)
    predictions = JOINT_PREDICTORS[name](task, splits)
    rows = (rows for _, rows in splits)
    return name, list(map(partial(_table, task), rows, predictions))


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
            tables.append(_table(part, part.test, predictor(part)))
    return tables


def _table(task: Problem, rows: NDArray[np.intp], prediction: Prediction) -> pd.DataFrame:
    """Return a prediction by row, in the unit of the metadata and within its bounds."""
    values_R, share_RC = prediction
    if task.regression:
        values_R = np.clip(values_R * task.unit, *task.bounds)
    table = pd.DataFrame(share_RC, index=rows, columns=_probability_columns(task))
    table.insert(0, "predicted", values_R)
    return table


def _predictions(task: Problem, name: str, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the predictions of a baseline for whole folds, sorted by row."""
    table = pd.concat(tables).sort_index().reset_index(names="row")
    table.insert(1, "fold", task.fold[table["row"]])
    table.insert(2, "baseline", name)
    table.insert(3, "observed", task.target[table["row"]])
    return table


def _named_part(table: pd.DataFrame, block: int, name: str) -> pd.DataFrame:
    part = table.reset_index(names="row")
    part.insert(1, "without", block)
    part.insert(2, "baseline", name)
    return part


def _nested(task: Problem, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return nested predictions in their order; where there are none, their columns."""
    if not parts:
        columns = ["row", "without", "baseline", "predicted", *_probability_columns(task)]
        return pd.DataFrame(columns=columns)
    nested = pd.concat(parts, ignore_index=True)
    rank = {name: number for number, name in enumerate(BASELINES)}
    order = np.lexsort((nested["row"], nested["without"], nested["baseline"].map(rank)))
    return nested.iloc[order].reset_index(drop=True)


def _probability_columns(task: Problem) -> list[str]:
    return [PROBABILITY + name for name in task.classes]
