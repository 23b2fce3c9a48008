"""Samples that `where` of a task keeps, and what is said where it keeps fewer than it could."""

import logging

import pandas as pd
import pytest
from refusals import refused

from aam.data.target_columns import (
    BeforeRarefaction,
    observed_values,
    require_logarithms,
    require_varied,
    samples_where,
    spellings_of,
)
from aam.util.errors import InputError

METADATA = pd.DataFrame({"site": ["gut", "gut", "skin", None]}, index=["s1", "s2", "s3", "s4"])


def test_values_that_no_sample_has_are_told_and_others_taken_in_silence(caplog):
    with caplog.at_level(logging.WARNING):
        assert samples_where(METADATA, {"site": ["gut"]}).index.tolist() == ["s1", "s2"]
        assert not caplog.text
        found = samples_where(METADATA, {"site": ["skin", "oral"]})
    assert found.index.tolist() == ["s3"]
    assert "'site': no sample has 'oral'" in caplog.text
    assert "'gut', 'skin'" in caplog.text


def test_where_no_sample_is_kept_rarefaction_is_the_cause_if_it_dropped_them():
    drawn = METADATA.loc[["s1", "s2"]]
    with pytest.raises(InputError, match=r"site.*value.* in 2 samples.*'skin'.*correct the values"):
        samples_where(drawn, {"site": ["skin"]})
    before = BeforeRarefaction(METADATA, depth=1000)
    dropped = r"'skin' in none of the samples .*depth 1000.* there were 1.*lower rarefaction.depth"
    with pytest.raises(InputError, match=dropped):
        samples_where(drawn, {"site": ["skin"]}, before)
    # It did not drop what was not there.
    with pytest.raises(InputError, match="correct the values of `where`"):
        samples_where(drawn, {"site": ["oral"]}, before)


def column(*values: object, name: str = "age") -> pd.DataFrame:
    """Return metadata of one column, of the samples s0, s1 and so on."""
    index = [f"s{number}" for number in range(len(values))]
    return pd.DataFrame({name: pd.Series(values, index, dtype=object)})


@pytest.mark.parametrize(
    ("wanted", "values", "expected"),
    [
        (["1"], ["1.0", "2"], ["1", "1.0"]),
        (["1.0"], ["1", "2"], ["1.0", "1"]),
        # Two spellings of a number, codes, decimal commas and words may mean something else.
        (["1"], ["1.0", "1.00"], ["1"]),
        (["1"], ["01", "02"], ["1"]),
        (["1"], ["1.0", "x"], ["1"]),
        (["1"], ["1,5", "1,0"], ["1"]),
        (["x"], ["1", "2"], ["x"]),
        (["True"], ["true", "false"], ["True", "true"]),
        (["true"], ["TRUE", "False"], ["true", "TRUE"]),
        (["true"], ["TRUE", "no"], ["true"]),
        (["cafe\u0301"], ["café"], ["café"]),
        (["1", "2"], ["1", "2.0"], ["1", "2", "2.0"]),
    ],
)
def test_a_wanted_value_is_found_where_it_has_one_other_spelling(wanted, values, expected):
    given = pd.Series([*values, None], dtype=object)
    assert spellings_of(wanted, given) == expected


def test_where_keeps_what_has_a_wanted_value_in_each_column():
    metadata = METADATA.assign(day=["1", "2", "1", "1"])
    found = samples_where(metadata, {"site": ["gut", "skin"], "day": ["1"]})
    assert found.index.tolist() == ["s1", "s3"]


def test_samples_before_rarefaction_can_be_selected_and_say_what_lost_them():
    metadata = METADATA.assign(day=["1", "2", "1", "1"])
    kept = BeforeRarefaction(metadata, 10).where({"site": ["gut"]})
    assert kept.metadata.index.tolist() == ["s1", "s2"]
    assert kept.counts("day").to_dict() == {"1": 1, "2": 1}
    assert (kept.act, kept.hint) == ("rarefaction at depth 10", "lower rarefaction.depth below 10")
    unknown = BeforeRarefaction(metadata)
    assert (unknown.act, unknown.hint) == ("rarefaction", "lower rarefaction.depth")


def test_samples_need_a_value_in_every_target():
    metadata = column("3", None, "1", "2").assign(bmi=["20", "21", "22", None])
    values = observed_values(metadata, "regression", ["bmi", "age"])
    assert values.to_dict() == {"bmi": {"s0": 20.0, "s2": 22.0}, "age": {"s0": 3.0, "s2": 1.0}}
    apart = column("3", "2", None, None).assign(bmi=[None, None, "1", "2"])
    with refused("columns 'age', 'bmi'", "no sample that has a value in each of them"):
        observed_values(apart, "regression", ["age", "bmi"])
    same = column("3", "3", "2", None).assign(bmi=["1", "2", None, "2"])
    with refused("'age'", r"the one value '3.0' in all 2 samples"):
        observed_values(same, "regression", ["age", "bmi"])


