"""Samples that cannot be divided into folds, and what the refusal says."""

import logging

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from task_settings import folds_settings

from aam.data.fold_checks import (
    keep_in_one_study,
    require_enough,
    require_forecast,
    require_repeats,
    require_spread_classes,
    require_studies,
    require_training_samples,
    require_whole_groups,
    warn_of_one_tested_class,
    warn_of_tested_groups,
)
from aam.data.target_columns import BeforeRarefaction


def labelled(*values: object) -> pd.Series:
    """Return values of the column `ill`, or of another one, of the samples s0, s1 and so on."""
    return pd.Series(values, [f"s{number}" for number in range(len(values))], name="ill")


@pytest.fixture
def warned(caplog):
    """Return the log, which has warnings alone."""
    caplog.set_level(logging.WARNING)
    return caplog


def test_a_group_that_lies_in_several_values_of_the_column_of_folds_is_refused():
    folds = folds_settings({"column": "study", "groups": "host"}).folds
    require_whole_groups(["h1", "h1", "h2"], ["a", "a", "a"], folds)
    with refused("column 'host'", "several folds of 'study': 'h1' in 'a' and 'b'", "folds.k"):
        require_whole_groups(["h1", "h1", "h2"], ["b", "a", "a"], folds)


def test_groups_that_a_test_set_divides_are_warned_of(warned):
    folds = folds_settings({"k": 2, "groups": "host", "test": {"split": "test"}}).folds
    warn_of_tested_groups(["h1", "h1", "h2", "h3"], np.array([-1, -1, 0, 1]), folds)
    assert not warned.records
    warn_of_tested_groups(["h1", "h1", "h2", "h3"], np.array([-1, 0, -1, 1]), folds)
    assert "divides 1 of 3 groups of 'host': 'h1'" in warned.text
    by_column = folds_settings({"column": "study", "test": {"split": "test"}}).folds
    warn_of_tested_groups(["a", "a"], np.array([-1, 0]), by_column)
    assert "divides 1 of 1 groups of 'study': 'a'" in warned.text


def test_a_test_set_of_one_class_is_warned_of(warned):
    warn_of_one_tested_class(labelled("1", "0", "0", "1"), np.array([-1, -1, 0, 1]))
    warn_of_one_tested_class(labelled("1", "0"), np.array([0, 1]))
    assert not warned.records
    warn_of_one_tested_class(labelled("1", "1", "0", "1"), np.array([-1, -1, 0, 1]))
    assert "all samples of the test set that folds.test names are '1'" in warned.text


ON_STUDIES = folds_settings({"column": "study"}, question="studies", known="host")


def studies_of(**classes: str) -> tuple[pd.Series, np.ndarray, list[str]]:
    """Return the targets, folds and studies of samples by the classes of each study."""
    observed = labelled(*"".join(classes.values()))
    studies = [name for name, letters in classes.items() for _ in letters]
    folds = np.unique(studies, return_inverse=True)[1]
    return observed, folds, studies


def test_three_studies_are_needed_to_leave_one_out():
    require_studies(*studies_of(a="xy", b="xyy", c="xyyy"), ON_STUDIES)
    with refused(
        "'study', which `studies` names", "2 studies", r"'b' \(3\), 'a' \(2\)", "at least 3"
    ):
        require_studies(*studies_of(a="xy", b="xyy"), ON_STUDIES)
    observed, folds, studies = studies_of(a="xy", b="xyy", c="xyyy")
    with refused("2 studies"):
        require_studies(observed, np.where(folds == 2, -1, folds), studies, ON_STUDIES)


def test_three_studies_need_several_classes_or_numbers_each():
    require_studies(*studies_of(a="xy", b="xy", c="yy", d="xy"), ON_STUDIES)
    single = studies_of(a="xy", b="xyy", c="yyyy")
    with refused(r"one class alone in 1 of 3 studies: 'c' \(4\)", "different values of 'ill'"):
        require_studies(*single, ON_STUDIES)
    with refused("one number alone"):
        require_studies(*single, ON_STUDIES.model_copy(update={"kind": "regression"}))


