"""What cannot be divided into folds, and what is said of it: on both sides of each limit."""

import logging
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from aam.config.settings.tasks import FoldsSettings
from aam.data.fold_checks import (
    keep_in_one_study,
    require_enough,
    require_forecast,
    require_repeats,
    require_spread_classes,
    require_studies,
    require_training_samples,
    require_whole_groups,
    warn_of_tested_groups,
)
from aam.data.target_columns import BeforeRarefaction
from aam.util.errors import InputError


def task_of(folds: dict[str, Any], **changes: Any) -> FoldsSettings:
    settings = {"columns": ["ill"], "where": {}, "kind": "classification", "classes": None}
    settings |= {"categories": [], "folds": folds, "logarithm": False}
    return FoldsSettings.model_validate(settings | changes)


def labelled(*values: object) -> pd.Series:
    return pd.Series(values, [f"s{number}" for number in range(len(values))], name="ill")


def refused(*facts: str):
    """Return what a message has to say, in this order."""
    return pytest.raises(InputError, match=re.compile(".*".join(facts), re.DOTALL))


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.WARNING)
    return caplog


def test_groups_lie_in_one_fold_of_a_column():
    folds = task_of({"column": "study", "groups": "host"}).folds
    require_whole_groups(["h1", "h1", "h2"], ["a", "a", "a"], folds)
    with refused("column 'host'", "several folds of 'study': 'h1' in 'a' and 'b'", "folds.k"):
        require_whole_groups(["h1", "h1", "h2"], ["b", "a", "a"], folds)


def test_groups_on_both_sides_of_a_test_set_are_told(told):
    folds = task_of({"k": 2, "groups": "host", "test": {"split": "test"}}).folds
    warn_of_tested_groups(["h1", "h1", "h2", "h3"], np.array([-1, -1, 0, 1]), folds)
    assert not told.records
    warn_of_tested_groups(["h1", "h1", "h2", "h3"], np.array([-1, 0, -1, 1]), folds)
    assert "divides 1 of 3 groups of 'host': 'h1'" in told.text
    by_column = task_of({"column": "study", "test": {"split": "test"}}).folds
    warn_of_tested_groups(["a", "a"], np.array([-1, 0]), by_column)
    assert "divides 1 of 1 groups of 'study': 'a'" in told.text


def studies_of(*sizes: tuple[str, str]) -> tuple[pd.Series, np.ndarray, list[str]]:
    """Return the targets, folds and studies of studies by their name and their classes."""
    observed = labelled(*"".join(classes for _, classes in sizes))
    studies = [name for name, classes in sizes for _ in classes]
    folds = np.unique(studies, return_inverse=True)[1]
    return observed, folds, studies


def test_three_studies_of_two_classes_are_needed_to_leave_one_out():
    task = task_of({"column": "study"}, question="studies")
    three = studies_of(("a", "xy"), ("b", "xyy"), ("c", "xyyy"))
    require_studies(*three, task)
    with refused(
        "'study', which `studies` names", "2 studies", r"'b' \(3\), 'a' \(2\)", "at least 3"
    ):
        require_studies(*studies_of(("a", "xy"), ("b", "xyy")), task)
    single = studies_of(("a", "xy"), ("b", "xyy"), ("c", "yyyy"))
    with refused(r"one class alone in 1 of 3 studies: 'c' \(4\)", "different values of 'ill'"):
        require_studies(*single, task)
    require_studies(*studies_of(("a", "xy"), ("b", "xy"), ("c", "yy"), ("d", "xy")), task)
    with refused("one number alone"):
        require_studies(*single, task.model_copy(update={"kind": "regression"}))
    # Samples to test are in no study.
    observed, folds, studies = three
    with refused("2 studies"):
        require_studies(observed, np.where(folds == 2, -1, folds), studies, task)


def test_people_belong_to_the_study_with_most_of_their_samples(told):
    task = task_of({"column": "study"}, question="studies", known="host")
    person = labelled(*"ppppqqrr")
    study = labelled(*"aaabbaab")
    kept = keep_in_one_study(study, person, task)
    # Of equals the first study by its name is taken.
    assert kept.tolist() == [True, True, True, False, False, True, True, False]
    assert "question about studies: 3 samples of 3 values of 'host'" in told.text
    assert "'p', 'q', 'r'" in told.text
    told.clear()
    assert keep_in_one_study(labelled(*"aabb"), labelled(*"ppqq"), task).all()
    assert not told.records


