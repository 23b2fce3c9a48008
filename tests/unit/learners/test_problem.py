"""Which rows and features a baseline learns from, and which parts it leaves out."""

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
    LANDMARKS,
    NOWHERE,
    PSEUDOCOUNT,
    Problem,
    draw_landmarks,
    fit_predict,
    frequent_features,
    leave_each_part_out,
    leave_one_part_out,
    leave_parts_out,
    predict,
    problems_of_targets,
    search,
)
from aam.util.errors import InputError

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


def test_samples_that_are_set_aside_are_never_learned_from():
    assert numbers(held_out=-1).train.tolist() == [0, 1, 2, 3, 4]
    assert numbers(held_out=-1).test.tolist() == [5]


def test_rows_that_are_not_learned_from_are_in_no_fold():
    some = numbers().learn_from(np.array([1, 3]))
    assert some.fold.tolist() == [NOWHERE, 0, NOWHERE, 1, NOWHERE, NOWHERE]
    assert some.train.tolist() == [1, 3]


def test_landmarks_limit_what_is_learned_from_and_not_what_is_predicted():
    task = numbers(held_out=0, landmarks=np.array([0, 2, 4]))
    assert task.restrict_to_landmarks().fold.tolist() == [0, 0, 1, NOWHERE, 2, NOWHERE]
    assert task.restrict_to_landmarks().columns.tolist() == [1, 2]
    assert numbers(held_out=0).restrict_to_landmarks().columns.tolist() == [2, 3, 4]


def test_landmarks_are_few_if_they_are_fewer_than_the_labelled_samples():
    assert not numbers().has_few_landmarks
    # Five samples have a label.
    assert numbers(landmarks=np.arange(4)).has_few_landmarks
    assert not numbers(landmarks=np.arange(5)).has_few_landmarks


def test_a_study_that_is_not_large_has_no_landmarks():
    assert draw_landmarks(LANDMARKS, seed=3) is None


def test_landmarks_of_a_large_study_are_distinct_samples_that_the_seed_decides():
    samples = LANDMARKS + 1
    landmarks = draw_landmarks(samples, seed=3)
    assert len(landmarks) == LANDMARKS
    assert (np.diff(landmarks) > 0).all()
    assert 0 <= landmarks.min() < landmarks.max() < samples
    assert np.array_equal(draw_landmarks(samples, seed=3), landmarks)
    assert not np.array_equal(draw_landmarks(samples, seed=4), landmarks)


def test_samples_without_a_group_are_units_of_their_own():
    task = numbers(group=np.array(["x", "", "x", "", "y", ""]))
    assert task.units.tolist() == ["x", "1", "x", "3", "y", "5"]


def test_half_a_read_is_added_to_counts():
    assert numbers().pseudocount == PSEUDOCOUNT == 0.5


def test_half_of_the_least_amount_of_a_typical_training_sample_is_added_to_amounts():
    amounts = [[0.5, 0.5], [0.1, 0.9], [0, 1], [0.3, 0.7], [0, 0], [0.001, 0.999]]
    task = numbers(counts=amounts, is_counted=False, held_out=0)
    # Of the training samples 2, 3 and 4 the least amounts are 1, 0.3 and none: the median is 0.65.
    assert task.pseudocount == pytest.approx(0.5 * 0.65)
    # Of the samples 0 to 4 they are 0.5, 0.1, 1, 0.3 and none.
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
        # Beyond 1e-4 to 1e3, the unit is the largest power of two that the width reaches.
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


def test_numbers_without_a_labelled_sample_keep_their_unit():
    nothing = task_of(np.arange(6.0), fold=np.full(6, -1)).encode()
    assert nothing.unit == 1


def test_reads_of_a_sample_to_predict_do_not_make_a_feature_frequent():
    # Of 300 samples 10, 11 and all have reads of a feature, but 2 of them are to be predicted.
    counts = (np.arange(300)[:, None] < [10, 11, 300]).astype(int)
    task = task_of(np.zeros(300), np.zeros(300, int), counts=counts, held_out=1)
    assert frequent_features(task).tolist() == [0, 1, 2]
    fold = np.where(np.arange(300) < 2, 1, 0)
    assert frequent_features(dataclasses.replace(task, fold=fold)).tolist() == [2]


def test_classes_that_a_model_has_not_seen_have_no_probability():
    task = task_of(list("bbaacc"), classes=["c", "b", "a"], fold=np.array([0, 0, 0, 0, 1, 1]))
    encoded = dataclasses.replace(task, held_out=1).encode()
    values, shares = fit_predict(encoded, DummyClassifier(strategy="prior"), np.zeros((6, 1)))
    assert shares.tolist() == [[0, 0.5, 0.5]] * 2
    assert values.tolist() == ["b", "b"]
    model = KNeighborsClassifier(1).fit([[0.0], [1.0]], [0, 1])
    assert predict(encoded, model, np.array([[0.9]]))[0].tolist() == ["b"]


def test_a_model_of_numbers_has_no_probabilities():
    line = task_of([1.0, 3.0, 5.0, 7.0, 0.0, 0.0], fold=np.array([0, 0, 0, 0, 1, 1]), held_out=1)
    values, shares = fit_predict(line, Ridge(alpha=0), np.arange(6.0)[:, None])
    assert values.tolist() == pytest.approx([9.0, 11.0])
    assert shares.shape == (2, 0)


def left_out(splits) -> list[list[int]]:
    return sorted(left.tolist() for _, left in splits)


