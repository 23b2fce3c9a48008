"""What every method is asked, on few samples by hand."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from problems import problem_of
from scipy.sparse import csr_array
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from aam.learners.baselines.problem import (
    NOWHERE,
    Problem,
    draw_landmarks,
    fit_predict,
    frequent_features,
    leave_each_part_out,
    leave_one_part_out,
    leave_parts_out,
    predict,
    prevalent_reads,
    problems_of_targets,
    search,
)

FOLD = np.array([0, 0, 1, 1, 2, -1])


def task_of(target, fold=FOLD, classes="", counts=None, **more) -> Problem:
    samples = len(fold)
    reads = np.ones((samples, 2)) if counts is None else np.array(counts)
    return problem_of(np.array(target), reads, np.zeros((samples, samples)), fold, classes, **more)


def numbers(**more) -> Problem:
    return task_of(np.arange(6.0), **more)


def test_training_rows_are_those_of_all_other_folds():
    assert numbers(held_out=1).train.tolist() == [0, 1, 4]
    assert numbers(held_out=1).test.tolist() == [2, 3]
    # Samples that are set aside are never learned from.
    assert numbers(held_out=-1).train.tolist() == [0, 1, 2, 3, 4]
    assert numbers(held_out=-1).test.tolist() == [5]
    some = numbers().learn_from(np.array([1, 3]))
    assert some.fold.tolist() == [NOWHERE, 0, NOWHERE, 1, NOWHERE, NOWHERE]
    assert some.train.tolist() == [1, 3]


def test_landmarks_limit_what_is_learned_from_and_not_what_is_predicted():
    task = numbers(held_out=0, landmarks=np.array([0, 2, 4]))
    assert task.restrict_to_landmarks().fold.tolist() == [0, 0, 1, NOWHERE, 2, NOWHERE]
    assert task.restrict_to_landmarks().columns.tolist() == [1, 2]
    assert numbers(held_out=0).restrict_to_landmarks().columns.tolist() == [2, 3, 4]
    assert task.has_few_landmarks
    assert not numbers().has_few_landmarks
    # Five samples have a label.
    assert numbers(landmarks=np.arange(4)).has_few_landmarks
    assert not numbers(landmarks=np.arange(5)).has_few_landmarks


@pytest.mark.parametrize(("samples", "chosen"), [(10_000, None), (10_001, 10_000)])
def test_landmarks_are_drawn_from_more_than_ten_thousand_samples(samples, chosen):
    landmarks = draw_landmarks(samples, seed=3)
    assert (landmarks is None) == (chosen is None)
    if landmarks is not None:
        assert len(np.unique(landmarks)) == len(landmarks) == chosen
        assert (np.diff(landmarks) > 0).all()
        assert 0 <= landmarks.min() < landmarks.max() < samples
        assert np.array_equal(draw_landmarks(samples, seed=3), landmarks)
        assert not np.array_equal(draw_landmarks(samples, seed=4), landmarks)


def test_samples_without_a_group_are_units_of_their_own():
    task = numbers(group=np.array(["x", "", "x", "", "y", ""]))
    assert task.units.tolist() == ["x", "1", "x", "3", "y", "5"]


def test_half_a_read_is_added_or_half_of_the_rarest_amount():
    assert numbers().pseudocount == 0.5
    amounts = [[0.5, 0.5], [0.1, 0.9], [0, 1], [0.3, 0.7], [0, 0], [0.001, 0.999]]
    task = numbers(counts=amounts, is_counted=False, held_out=0)
    # Of the training samples 2, 3 and 4 the least amounts are 1, 0.3 and none.
    assert task.pseudocount == pytest.approx(0.5 * 0.65)
    assert dataclasses.replace(task, held_out=-1).pseudocount == pytest.approx(0.5 * 0.4)


def test_probabilities_of_some_classes_become_those_of_all_in_their_order():
    task = task_of(list("cbacba"), classes=["c", "a", "b", "never"])
    # Codes count the classes in the order of the alphabet.
    shares = np.array([[0.75, 0.25], [0.5, 0.5]])
    values, whole = task.decode(np.array([0, 2]), shares)
    assert whole.tolist() == [[0.25, 0.75, 0, 0], [0.5, 0.5, 0, 0]]
    assert values.tolist() == ["a", "c"]


def test_classes_are_encoded_in_the_order_of_the_alphabet_or_of_numbers():
    task = task_of(["10", "2", "2", "10", "1", "1"], classes=["10", "1", "2"])
    assert task.encode().target.tolist() == [2, 1, 1, 2, 0, 0]


@pytest.mark.parametrize(
    ("width", "unit"),
    [
        (0.0, 1),
        (1e-4, 1),
        (0.9e-4, 2.0**-14),
        (1e3, 1),
        (1001.0, 512),
        (1024.0, 1024),
        (1e6, 2**19),
    ],
)
def test_numbers_of_a_very_small_or_large_range_get_a_power_of_two_as_unit(width, unit):
    # The sample that is set aside is far off, and does not matter.
    task = task_of([0, width, width / 2, 0, 0, 1e9]).encode()
    assert task.unit == unit
    assert (task.target * unit).tolist() == [0, width, width / 2, 0, 0, 1e9]
    nothing = task_of(np.arange(6.0), fold=np.full(6, -1)).encode()
    assert nothing.unit == 1


def test_features_of_one_percent_or_ten_samples_are_looked_at():
    in_samples = [1, 2, 3, 9, 10, 11, 300]
    counts = (np.arange(300)[:, None] < in_samples).astype(int)
    of_300 = task_of(np.zeros(300), np.zeros(300, int), counts=counts, held_out=1)
    assert prevalent_reads(of_300).shape == (300, 5)
    assert frequent_features(of_300).tolist() == [4, 5, 6]
    # Reads of a sample that is predicted do not make a feature frequent.
    fold = np.where(np.arange(300) < 2, 1, 0)
    fewer = dataclasses.replace(of_300, fold=fold)
    assert frequent_features(fewer).tolist() == [6]
    # Of 60 samples, 5 % are 3.
    of_60 = task_of(np.zeros(60), np.zeros(60, int), counts=counts[:60], held_out=1)
    assert frequent_features(of_60).tolist() == [2, 3, 4, 5, 6]


def test_a_model_predicts_what_it_knows_and_other_classes_have_nothing():
    task = task_of(list("bbaacc"), classes=["c", "b", "a"], fold=np.array([0, 0, 0, 0, 1, 1]))
    encoded = dataclasses.replace(task, held_out=1).encode()
    values, shares = fit_predict(encoded, DummyClassifier(strategy="prior"), np.zeros((6, 1)))
    assert shares.tolist() == [[0, 0.5, 0.5]] * 2
    assert values.tolist() == ["b", "b"]
    line = task_of([1.0, 3.0, 5.0, 7.0, 0.0, 0.0], fold=np.array([0, 0, 0, 0, 1, 1]), held_out=1)
    values, shares = fit_predict(line, Ridge(alpha=0), np.arange(6.0)[:, None])
    assert values.tolist() == pytest.approx([9.0, 11.0])
    assert shares.shape == (2, 0)
    model = KNeighborsClassifier(1).fit([[0.0], [1.0]], [0, 1])
    assert predict(encoded, model, np.array([[0.9]]))[0].tolist() == ["b"]


def left_out(splits) -> list[list[int]]:
    return sorted(left.tolist() for _, left in splits)


def test_parts_are_whole_folds_and_as_many_as_there_are():
    task = task_of(np.zeros(14), np.arange(14) % 7, held_out=6)
    assert left_out(leave_parts_out(task, parts=10)) == [[i, i + 6] for i in range(6)]
    assert len(leave_parts_out(task)) == 5
    assert len(leave_parts_out(task, parts=3)) == 3
    for training, left in leave_parts_out(task):
        assert sorted([*training, *left]) == list(range(12))
    two = task_of(np.zeros(3), np.array([0, 0, 1]), held_out=1)
    assert left_out(leave_parts_out(two)) == [[0], [1]]
    assert leave_parts_out(dataclasses.replace(two, held_out=0)) == []


def test_parts_of_classes_leave_two_classes_and_the_one_part_leaves_the_most():
    fold = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3])
    task = task_of(list("aaaaabcca"), fold, "abc", held_out=3)
    assert left_out(leave_each_part_out(task)) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    # Without the first fold alone all three classes remain, and it is not the first part.
    ((training, left),) = leave_one_part_out(task)
    assert left.tolist() == [0, 1, 2] != leave_each_part_out(task)[0][1].tolist()
    assert training.tolist() == [3, 4, 5, 6, 7]
    one_class = task_of(list("aaabbba"), np.array([0, 0, 0, 1, 1, 1, 2]), "ab", held_out=2)
    assert leave_each_part_out(one_class) == []
    assert leave_one_part_out(one_class) == []
    numeric = task_of(np.arange(9.0), fold, held_out=3)
    splits = leave_one_part_out(numeric)
    assert len(splits) == 1
    assert left_out(splits)[0] == leave_parts_out(numeric)[0][1].tolist()


def test_settings_are_searched_by_absolute_error_or_balanced_accuracy():
    model = Ridge()
    splits = [(np.arange(4), np.array([4]))]
    assert search(numbers(), model, {"alpha": [1, 2]}, []) is model
    assert search(numbers(), model, {"alpha": [1]}, splits).scoring == "neg_mean_absolute_error"
    of_classes = task_of(list("ababab"), classes="ab")
    assert search(of_classes, model, {"alpha": [1]}, splits).scoring == "balanced_accuracy"
    # The median suits absolute errors, though one far sample moves the squares.
    train = np.arange(9)
    target = np.r_[np.zeros(8), 100.0]
    constant = DummyRegressor(strategy="constant", constant=0.0)
    searched = search(numbers(), constant, {"constant": [0.0, 11.0]}, [(train, train)])
    assert searched.fit(np.zeros((9, 1)), target).best_params_ == {"constant": 0.0}


def fields() -> dict:
    return {
        "counts": csr_array(np.ones((3, 1))),
        "distances": np.zeros((3, 3), np.float32),
        "above": csr_array((1, 0)),
        "lengths": np.zeros(0),
        "seed": 5,
    }


def test_every_target_is_a_problem_of_its_own():
    index = pd.Index(["s1", "s2", "s3"], name="sample-id")
    table = pd.DataFrame({"fold": [0, 1, -1], "group": ["g", "", ""]}, index)
    several = table.assign(**{"observed:age": ["1", "2.5", "3"], "observed:bmi": ["4", "5", "6"]})
    found = problems_of_targets(several, kind="regression", classes=None, **fields())
    assert list(found) == ["age", "bmi"]
    assert found["age"].target.tolist() == [1.0, 2.5, 3.0]
    assert (found["age"].classes, found["age"].seed) == ([], 5)
    assert found["bmi"].fold.tolist() == [0, 1, -1]
    assert found["bmi"].group.tolist() == ["g", "", ""]
    assert not found["bmi"].has_tree
    words = table.assign(observed=["10", "2", "2"])
    alone = problems_of_targets(words, kind="classification", classes=None, **fields())
    assert list(alone) == [""]
    assert alone[""].target.tolist() == ["10", "2", "2"]
    assert alone[""].classes == ["2", "10"]
    ordered = problems_of_targets(words, kind="ordinal", classes=["10", "2"], **fields())
    assert ordered[""].classes == ["10", "2"]


def test_seeds_differ_by_method_and_fold_and_fit_into_32_bits():
    task = numbers()
    seeds = {
        dataclasses.replace(task, held_out=fold).random_state(name)
        for fold in range(20)
        for name in ("a", "b")
    }
    assert len(seeds) == 40
    assert max(seeds) < 2**32
    assert max(seeds) > 2**31
    assert task.random_state("a") == numbers().random_state("a")
