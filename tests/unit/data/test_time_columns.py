"""Columns that say when samples were taken, and what a task may ask of people over time."""

import numpy as np
import pandas as pd
import pytest

from aam.data.study.columns import Column, columns_of
from aam.data.study.drafts import draft_task
from aam.data.study.time_columns import Course, find_time_columns, propose_course

NUMBER = np.arange(40)
PERSON = [f"p{i // 4}" for i in NUMBER]


def columns_by_name(columns: dict[str, object]) -> dict[str, Column]:
    """Return columns of forty samples, four of each of ten people."""
    metadata = pd.DataFrame({"host": PERSON} | columns, dtype=object)
    return {one.name: one for one in columns_of(metadata)}


def time_columns(
    columns: dict[str, object], together: str | None = "host"
) -> tuple[list[str], list[str]]:
    """Return the names of the columns of times, and why others are none."""
    by_name = columns_by_name(columns)
    group = None if together is None else by_name[together]
    times, refusals = find_time_columns([*by_name.values()], group)
    return [one.column.name for one in times], refusals


def texts(values) -> list[str | None]:
    """Return values as metadata have them."""
    return [None if value is None else str(value) for value in values]


DAY = texts(NUMBER % 4)
SCORE = texts((7 * NUMBER) % 40)
"""A number that changes within each person."""


def test_a_column_is_one_of_times_by_its_name_where_people_repeat():
    assert time_columns({"day": DAY}) == (["day"], [])
    assert time_columns({"day": DAY}, together=None) == ([], [])
    assert time_columns({"sugar": DAY}) == ([], [])


def test_a_column_of_times_that_holds_words_is_refused_by_them():
    times, refusals = time_columns({"day": DAY, "visit": ["soon", "late"] * 20})
    assert times == ["day"]
    assert refusals == [
        "`visit`: 'soon', 'late' are no times; write numbers, such as days, or dates as 2014-02-07"
    ]
    _, (refusal,) = time_columns({"week": ["soon"] * 40})
    assert refusal.startswith("`week`: 'soon' is no time;")


def test_days_come_before_ages_and_dates_unless_they_divide_samples_less_finely():
    dates = [f"2014-01-{1 + i % 4:02d}" for i in NUMBER]
    ages = texts(30 + NUMBER % 4)
    assert time_columns({"date": dates, "age": ages, "day": DAY})[0] == ["day", "age", "date"]
    # Dates divide the samples into forty times of people; nine in ten of these are enough.
    for alike, expected in ((4, ["day", "date"]), (5, ["date", "day"])):
        coarse = [0 if i % 4 == 1 and i < 4 * alike else i % 4 for i in NUMBER]
        assert time_columns({"date": dates, "day": texts(coarse)})[0] == expected


@pytest.mark.parametrize(
    "values",
    [
        # Up to a fifth of the values may be no times, and up to a fifth may be missing.
        ["soon" if i < 8 else i % 4 for i in NUMBER],
        [None if i < 8 else i % 4 for i in NUMBER],
        # Five people with two times are enough, and half as many times of people as samples.
        [i % 4 if i < 20 else 0 for i in NUMBER],
        [i % 2 for i in NUMBER],
    ],
)
def test_a_column_of_times_may_leave_some_samples_without_an_order(values):
    assert time_columns({"day": texts(values)})[0] == ["day"]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["soon" if i < 9 else i % 4 for i in NUMBER], "'soon' is no time"),
        ([None if i < 9 else i % 4 for i in NUMBER], "no value in 9 of 40 samples"),
        ([i % 4 if i < 16 else 0 for i in NUMBER], "4 of 10 `host` with several samples have two"),
        ([0 if i >= 36 else i % 2 for i in NUMBER], "40 samples have 19 times of their `host`"),
    ],
)
def test_a_column_of_times_is_refused_where_it_orders_too_few_samples(values, why):
    times, refusals = time_columns({"day": texts(values)})
    assert times == []
    assert refusals[0].startswith(f"`day`: {why}")


def test_five_people_with_several_samples_are_needed():
    for people, expected in ((5, ["day"]), (4, [])):
        host = [f"p{i // 4}" if i < 4 * people else f"single{i}" for i in NUMBER]
        assert time_columns({"host": host, "day": DAY}) == (expected, [])


def test_groups_of_several_hosts_have_no_times():
    cage = [f"c{i // 8}" for i in NUMBER]
    times, refusals = time_columns({"cage": cage, "day": DAY}, together="cage")
    assert times == []
    assert refusals == [
        "each `cage` has several values of host, whose samples do not follow each other"
    ]


def course(columns: dict[str, object], target: str, together: str | None = "host") -> Course:
    """Return what is proposed to ask over time of a task that predicts a column."""
    by_name = columns_by_name(columns)
    group = None if together is None else by_name[together]
    times, _ = find_time_columns([*by_name.values()], group)
    return propose_course(draft_task(by_name[target], group), times)


def test_later_samples_are_forecast_where_a_target_changes():
    found = course({"day": DAY, "score": SCORE}, "score")
    assert (found.time, found.has_forecast, found.why_not) == ("day", True, None)


def test_a_target_that_is_constant_in_each_person_is_not_forecast():
    level = texts(NUMBER // 4 * 1.5)
    found = course({"day": DAY, "score": level, "other": SCORE}, "score")
    assert (found.time, found.has_forecast) == ("day", False)
    assert "`score` changes within 0 of 10 `host`" in found.why_not


def test_without_groups_or_times_nothing_is_asked_over_time():
    for columns, together in (({"day": DAY}, None), ({}, "host")):
        found = course({"score": SCORE} | columns, "score", together)
        assert (found.time, found.has_forecast, found.why_not) == (None, False, None)


def test_a_target_that_is_a_time_itself_is_not_asked_over_time():
    columns = {"day": DAY, "age": texts(20 + NUMBER % 20)}
    found = course(columns, "age")
    assert found.time is None
    assert "`age` is a time itself" in found.why_not


def test_a_target_that_few_people_have_at_two_times_is_not_asked_over_time():
    few = texts([(7 * i) % 40 if i % 4 == 0 or i < 16 else None for i in NUMBER])
    columns = {"day": DAY, "score": few}
    found = course(columns, "score")
    assert found.time is None
    assert "few `host` have labels at two times of `day`" in found.why_not


def test_samples_at_the_time_of_a_forecast_are_before_it():
    day = texts([2 if i % 4 == 3 else 1 for i in NUMBER])
    assert course({"day": day, "score": SCORE}, "score").has_forecast


def test_a_forecast_needs_people_on_both_sides_of_a_time():
    # Only four people were sampled early and late.
    day = [i % 4 * 5 if i < 16 else i % 4 + 20 * (i // 4 % 2) for i in NUMBER]
    found = course({"day": texts(day), "score": SCORE}, "score")
    assert found.time == "day"
    assert not found.has_forecast
    assert "`host` have samples before and after one time" in found.why_not
