import logging
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from task_settings import folds_settings

from aam.data.splits import (
    assign_folds,
    divide_labelled,
    fold_members,
    folds_of_labels,
    held_out_groups,
)
from aam.data.target_columns import observed_values
from aam.tasks.pretrain.inputs import held_out
from aam.util.errors import InputError

names = st.lists(st.text("abc01", min_size=1, max_size=6), min_size=12, max_size=40, unique=True)
kinds = st.sampled_from([(), ("classes",), ("groups",), ("classes", "groups")])
IDS = [f"s{i}" for i in range(60)]


def labelled(ids: list[str], order: list[str], kind: tuple[str, ...]) -> dict[str, list[str]]:
    """Return classes of a third, and groups of two samples, in some order."""
    number = {name: position for position, name in enumerate(sorted(ids))}
    found = {
        "classes": ["odd" if number[name] % 3 else "even" for name in order],
        "groups": [f"g{number[name] // 2}" for name in order],
    }
    return {name: found[name] for name in kind}


@settings(max_examples=50, deadline=None)
@given(
    ids=names,
    fraction=st.floats(0.1, 0.9),
    k=st.integers(2, 4),
    kind=kinds,
    random=st.randoms(),
    seed=st.sampled_from([0, 3, -1, 2**40]),
)
def test_draws_take_whole_groups_and_do_not_depend_on_order(ids, fraction, k, kind, random, seed):
    def drawn(order):
        labels = labelled(ids, order, kind)
        columns = {
            "held_out": held_out(order, fraction, seed),
            "test": held_out_groups(order, fraction, seed, **labels),
            "fold": assign_folds(order, k, seed, **labels),
        }
        return pd.DataFrame(columns, index=order).loc[ids]

    made = drawn(ids)
    assert made.equals(drawn(random.sample(ids, len(ids))))
    assert made["held_out"].sum() == min(max(round(fraction * len(ids)), 2), len(ids) - 2)
    # Pairs, or single samples of each class, come as near to the fraction as whole ones can.
    nearest = {(): 0.5, ("classes",): 1, ("groups",): 1}.get(kind, 3)
    assert abs(made["test"].sum() - fraction * len(ids)) <= nearest
    assert set(made["fold"]) == set(range(k))
    if "groups" in kind:
        by_group = made.groupby(labelled(ids, ids, kind)["groups"])[["test", "fold"]]
        assert (by_group.nunique() == 1).all(axis=None)


def test_seeds_differ_and_three_samples_are_too_few_to_hold_out():
    with pytest.raises(InputError, match="at least 4"):
        held_out(["a", "b", "c"], 0.2, 0)
    for draw in (
        lambda seed: held_out(IDS, 0.2, seed),
        lambda seed: held_out_groups(IDS, 0.3, seed),
        lambda seed: assign_folds(IDS, 5, seed),
        lambda seed: assign_folds(IDS, 5, seed, groups=[f"g{i // 3}" for i in range(60)]),
    ):
        assert not np.array_equal(draw(0), draw(1))
    assert not held_out_groups(IDS, 0.3, 0, groups=["g"] * 60).any(), "the group is too large"


@pytest.mark.parametrize("classes", [None, "ab"])
def test_folds_are_of_about_the_same_size_and_classes(classes):
    groups = [f"g{group}" for group in range(40) for _ in range(1 + group % 7)]
    ids = [f"s{i}" for i in range(len(groups))]
    labels = classes and [classes[i % 2] for i in range(len(ids))]
    folds = assign_folds(ids, 5, 0, classes=labels, groups=groups)
    assert (pd.Series(folds).groupby(groups).nunique() == 1).all()
    assert np.ptp(np.bincount(folds)) <= 7
    folds = assign_folds(IDS[:50], 5, 0, classes=["rare"] * 10 + ["common"] * 40)
    assert np.bincount(folds[:10]).tolist() == [2] * 5
    assert np.bincount(folds[10:]).tolist() == [8] * 5


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "9", "1", "9"], [2, 1, 0, 1]),
        (["fold10", "fold2", "fold1"], [2, 1, 0]),
        (["10.0", "2.0"], [1, 0]),
        (["test", "train"], [0, 1]),
        (["7", "07", "8"], [1, 0, 2]),
    ],
)
def test_labels_are_numbered_in_natural_order(labels, expected):
    assert folds_of_labels(labels).tolist() == expected