def test_a_question_about_studies_is_refused_where_most_people_are_in_several():
    task = task_of({"column": "study"}, question="studies", known="host")
    half = labelled(*"ppqq"), labelled(*"abab")
    assert keep_in_one_study(half[1], half[0], task).sum() == 2
    with refused("'study', which `studies` names", "'host'", "'p'", "leave out 2 of 3 samples"):
        keep_in_one_study(labelled(*"abc"), labelled(*"ppp"), task)


def test_two_people_with_samples_of_two_times_are_needed(told):
    require_repeats(list("ppqq"), labelled("1", "2", "1", "2"), "day", "host")
    assert not told.records
    for times in (("1", "2", "1", "1"), ("1", "2", "1", None)):
        with refused("'day', which `time` names", "1 of 2 values of 'host'", "at least 2"):
            require_repeats(list("ppqq"), labelled(*times), "day", "host")
    require_repeats(list("ppqqq"), labelled("1", "2", "1", "2", "soon"), "day", "host")
    assert "neither a number nor a date" in told.text
    assert "'s4'" in told.text
    with refused("no time in 2 samples: 'soon', 'late'", "year first"):
        require_repeats(list("pp"), labelled("soon", "late"), "day", "host")
    with refused("no time in 2 samples; expected"):
        require_repeats(list("pp"), labelled(None, None), "day", "host")


def test_a_forecast_needs_two_people_on_both_sides():
    task = task_of({"k": 2, "groups": "host"}, time="day", forecast="3", question="forecast")
    people = labelled(*"pqpq")
    time = pd.Series([1.0, 3.0, 4.0, 5.0], people.index)
    require_forecast(time, people, 3.0, task)
    with refused("`forecast: 3` of a task with `time: day`", "2 people up to it, and of 1 after"):
        require_forecast(time, people, 4.0, task)
    with refused("1 people up to it, and of 2 after"):
        require_forecast(time, people, 2.0, task)
    with refused("no time on the scale of 'day'", "times from 1 to 5", "forecast: auto"):
        require_forecast(time, people, None, task)
    with refused("which has none"):
        require_forecast(time[:0], people[:0], None, task)


def test_as_many_samples_groups_and_samples_of_a_class_are_needed_as_folds():
    task = task_of({"k": 3})
    require_enough(labelled(*"xxxyyy"), None, task)
    with refused("'ill'", "a value in 2 samples; expected at least as many as folds, 3", "lower"):
        require_enough(labelled(*"xy"), None, task)
    with refused("fewer samples than folds: 'y' with 2", "at least 3 samples of each class"):
        require_enough(labelled(*"xxxyy"), None, task)
    numbers = task.model_copy(update={"kind": "regression"})
    require_enough(labelled(1.0, 2.0, 2.0), None, numbers)
    grouped = task_of({"k": 3, "groups": "host"})
    require_enough(labelled(*"xxxyyy"), list("abcabc"), grouped)
    with refused("'host'", "only 2 groups: a, b; expected at least as many as folds, 3"):
        require_enough(labelled(*"xxxyyy"), list("abaabb"), grouped)
    with refused("'host'", "the one value 'a' in all 6 samples", "false where every sample"):
        require_enough(labelled(*"xxxyyy"), list("aaaaaa"), grouped)
    tested = task_of({"k": 3, "groups": "host", "test": 0.2})
    with refused("only 2 groups beyond folds.test", "lower folds.k or folds.test"):
        require_enough(labelled(*"xxxyyy"), list("abaabb"), tested)


