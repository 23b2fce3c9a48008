"""Splits of a nested cross-validation and the tables of its predictions, on six samples."""

import dataclasses

import numpy as np
import pandas as pd
from problems import problem_of

from aam.learners.baselines.problem import NOWHERE, Problem
from aam.learners.nested_predictions import (
    NestedCrossValidation,
    fold_predictions,
    probability_columns,
    split_of_fold,
    table_of,
)

FOUR_FOLDS = np.array([0, 1, 2, 3, -1, 0])


def task_of(fold: np.ndarray, classes: str = "", **more) -> Problem:
    samples = len(fold)
    target = np.arange(samples) * 10.0
    if classes:
        target = np.array([classes[row % len(classes)] for row in range(samples)])
    distances = np.zeros((samples, samples))
    return problem_of(target, np.ones((samples, 2)), distances, fold, classes, **more)


def rows_of(splits) -> list[tuple[list[int], list[int]]]:
    return [(train.tolist(), rows.tolist()) for train, rows in splits]


def test_folds_are_left_out_first_and_then_pairs_of_them():
    nested = NestedCrossValidation(task_of(FOUR_FOLDS))
    assert nested.folds == [-1, 0, 1, 2, 3]
    assert rows_of(nested.splits) == [
        ([0, 1, 2, 3, 5], [4]),
        ([1, 2, 3], [0, 5]),
        ([0, 2, 3, 5], [1]),
        ([0, 1, 3, 5], [2]),
        ([0, 1, 2, 5], [3]),
        # Pairs of folds: 0 and 1, 0 and 2, 0 and 3, 1 and 2, 1 and 3, 2 and 3.
        ([2, 3], [0, 1, 5]),
        ([1, 3], [0, 2, 5]),
        ([1, 2], [0, 3, 5]),
        ([0, 3, 5], [1, 2]),
        ([0, 2, 5], [1, 3]),
        ([0, 1, 5], [2, 3]),
    ]