def observed(*values):
    index = [f"s{i}" for i in range(len(values))]
    frame = pd.DataFrame({"host_age": pd.Series(values, index=index, dtype=object)})
    return observed_values(frame, "regression", ["host_age"])["host_age"]


def test_numbers_are_read_exactly():
    values = observed("0.1", " 7 ", None, "-1e-3", "+.5", "3.")
    assert values.to_dict() == {"s0": 0.1, "s1": 7.0, "s3": -0.001, "s4": 0.5, "s5": 3.0}


@pytest.mark.parametrize("bad", ["-Infinity", "1e999", "nan", "1,234", "1_000", "old", "0x10", ""])
def test_text_in_a_numeric_target_is_refused(bad):
    message = rf"'host_age': got 2 of 4 values .*: {bad!r} in samples 's1', 's3';"
    with pytest.raises(InputError, match=message):
        observed("1", bad, "2", bad)


NUMBER = np.arange(24)
PAIRED_STUDIES = [f"study{i // 2 % 4}" for i in NUMBER]
"""Four studies, in one of which both samples of a host are."""
METADATA = pd.DataFrame(
    {
        "age": [None if i == 3 else str(i) for i in NUMBER],
        "ill": np.where(NUMBER % 2, "yes", "no"),
        "host": [f"h{i // 2}" for i in NUMBER],
        "study": [f"study{i % 4}" for i in NUMBER],
        "split": ["test" if i % 6 == 0 else "train" for i in NUMBER],
        "day": [None if i == 5 else str(i % 2) for i in NUMBER],
    },
    index=[f"s{i:02d}" for i in NUMBER],
    dtype=object,
)


def divided(folds: dict[str, Any], kind: str = "classification", *, metadata=METADATA, **changes):
    """Return the targets of the samples, their folds by ID, and their groups."""
    more = {name: changes.pop(name) for name in ("before", "depth") if name in changes}
    columns = ["age" if kind == "regression" else "ill"]
    task = folds_settings(folds, columns=columns, kind=kind, **changes)
    _, values, numbers, groups = divide_labelled(metadata, task, **more)
    return values, pd.Series(numbers, values.index), groups


def test_drawn_folds_hold_out_a_fraction_of_the_samples_that_have_a_target():
    values, folds, groups = divided({"k": 3, "test": 0.25}, "regression")
    assert len(values) == 23
    assert "s03" not in values.index
    assert values["age"]["s07"] == 7.0
    assert groups is None
    assert (folds == -1).sum() == 6
    assert set(folds) == {-1, 0, 1, 2}
    assert folds[folds >= 0].value_counts().tolist() == [6, 6, 5]
    assert not divided({"k": 3, "test": 0.25, "seed": 1}, "regression")[1].equals(folds)


def test_drawn_folds_keep_groups_whole():
    _, folds, groups = divided({"k": 4, "groups": "host"})
    assert groups == METADATA["host"].tolist()
    assert (folds.groupby(METADATA["host"]).nunique() == 1).all()
    assert sorted(folds.value_counts()) == [6] * 4


def test_stratified_folds_have_as_many_samples_of_each_class():
    stratified = divided({"k": 4, "stratified": True})[1]
    assert (stratified.groupby(METADATA["ill"]).value_counts() == 3).all()


def test_values_of_a_column_mark_the_test_set(caplog):
    caplog.set_level(logging.WARNING)
    _, folds, _ = divided({"k": 2, "test": {"split": "test"}})
    assert (folds.index[folds == -1] == METADATA.index[METADATA["split"] == "test"]).all()
    (of_one_class,) = caplog.messages
    assert "all samples of the test set that folds.test names are " in of_one_class
    divided({"k": 2, "groups": "host", "test": {"split": "test"}})
    assert "folds.test divides 4 of 12 groups of 'host'" in caplog.text


def test_values_that_mark_a_test_set_have_to_occur_and_to_leave_samples():
    with refused("'split', which folds.test names", "'tested'", r"'train' \(20"):
        divided({"k": 2, "test": {"split": ["test", "tested"]}})
    with refused("'test', 'train' in all 24 samples with a target"):
        divided({"k": 2, "test": {"split": ["test", "train"]}})


