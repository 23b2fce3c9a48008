"""Which fits a nested cross-validation asks a method for, and the tables that are made of them.

Shape suffixes: N samples, R rows to predict, C classes.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.nested_folds import InnerFit, inner_fits
from aam.data.predictions import PROBABILITY
from aam.learners.baselines.problem import NOWHERE, Prediction, Problem, RowSplit


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """What methods predict.

    Attributes
    ----------
    predictions
        `row` (of the task), `fold`, `baseline` (the method), `observed`, `predicted` and the
        probabilities, sorted by method, then `row`. Rows of fold -1 are predicted from all folds,
        and no fold from them.
    nested
        `row`, `without` (a block of `aam.data.nested_folds`), `baseline`, `predicted` and the
        probabilities, sorted by method, then `without` and `row`: predictions by fits that saw
        neither the labels of the rows nor those of the block. The weights of a mixture for a block
        are fitted to them.
    """

    predictions: pd.DataFrame
    nested: pd.DataFrame


@dataclass(frozen=True, eq=False)
class NestedCrossValidation:
    """The fits that predict every fold of a task, and those that the weights of mixtures rest on.

    Attributes
    ----------
    task
        The labelled samples.
    """

    task: Problem

    @cached_property
    def folds(self) -> list[int]:
        """Folds that are predicted, -1 among them where samples are set aside."""
        return np.unique(self.task.fold).tolist()

    @cached_property
    def inner(self) -> list[InnerFit]:
        """Fits for the weights."""
        task = self.task
        fits = inner_fits(task.fold, task.units, ring=task.has_few_landmarks)
        if task.landmarks is None or not task.has_few_landmarks:
            return fits
        # With landmarks a fit takes minutes, and thousands of samples are enough for weights.
        few = []
        for fit in fits:
            predicted = {
                block: _landmarks_among(rows, task.landmarks)
                for block, rows in fit.predicted.items()
            }
            few.append(dataclasses.replace(fit, predicted=predicted))
        return few

    @property
    def splits(self) -> list[RowSplit]:
        """Rows to train on and rows to predict: of every fold, then of every inner fit."""
        outer = [split_of_fold(self.task, fold) for fold in self.folds]
        return outer + [(np.flatnonzero(fit.is_training_N), fit.rows) for fit in self.inner]

    def hold_out(self, task: Problem) -> list[Problem]:
        """Return a task once for each split, with a held-out fold that is made of its rows.

        Parameters
        ----------
        task
            This task, or what `Problem.encode` makes of it.
        """
        parts = [dataclasses.replace(task, held_out=fold) for fold in self.folds]
        last = int(task.fold.max())
        for number, fit in enumerate(self.inner, start=1):
            # The number is that of no other fold, because the draws of a method depend on it.
            fold_N = np.where(fit.is_training_N, task.fold, NOWHERE)
            fold_N[fit.rows] = last + number
            parts.append(dataclasses.replace(task, fold=fold_N, held_out=last + number))
        return parts

    def tables(
        self, by_method: Mapping[str, Sequence[pd.DataFrame]], unmixed: Collection[str] = ()
    ) -> CrossValidated:
        """Return what all methods predict.

        Parameters
        ----------
        by_method
            What `table_of` returns for each split, by the name of a method.
        unmixed
            Methods without nested predictions.
        """
        predictions = [
            fold_predictions(self.task, name, tables[: len(self.folds)])
            for name, tables in by_method.items()
        ]
        columns = ["row", "without", "baseline", "predicted", *probability_columns(self.task)]
        nested = [
            self._nested(name, tables)[columns]
            for name, tables in by_method.items()
            if name not in unmixed and self.inner
        ]
        return CrossValidated(
            predictions=pd.concat(predictions, ignore_index=True),
            nested=pd.concat(nested or [pd.DataFrame(columns=columns)], ignore_index=True),
        )

    def _nested(self, name: str, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return what a method predicts in the inner fits, sorted."""
        parts = [
            table.loc[rows].reset_index(names="row").assign(without=block, baseline=name)
            for fit, table in zip(self.inner, tables[len(self.folds) :], strict=True)
            for block, rows in fit.predicted.items()
        ]
        return pd.concat(parts).sort_values(["without", "row"], kind="stable")


def split_of_fold(task: Problem, fold: int) -> RowSplit:
    """Return the rows to train on and the rows of a fold.

    Parameters
    ----------
    task
        The labelled samples.
    fold
        Number of the fold; -1: samples that are set aside, or of another table.
    """
    is_in_fold = task.fold == fold
    return np.flatnonzero(~is_in_fold & (task.fold >= 0)), np.flatnonzero(is_in_fold)


def table_of(task: Problem, rows: NDArray[np.intp], prediction: Prediction) -> pd.DataFrame:
    """Return a prediction by row, in the unit of the metadata and within its bounds.

    Parameters
    ----------
    task
        The samples, as `Problem.encode` returns them.
    rows
        The rows that are predicted.
    prediction
        Their values and probabilities.
    """
    values_R, share_RC = prediction
    if task.regression:
        values_R = np.clip(values_R * task.unit, *task.bounds)
    table = pd.DataFrame(share_RC, index=rows, columns=probability_columns(task))
    table.insert(0, "predicted", values_R)
    return table


def fold_predictions(task: Problem, name: str, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return what a method predicts for whole folds, as `CrossValidated.predictions` has it.

    Parameters
    ----------
    task
        The labelled samples.
    name
        Name of the method.
    tables
        What `table_of` returns, for each of these folds.
    """
    table = pd.concat(tables).sort_index().reset_index(names="row")
    table.insert(1, "fold", task.fold[table["row"]])
    table.insert(2, "baseline", name)
    table.insert(3, "observed", task.target[table["row"]])
    return table


def probability_columns(task: Problem) -> list[str]:
    """Return the names of the columns of probabilities, in the order of the classes.

    Parameters
    ----------
    task
        The labelled samples.
    """
    return [PROBABILITY + name for name in task.classes]


def _landmarks_among(rows: NDArray[np.intp], landmarks: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the landmarks among some rows, or all rows where there are none."""
    kept = np.intersect1d(rows, landmarks)
    return kept if len(kept) else rows