def test_classes_that_are_too_small_are_left_out_by_naming_the_others():
    task = task_of({"k": 2})
    with refused(r'leave these classes out: where: \{"ill": \["x", "y"\]\}'):
        require_enough(labelled(*"xxyyz"), None, task)
    # One class is nothing to tell apart, and nine are too many to list.
    for values in ("xxyz", "aabbccddeeffgghhiiz"):
        with refused("leave these classes out with `where`$"):
            require_enough(labelled(*values), None, task)
    with refused(r'where: \{"ill": \["a", "b", "c", "d", "e", "f", "g", "h"\]\}'):
        require_enough(labelled(*"aabbccddeeffgghhz"), None, task)


def before(ill: str, host: str) -> BeforeRarefaction:
    return BeforeRarefaction(pd.DataFrame({"ill": list(ill), "host": list(host)}), depth=500)


def test_rarefaction_is_blamed_where_there_was_enough_before_it():
    task = task_of({"k": 3, "groups": "host"})
    had = before("xxxyyy", "abcabc")
    with refused("only 2 groups", "depth 500 keeps them of 3", "lower rarefaction.depth below 500"):
        require_enough(labelled(*"xxxyyy"), list("abaabb"), task, had)
    with refused("only 2 groups: a, b; expected"):
        require_enough(labelled(*"xxxyyy"), list("abaabb"), task, before("xxyyyy", "ababab"))
    singly = task_of({"k": 3})
    with refused("a value in 2 samples; rarefaction at depth 500 keeps these of 6"):
        require_enough(labelled(*"xy"), None, singly, had)
    with refused("a value in 2 samples; expected"):
        require_enough(labelled(*"xy"), None, singly, before("xy", "ab"))
    with refused("'y' with 2; of the 3 samples of 'y' rarefaction at depth 500 keeps 2"):
        require_enough(labelled(*"xxxyy"), None, singly, had)
    with refused("'y' with 2; expected"):
        require_enough(labelled(*"xxxyy"), None, singly, before("xxxyy", "abcab"))
    # What samples to test take is not what rarefaction drops.
    tested = task_of({"k": 3, "test": 0.2})
    with refused("a value in 2 samples beyond folds.test; expected"):
        require_enough(labelled(*"xy"), None, tested, had)


def test_each_fold_leaves_two_samples_to_learn_from():
    require_training_samples(np.array([0, 0, 0, 1, 1, -1]), "study")
    with refused("'study'", "a fold of 3 of 4 samples, which leaves 1 to train on", "at least 2"):
        require_training_samples(np.array([0, 0, 0, 1, -1, -1]), "study")


def test_a_class_lies_in_two_folds(told):
    task = task_of({"k": 2})
    observed = labelled(*"xxyy")
    require_spread_classes(observed, np.array([0, 1, 0, 1]), None, task)
    with refused("'ill'", "all lie in one fold, or in the test set: 'y'", "folds.stratified"):
        require_spread_classes(observed, np.array([0, 1, 1, 1]), None, task)
    with refused("test set: 'x'"):
        require_spread_classes(observed, np.array([0, -1, 0, 1]), None, task)
    assert not told.records
    named = task_of({"k": 2}, kind="ordinal", classes=["x", "y", "z"])
    require_spread_classes(observed, np.array([0, 1, 0, 1]), None, named)
    assert "classes of 'ill' that no sample has: 'z'" in told.text


def test_a_class_of_one_group_goes_together_with_it():
    observed, folds = labelled(*"xxyy"), np.array([0, 1, 0, 0])
    task = task_of({"k": 2, "groups": "host"})
    with refused("classes are in one value of 'host' alone: 'y' in 'c'", "another 'host'"):
        require_spread_classes(observed, folds, list("abcc"), task)
    with refused("all lie in one fold, or in the test set: 'y'"):
        require_spread_classes(observed, folds, list("abcd"), task)
    by_column = task_of({"column": "study"})
    with refused("every class is in one value of 'study' alone: 'x' in 'a', 'y' in 'b'"):
        require_spread_classes(observed, np.array([0, 0, 1, 1]), list("aabb"), by_column)
    with refused("'y' in 'c'; of the 3 samples of 'y' rarefaction at depth 500 keeps 2"):
        require_spread_classes(observed, folds, list("abcc"), task, before("xxyyy", "abccd"))
    with refused("'y' in 'c'; expected"):
        require_spread_classes(observed, folds, list("abcc"), task, before("xxyy", "abcc"))