def test_a_fraction_below_the_smallest_group_is_refused_for_it_holds_out_nothing():
    with refused("'host'", "24 samples, of which folds.test = 0.02", ", 2;"):
        divided({"k": 3, "groups": "host", "test": 0.02})
    with refused("'ill'", "smallest group, 1;"):
        divided({"k": 3, "test": 0.01})


def test_values_of_a_column_are_folds_and_groups(caplog):
    caplog.set_level(logging.WARNING)
    metadata = METADATA.assign(study=PAIRED_STUDIES)
    metadata.loc["s07", "study"] = None
    values, folds, groups = divided({"column": "study"}, metadata=metadata)
    assert len(values) == 23
    assert "left out, as 'study' has no value: sample 's07'" in caplog.text
    assert folds.tolist() == [int(name[-1]) for name in groups]
    assert groups == metadata["study"].dropna().tolist()
    assert divided({"column": "study", "groups": False}, metadata=metadata)[2] is None


def test_a_test_set_of_folds_by_a_column_is_a_whole_value_or_what_another_column_marks():
    metadata = METADATA.assign(study=PAIRED_STUDIES)
    tested = divided({"column": "study", "test": 0.25}, metadata=metadata)[1]
    assert metadata["study"][tested == -1].nunique() == 1
    assert sorted(tested.unique()) == [-1, 0, 1, 2]
    named = {"column": "study", "test": {"split": "test"}}
    assert (divided(named, metadata=metadata)[1] == -1).sum() == 4


def test_groups_may_lie_within_folds_by_a_column_and_not_across_them():
    metadata = METADATA.assign(study=PAIRED_STUDIES)
    _, _, groups = divided({"column": "study", "groups": "host"}, metadata=metadata)
    assert groups == metadata["host"].tolist()
    with refused("several folds of 'split'"):
        divided({"column": "split", "groups": "host"})


def test_a_column_that_leaves_one_fold_is_refused():
    one = METADATA.assign(study="a")
    with refused("1 folds in the 24 samples that have a target; expected"):
        divided({"column": "study"}, metadata=one)
    two = METADATA.assign(study=np.where(NUMBER % 3, "a", "b"))
    with refused("1 folds in the 16 samples that folds.test leaves"):
        divided({"column": "study", "test": 0.3}, metadata=two)


def test_samples_without_a_group_are_refused():
    metadata = METADATA.assign(host=METADATA["host"].where(NUMBER > 1))
    with refused(r"no value in 2 samples \('s00', 's01'\) of the 24"):
        divided({"k": 3, "groups": "host"}, metadata=metadata)


def test_groups_of_one_sample_each_are_warned_of(caplog):
    caplog.set_level(logging.WARNING)
    divided({"k": 3, "groups": "host"})
    assert not caplog.records
    divided({"k": 3, "groups": "host"}, metadata=METADATA.assign(host=[f"h{i}" for i in NUMBER]))
    assert "'host': every sample has a group of its own" in caplog.text


def test_people_over_time_need_two_times():
    divided({"k": 3, "groups": "host"}, time="day")
    with refused("0 of 12 values of 'host' that have samples of two"):
        divided({"k": 3, "groups": "host"}, metadata=METADATA.assign(day="1"), time="day")