def test_people_belong_to_the_study_with_most_of_their_samples(warned):
    person = labelled(*"ppppqqrr")
    study = labelled(*"aaabbaab")
    kept = keep_in_one_study(study, person, ON_STUDIES)
    # Among studies with as many samples, names decide.
    assert kept.tolist() == [True, True, True, False, False, True, True, False]
    assert "question about studies: 3 samples of 3 values of 'host'" in warned.text
    assert "'p', 'q', 'r'" in warned.text
    warned.clear()
    assert keep_in_one_study(labelled(*"aabb"), labelled(*"ppqq"), ON_STUDIES).all()
    assert not warned.records


def test_a_question_about_studies_is_refused_where_most_people_are_in_several():
    assert keep_in_one_study(labelled(*"abab"), labelled(*"ppqq"), ON_STUDIES).sum() == 2
    with refused("'study', which `studies` names", "'host'", "'p'", "leave out 2 of 3 samples"):
        keep_in_one_study(labelled(*"abc"), labelled(*"ppp"), ON_STUDIES)


def test_two_people_with_samples_of_two_times_are_needed(warned):
    require_repeats(list("ppqq"), labelled("1", "2", "1", "2"), "day", "host")
    assert not warned.records
    for times in (("1", "2", "1", "1"), ("1", "2", "1", None)):
        with refused("'day', which `time` names", "1 of 2 values of 'host'", "at least 2"):
            require_repeats(list("ppqq"), labelled(*times), "day", "host")


def test_samples_without_a_time_are_warned_of_and_refused_where_none_has_one(warned):
    require_repeats(list("ppqqq"), labelled("1", "2", "1", "2", "soon"), "day", "host")
    assert "neither a number nor a date" in warned.text
    assert "'s4'" in warned.text
    with refused("no time in 2 samples: 'soon', 'late'", "year first"):
        require_repeats(list("pp"), labelled("soon", "late"), "day", "host")
    with refused("no time in 2 samples; expected"):
        require_repeats(list("pp"), labelled(None, None), "day", "host")


def test_a_forecast_needs_two_people_on_both_sides():
    task = folds_settings({"k": 2, "groups": "host"}, time="day", forecast="3", question="forecast")
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


def test_as_many_samples_of_each_class_are_needed_as_folds():
    task = folds_settings({"k": 3})
    require_enough(labelled(*"xxxyyy"), None, task)
    with refused("'ill'", "a value in 2 samples; expected at least as many as folds, 3", "lower"):
        require_enough(labelled(*"xy"), None, task)
    with refused("fewer samples than folds: 'y' with 2", "at least 3 samples of each class"):
        require_enough(labelled(*"xxxyy"), None, task)
    require_enough(labelled(1.0, 2.0, 2.0), None, folds_settings({"k": 3}, kind="regression"))


def test_as_many_groups_are_needed_as_folds():
    grouped = folds_settings({"k": 3, "groups": "host"})
    require_enough(labelled(*"xxxyyy"), list("abcabc"), grouped)
    with refused("'host'", "only 2 groups: a, b; expected at least as many as folds, 3"):
        require_enough(labelled(*"xxxyyy"), list("abaabb"), grouped)
    with refused("'host'", "the one value 'a' in all 6 samples", "false where every sample"):
        require_enough(labelled(*"xxxyyy"), list("aaaaaa"), grouped)
    tested = folds_settings({"k": 3, "groups": "host", "test": 0.2})
    with refused("only 2 groups beyond folds.test", "lower folds.k or folds.test"):
        require_enough(labelled(*"xxxyyy"), list("abaabb"), tested)


def test_where_classes_are_too_small_the_hint_names_those_to_keep():
    task = folds_settings({"k": 2})
    with refused(r'leave these classes out: where: \{"ill": \["x", "y"\]\}'):
        require_enough(labelled(*"xxyyz"), None, task)
    # One class alone cannot be predicted, and nine are too many to list.
    for values in ("xxyz", "aabbccddeeffgghhiiz"):
        with refused("leave these classes out with `where`$"):
            require_enough(labelled(*values), None, task)
    with refused(r'where: \{"ill": \["a", "b", "c", "d", "e", "f", "g", "h"\]\}'):
        require_enough(labelled(*"aabbccddeeffgghhz"), None, task)