def test_a_task_with_a_split_held_out_has_its_rows():
    task = task_of(FOUR_FOLDS)
    nested = NestedCrossValidation(task)
    parts = nested.hold_out(task)
    assert rows_of((part.train, part.test) for part in parts) == rows_of(nested.splits)
    # Draws depend on the number of the fold: every split has another one.
    assert [part.held_out for part in parts] == [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert parts[5].fold.tolist() == [4, 4, 2, 3, NOWHERE, 4]


def test_a_fold_is_predicted_from_all_other_folds():
    task = task_of(FOUR_FOLDS)
    assert rows_of([split_of_fold(task, 2)]) == [([0, 1, 3, 5], [2])]
    assert rows_of([split_of_fold(task, -1)]) == [([0, 1, 2, 3, 5], [4])]


def predictions_of_splits(nested: NestedCrossValidation) -> dict[str, list[pd.DataFrame]]:
    """Return predictions that name the split by hundreds, the row by ones, the method by quarters.

    So a number of a table says where it comes from.
    """
    return {
        name: [
            pd.DataFrame({"predicted": 100.0 * number + rows + shift}, index=rows)
            for number, (_, rows) in enumerate(nested.splits)
        ]
        for name, shift in (("b", 0.25), ("a", 0.5), ("median", 0.75))
    }


def test_a_sample_is_predicted_by_the_split_without_its_fold():
    nested = NestedCrossValidation(task_of(FOUR_FOLDS))
    predictions = nested.tables(predictions_of_splits(nested), unmixed=["median"]).predictions
    expected = {"row": [0, 1, 2, 3, 4, 5], "fold": [0, 1, 2, 3, -1, 0], "baseline": ["b"] * 6}
    expected["observed"] = [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    expected["predicted"] = [100.25, 201.25, 302.25, 403.25, 4.25, 105.25]
    pd.testing.assert_frame_equal(predictions[:6], pd.DataFrame(expected))
    assert predictions["baseline"].tolist() == ["b"] * 6 + ["a"] * 6 + ["median"] * 6


def test_nested_predictions_are_those_of_splits_without_two_blocks():
    nested = NestedCrossValidation(task_of(FOUR_FOLDS))
    found = nested.tables(predictions_of_splits(nested), unmixed=["median"])
    # Without block 0: fold 1 by the fit without 0 and 1, fold 2 by that without 0 and 2, and so on.
    first = found.nested[:3]
    assert list(first) == ["row", "without", "baseline", "predicted"]
    assert first.to_numpy().tolist() == [
        [1, 0, "b", 501.25],
        [2, 0, "b", 602.25],
        [3, 0, "b", 703.25],
    ]
    of_block_one = found.nested[3:7]
    assert of_block_one["row"].tolist() == [0, 2, 3, 5]
    assert of_block_one["predicted"].tolist() == [500.25, 802.25, 903.25, 505.25]
    assert found.nested["baseline"].tolist() == ["b"] * 15 + ["a"] * 15
    assert found.nested.index.tolist() == list(range(30))


def test_without_a_method_to_mix_nested_tables_are_empty():
    nested = NestedCrossValidation(task_of(FOUR_FOLDS))
    by_method = predictions_of_splits(nested)
    alone = nested.tables(by_method, unmixed=list(by_method)).nested
    assert list(alone) == ["row", "without", "baseline", "predicted"]
    assert alone.empty


def test_a_study_with_landmarks_rests_its_weights_on_a_ring_of_fits_and_on_landmarks():
    fold = np.arange(10) % 5
    landmarks = np.array([0, 1, 2, 5, 6])
    task = task_of(fold, landmarks=landmarks)
    fits = NestedCrossValidation(task).inner
    assert [fit.name for fit in fits] == ["0+1", "0+4", "1+2", "2+3", "3+4"]
    predicted = {
        fit.name: {block: rows.tolist() for block, rows in fit.predicted.items()} for fit in fits
    }
    assert predicted["0+1"] == {0: [1, 6], 1: [0, 5]}
    # No sample of fold 3 is a landmark: all of them, 3 and 8, are predicted.
    assert predicted["2+3"] == {2: [3, 8], 3: [2]}


def test_where_all_samples_are_landmarks_the_fits_are_those_of_any_study():
    task = task_of(np.arange(10) % 5)
    every = dataclasses.replace(task, landmarks=np.arange(10))
    assert [fit.name for fit in NestedCrossValidation(every).inner] == [
        fit.name for fit in NestedCrossValidation(dataclasses.replace(task, landmarks=None)).inner
    ]


def test_numbers_are_written_in_their_unit_and_within_their_bounds():
    task = task_of(FOUR_FOLDS, unit=4.0, bounds=(0.0, 10.0))
    prediction = (np.array([-1.0, 2.0, 3.0]), np.zeros((3, 0)))
    table = table_of(task, np.array([5, 1, 2]), prediction)
    assert table.index.tolist() == [5, 1, 2]
    assert table.to_dict("list") == {"predicted": [0.0, 8.0, 10.0]}


def test_classes_are_written_with_their_probabilities():
    task = task_of(FOUR_FOLDS, "ba")
    assert probability_columns(task) == ["probability:b", "probability:a"]
    shares = np.array([[0.25, 0.75], [1.0, 0.0]])
    tables = [
        table_of(task, np.array([row]), (np.array([name]), shares[[number]]))
        for number, (row, name) in enumerate([(3, "a"), (2, "b")])
    ]
    assert fold_predictions(task, "method", tables).to_dict("list") == {
        "row": [2, 3],
        "fold": [2, 3],
        "baseline": ["method", "method"],
        "observed": ["b", "a"],
        "predicted": ["b", "a"],
        "probability:b": [1.0, 0.25],
        "probability:a": [0.0, 0.75],
    }