def test_parts_are_whole_folds_and_as_many_as_there_are():
    task = task_of(np.zeros(14), np.arange(14) % 7, held_out=6)
    assert left_out(leave_parts_out(task, parts=10)) == [[i, i + 6] for i in range(6)]
    assert len(leave_parts_out(task)) == 5
    assert len(leave_parts_out(task, parts=3)) == 3
    for training, left in leave_parts_out(task):
        assert sorted([*training, *left]) == list(range(12))


def test_a_single_training_fold_leaves_no_part_out():
    two = task_of(np.zeros(3), np.array([0, 0, 1]), held_out=1)
    assert left_out(leave_parts_out(two)) == [[0], [1]]
    assert leave_parts_out(dataclasses.replace(two, held_out=0)) == []


THREE_FOLDS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3])


def test_the_one_part_is_that_without_which_most_classes_remain():
    task = task_of(list("aaaaabcca"), THREE_FOLDS, "abc", held_out=3)
    assert left_out(leave_each_part_out(task)) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    # Without the first fold alone all three classes remain, and it is not the first part.
    ((training, left),) = leave_one_part_out(task)
    assert left.tolist() == [0, 1, 2] != leave_each_part_out(task)[0][1].tolist()
    assert training.tolist() == [3, 4, 5, 6, 7]


def test_no_part_is_left_out_without_which_one_class_remains():
    one_class = task_of(list("aaabbba"), np.array([0, 0, 0, 1, 1, 1, 2]), "ab", held_out=2)
    assert leave_each_part_out(one_class) == []
    assert leave_one_part_out(one_class) == []


def test_the_one_part_of_numbers_is_the_first():
    numeric = task_of(np.arange(9.0), THREE_FOLDS, held_out=3)
    splits = leave_one_part_out(numeric)
    assert len(splits) == 1
    assert left_out(splits)[0] == leave_parts_out(numeric)[0][1].tolist()


EVERY = np.arange(9)


def best_constant(task: Problem, model, target, candidates: list) -> object:
    """Return the constant of a dummy model that is best for nine samples."""
    searched = search(task, model, {"constant": candidates}, [(EVERY, EVERY)])
    return searched.fit(np.zeros((9, 1)), np.array(target)).best_params_["constant"]


def test_settings_of_numbers_are_searched_by_absolute_error():
    # One far sample moves the mean, which suits squared errors, to 11.
    constant = DummyRegressor(strategy="constant", constant=0.0)
    target = [0.0] * 8 + [100.0]
    assert best_constant(numbers(), constant, target, [11.0, 0.0]) == 0.0


def test_settings_of_classes_are_searched_by_mean_recall():
    # Both constants recall one of two classes; of equals the first is taken, though 0 is frequent.
    task = task_of(list("ababab"), classes="ab")
    constant = DummyClassifier(strategy="constant", constant=0)
    assert best_constant(task, constant, [0] * 8 + [1], [1, 0]) == 1


def test_settings_are_not_searched_where_no_part_can_be_left_out():
    model = Ridge()
    assert search(numbers(), model, {"alpha": [1, 2]}, []) is model


def shared_fields() -> dict:
    """Return what the problems of all targets share."""
    return {
        "counts": csr_array(np.ones((3, 1))),
        "distances": np.zeros((3, 3), np.float32),
        "above": csr_array((1, 0)),
        "lengths": np.zeros(0),
        "seed": 5,
    }


FOLD_TABLE = pd.DataFrame(
    {"fold": [0, 1, -1], "group": ["g", "", ""]},
    pd.Index(["s1", "s2", "s3"], name="sample-id"),
)


def test_every_target_is_a_problem_of_its_own():
    observed = {"observed:age": ["1", "2.5", "3"], "observed:bmi": ["4", "5", "6"]}
    table = FOLD_TABLE.assign(**observed)
    found = problems_of_targets(table, kind="regression", classes=None, **shared_fields())
    assert list(found) == ["age", "bmi"]
    assert found["age"].target.tolist() == [1.0, 2.5, 3.0]
    assert (found["age"].classes, found["age"].seed) == ([], 5)
    assert found["bmi"].fold.tolist() == [0, 1, -1]
    assert found["bmi"].group.tolist() == ["g", "", ""]
    assert not found["bmi"].has_tree


@pytest.mark.parametrize(
    ("kind", "given", "order"),
    [("classification", None, ["2", "10"]), ("ordinal", ["10", "2"], ["10", "2"])],
)
def test_classes_are_in_the_order_of_numbers_or_in_that_of_the_user(kind, given, order):
    table = FOLD_TABLE.assign(observed=["10", "2", "2"])
    found = problems_of_targets(table, kind=kind, classes=given, **shared_fields())
    assert list(found) == [""]
    assert found[""].target.tolist() == ["10", "2", "2"]
    assert found[""].classes == order


def test_labels_lie_within_the_bounds():
    """A user gives shares as bounds of percentages; a value outside is no such mistake."""
    table = FOLD_TABLE.assign(observed=["10", "90", "0.5"])
    fields = {"kind": "regression", "classes": None, **shared_fields()}
    with pytest.raises(InputError, match=r"bounds.*got 2 of 3 labels outside \(10 to 90\)"):
        problems_of_targets(table, **{**fields, "bounds": (0.0, 1.0)})
    problems_of_targets(table, **{**fields, "bounds": (0.0, 50.0)})


def test_seeds_differ_by_method_and_fold_and_fit_into_32_bits():
    task = numbers()
    seeds = {
        dataclasses.replace(task, held_out=fold).random_state(name)
        for fold in range(20)
        for name in ("a", "b")
    }
    assert len(seeds) == 40
    # Of forty seeds some use the highest of the 32 bits that scikit-learn takes.
    assert 2**31 < max(seeds) < 2**32
    assert task.random_state("a") == numbers().random_state("a")