def test_a_forecast_holds_out_the_samples_after_its_time(caplog):
    caplog.set_level(logging.WARNING)
    asked = {"time": "day", "forecast": "0", "question": "forecast"}
    metadata = METADATA.assign(ill=np.where(NUMBER // 2 % 2, "yes", "no"))
    _, folds, groups = divided({"k": 3, "groups": "host"}, metadata=metadata, **asked)
    assert len(folds) == 23
    assert (folds == -1).sum() == 11
    assert (folds[folds == -1].index == METADATA.index[(NUMBER % 2 == 1) & (NUMBER != 5)]).all()
    assert "left out of the forecast, as 'day' has no time: sample 's05'" in caplog.text
    assert "folds.test divides" not in caplog.text
    # Samples that are held out for another test take no part.
    tested = {"k": 3, "groups": "host", "test": {"split": "test"}}
    assert len(divided(tested, metadata=metadata, **asked)[1]) == 19


def test_people_of_several_studies_keep_their_samples_of_one():
    metadata = METADATA.assign(study=PAIRED_STUDIES)
    metadata.loc["s01", "study"] = "study3"
    asked = {"question": "studies", "known": "host"}
    values, folds, _ = divided({"column": "study"}, metadata=metadata, **asked)
    assert values.index.tolist() == [name for name in metadata.index if name != "s01"]
    assert sorted(folds.unique()) == [0, 1, 2, 3]
    named = {"column": "study", "test": {"split": "test"}}
    kept = divided(named, metadata=metadata, **asked)[1]
    assert "s01" in kept.index, "the other sample of the person is tested"


@pytest.mark.parametrize(("studies", "folds"), [(10, 10), (11, 10), (12, 10)])
def test_up_to_ten_studies_are_folds_of_their_own(studies, folds):
    metadata = METADATA.assign(study=[f"study{i // 2 % studies}" for i in NUMBER])
    _, found, groups = divided({"column": "study"}, metadata=metadata, question="studies")
    assert set(found) == set(range(folds))
    assert (found.groupby(groups).nunique() == 1).all()


def test_many_studies_of_rare_classes_are_joined_all_the_same():
    """No class is in every fold, which no way of dividing whole studies would change."""
    metadata = METADATA.assign(
        study=[f"study{i // 2}" for i in NUMBER], ill=[f"site{i % 4}" for i in NUMBER]
    )
    _, found, groups = divided({"column": "study"}, metadata=metadata, question="studies")
    assert set(found) == set(range(10))
    assert (found.groupby(groups).nunique() == 1).all()


def test_samples_that_where_leaves_out_are_counted_by_their_values(caplog):
    caplog.set_level(logging.WARNING)
    values, _, _ = divided({"k": 2}, where={"split": ["train"], "study": ["study1", "study2"]})
    assert len(values) == 10
    assert "4 of 24 samples are left out" in caplog.text
    assert "value of 'split': 'test' (4)" in caplog.text
    assert "12 of 24 samples are left out" in caplog.text


def test_a_tenth_of_the_samples_that_rarefaction_loses_is_warned_of(caplog):
    """The sample s03 has no target, and does not count."""
    given = {"before": METADATA, "depth": 700}
    divided({"k": 2}, "regression", metadata=METADATA.drop(["s03", "s06", "s07"]), **given)
    assert "rarefaction" not in caplog.text
    kept = METADATA.drop(["s03", "s06", "s07", "s08"])
    divided({"k": 2}, "regression", metadata=kept, **given)
    assert "too few reads for rarefaction at depth 700" in caplog.text
    assert "3 of the 23 samples with a value of 'age', 13 %" in caplog.text


def test_a_target_that_is_constant_where_folds_have_a_value_is_refused():
    metadata = METADATA.assign(study=METADATA["study"].where(METADATA["ill"] == "yes"))
    with refused("the one value 'yes' in all 12 samples that have a value"):
        divided({"column": "study"}, metadata=metadata)


def test_logarithms_of_numbers_that_have_none_are_refused():
    below = METADATA.assign(age=[str(-i) for i in NUMBER])
    with refused("not above -1"):
        divided({"k": 2}, "regression", metadata=below, logarithm=True)


def test_members_of_a_fold_share_a_value_with_one_of_its_samples():
    ids = list("abcdefg")
    metadata = pd.DataFrame(
        {
            "study": ["x", "x", "y", "y", None, "z", "y"],
            "host": ["p", "q", "r", "q", "p", "s", "p"],
        },
        index=ids,
        dtype=object,
    )
    fold = pd.Series([0, 1], ["a", "c"])
    alone = fold_members(metadata, fold, [])
    assert alone.to_dict() == {"a": 0, "c": 1}
    assert (alone.name, alone.dtype) == ("fold", np.int64)
    found = fold_members(metadata, fold, ["study"])
    assert found.to_dict() == {"a": 0, "b": 0, "c": 1, "d": 1, "g": 1}
    both = fold_members(metadata, fold, ["study", "host"])
    assert both.to_dict() == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 0, "g": 1}
    # The sample g is of the study of one fold, and of a person of the other.
    torn = fold_members(metadata, fold, ["study"], "host")
    assert torn.to_dict() == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 0, "g": -1}


def test_a_rare_class_is_held_out_in_its_proportion():
    classes = ["rare"] * 10 + ["common"] * 50
    for seed in range(5):
        is_test = held_out_groups(IDS, 0.2, seed, classes=classes)
        assert (is_test[:10].sum(), is_test[10:].sum()) == (2, 10)