def before(ill: str, host: str) -> BeforeRarefaction:
    """Return what the samples were before rarefaction at a depth of 500 reads."""
    return BeforeRarefaction(pd.DataFrame({"ill": list(ill), "host": list(host)}), depth=500)


ENOUGH = before("xxxyyy", "abcabc")
"""Samples, classes and groups that are enough for three folds."""


def test_rarefaction_is_blamed_for_too_few_groups_where_it_dropped_some():
    task = folds_settings({"k": 3, "groups": "host"})
    with refused("only 2 groups", "depth 500 keeps them of 3", "lower rarefaction.depth below 500"):
        require_enough(labelled(*"xxxyyy"), list("abaabb"), task, ENOUGH)
    with refused("only 2 groups: a, b; expected"):
        require_enough(labelled(*"xxxyyy"), list("abaabb"), task, before("xxyyyy", "ababab"))


def test_rarefaction_is_blamed_for_too_few_samples_where_it_dropped_some():
    task = folds_settings({"k": 3})
    with refused("a value in 2 samples; rarefaction at depth 500 keeps these of 6"):
        require_enough(labelled(*"xy"), None, task, ENOUGH)
    with refused("a value in 2 samples; expected"):
        require_enough(labelled(*"xy"), None, task, before("xy", "ab"))
    with refused("'y' with 2; of the 3 samples of 'y' rarefaction at depth 500 keeps 2"):
        require_enough(labelled(*"xxxyy"), None, task, ENOUGH)
    with refused("'y' with 2; expected"):
        require_enough(labelled(*"xxxyy"), None, task, before("xxxyy", "abcab"))


def test_rarefaction_is_not_blamed_for_samples_that_are_held_out():
    task = folds_settings({"k": 3, "test": 0.2})
    with refused("a value in 2 samples beyond folds.test; expected"):
        require_enough(labelled(*"xy"), None, task, ENOUGH)


def test_a_fold_that_leaves_one_sample_to_train_on_is_refused():
    require_training_samples(np.array([0, 0, 0, 1, 1, -1]), "study")
    with refused("'study'", "a fold of 3 of 4 samples, which leaves 1 to train on", "at least 2"):
        require_training_samples(np.array([0, 0, 0, 1, -1, -1]), "study")


def test_a_class_that_lies_in_one_fold_is_refused_and_one_without_samples_warned_of(warned):
    task = folds_settings({"k": 2})
    observed = labelled(*"xxyy")
    require_spread_classes(observed, np.array([0, 1, 0, 1]), None, task)
    with refused("'ill'", "all lie in one fold, or in the test set: 'y'", "folds.stratified"):
        require_spread_classes(observed, np.array([0, 1, 1, 1]), None, task)
    with refused("test set: 'x'"):
        require_spread_classes(observed, np.array([0, -1, 0, 1]), None, task)
    assert not warned.records
    named = folds_settings({"k": 2}, kind="ordinal", classes=["x", "y", "z"])
    require_spread_classes(observed, np.array([0, 1, 0, 1]), None, named)
    assert "classes of 'ill' that no sample has: 'z'" in warned.text


def test_a_class_that_one_group_alone_has_is_refused_with_the_group():
    observed, folds = labelled(*"xxyy"), np.array([0, 1, 0, 0])
    task = folds_settings({"k": 2, "groups": "host"})
    with refused("classes are in one value of 'host' alone: 'y' in 'c'", "another 'host'"):
        require_spread_classes(observed, folds, list("abcc"), task)
    with refused("all lie in one fold, or in the test set: 'y'"):
        require_spread_classes(observed, folds, list("abcd"), task)
    by_column = folds_settings({"column": "study"})
    with refused("every class is in one value of 'study' alone: 'x' in 'a', 'y' in 'b'"):
        require_spread_classes(observed, np.array([0, 0, 1, 1]), list("aabb"), by_column)
    with refused("'y' in 'c'; of the 3 samples of 'y' rarefaction at depth 500 keeps 2"):
        require_spread_classes(observed, folds, list("abcc"), task, before("xxyyy", "abccd"))
    with refused("'y' in 'c'; expected"):
        require_spread_classes(observed, folds, list("abcc"), task, before("xxyy", "abcc"))