def test_values_that_are_none_of_the_ordered_classes_are_refused_by_name():
    metadata = column("low", "high", "mid", "odd", None)
    order = ["low", "mid", "high", "odd"]
    assert len(observed_values(metadata, "ordinal", ["age"], order)) == 4
    with refused(
        "'age'", "no class of the task: 'odd'", "one of its classes, 'low', 'mid', 'high'"
    ):
        observed_values(metadata, "ordinal", ["age"], order[:3])
    assert len(observed_values(metadata, "ordinal", ["age"], None)) == 4


def test_a_column_without_values_is_refused_with_what_rarefaction_dropped():
    empty = column(None, None)
    with refused("no value in any of the 2 samples that rarefaction keeps;", "lower rarefaction"):
        observed_values(empty, "classification", ["age"])
    lost = BeforeRarefaction(column(None, None, "1"), 50)
    with refused("rarefaction at depth 50 keeps; before it 1 samples had one", "below 50"):
        observed_values(empty, "classification", ["age"], before=lost)
    nothing = BeforeRarefaction(column(None, None, None), 50)
    with refused("no value in any of the 2 samples; expected"):
        observed_values(empty, "classification", ["age"], before=nothing)


def test_a_column_of_one_value_is_refused_with_what_has_dropped_the_others():
    same = column("a", "a")
    with refused("the one value 'a' in all 2 samples that have one", "nothing to predict"):
        observed_values(same, "classification", ["age"])
    with refused("samples that `where` of the task keeps", "add other values to `where`"):
        observed_values(same, "classification", ["age"], where=["age"])
    before = BeforeRarefaction(column("a", "a", "b", "b", "c"), 50)
    with refused("'a' in all 2 samples that rarefaction", "it drops 2 of 'b', 1 of 'c'"):
        observed_values(same, "classification", ["age"], before=before)
    alike = BeforeRarefaction(column("a", "a", "a"), 50)
    with refused("samples that have one"):
        observed_values(same, "classification", ["age"], before=alike)


def test_a_column_that_has_to_vary_is_refused_with_the_samples_that_were_asked():
    require_varied(pd.Series(["a", "b"]), "age")
    with refused("samples of mine;"):
        require_varied(pd.Series(["a", "a"]), "age", "of mine")


def test_values_that_are_no_numbers_are_named_with_their_samples_the_most_frequent_first():
    metadata = column("1", "old", "2", "young", "young", "young", "young", "3")
    named = "'young' in samples 's3', 's4' and 2 more, 'old' in sample 's1'"
    with refused("5 of 8 values that are no numbers", named, "kind to classification"):
        observed_values(metadata, "regression", ["age"])


def test_a_column_of_twenty_different_numbers_is_not_proposed_as_classes():
    many = column(*map(str, range(20)), "old", "old")
    with refused("'old' in samples 's20', 's21'; expected", "leave the cells empty") as error:
        observed_values(many, "regression", ["age"])
    assert "classification" not in str(error.value)
    few = column(*map(str, range(19)), "old")
    with refused("kind to classification"):
        observed_values(few, "regression", ["age"])


def test_logarithms_need_numbers_above_minus_one():
    require_logarithms(pd.DataFrame({"age": [0.0, -0.99]}))
    with refused("'age'", "1 of 2 values that are not above -1: -1.0 in sample 's1'"):
        require_logarithms(pd.DataFrame({"age": [0.0, -1.0]}, index=["s0", "s1"]))


@pytest.mark.parametrize(
    ("values", "kind", "warnings"),
    [
        (["1,5", "2,5", "3"], "regression", ["numbers were read", "'1,5' as 1.5"]),
        (
            [*map(str, range(10, 40)), "-9999"],
            "regression",
            ["-9999 in 1 sample far from all other numbers"],
        ),
        (
            ["Gut", "gut", "gut", "unknown"],
            "classification",
            [
                "the classes 'Gut' in 1 sample, 'gut' in 2 samples look like one",
                "'unknown' in 1 sample may stand for a missing value",
            ],
        ),
    ],
)
def test_odd_numbers_and_classes_are_warned_of(values, kind, warnings, caplog):
    observed_values(column(*values), kind, ["age"])
    for warning in warnings:
        assert warning in caplog.text


def test_plain_numbers_and_classes_are_read_without_a_warning(caplog):
    caplog.set_level(logging.WARNING)
    observed_values(column("1", "2", "3"), "regression", ["age"])
    observed_values(column("gut", "skin"), "classification", ["age"])
    assert not caplog.records
