"""Which column says when samples were taken, and what a task asks of people over time."""

import numpy as np
import pandas as pd
import pytest

from aam.data.study.columns import Column, columns_of
from aam.data.study.drafts import draft_task
from aam.data.study.time_columns import Course, find_time_columns, propose_course

NUMBER = np.arange(40)
PERSON = [f"p{i // 4}" for i in NUMBER]


def found(columns: dict[str, object], together: str | None = "host") -> tuple[list[str], list[str]]:
    """Return the names of the columns of times, and why others are none."""
    by_name = named(columns)
    group = None if together is None else by_name[together]
    times, refused = find_time_columns([*by_name.values()], group)
    return [one.column.name for one in times], refused


def named(columns: dict[str, object]) -> dict[str, Column]:
    metadata = pd.DataFrame({"host": PERSON} | columns, dtype=object)
    return {one.name: one for one in columns_of(metadata)}


def texts(values) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


def test_days_of_people_are_a_course_and_words_are_none():
    day = texts(NUMBER % 4)
    assert found({"day": day}) == (["day"], [])
    assert found({"day": day}, together=None) == ([], [])
    assert found({"sugar": day}) == ([], [])
    times, refused = found({"day": day, "visit": ["soon", "late"] * 20})
    assert times == ["day"]
    assert refused == [
        "`visit`: 'soon', 'late' are no times; write numbers, such as days, or dates as 2014-02-07"
    ]
    assert found({"week": ["soon"] * 40})[1][0].startswith("`week`: 'soon' is no time;")


def test_columns_of_a_course_come_before_ages_and_dates_unless_these_are_finer():
    dates = [f"2014-01-{1 + i % 4:02d}" for i in NUMBER]
    ages = texts(30 + NUMBER % 4)
    day = texts(NUMBER % 4)
    assert found({"date": dates, "age": ages, "day": day})[0] == ["day", "age", "date"]
    # Times of four per person are forty; nine in ten of these are enough.
    for alike, expected in ((4, ["day", "date"]), (5, ["date", "day"])):
        coarse = [0 if i % 4 == 1 and i < 4 * alike else i % 4 for i in NUMBER]
        assert found({"date": dates, "day": texts(coarse)})[0] == expected


@pytest.mark.parametrize(
    ("values", "why"),
    [
        # Up to a fifth of what is given may be no time, and up to a fifth missing.
        (["soon" if i < 8 else i % 4 for i in NUMBER], None),
        (["soon" if i < 9 else i % 4 for i in NUMBER], "'soon' is no time"),
        ([None if i < 8 else i % 4 for i in NUMBER], None),
        ([None if i < 9 else i % 4 for i in NUMBER], "no value in 9 of 40 samples"),
        # Five people need two times.
        ([i % 4 if i < 20 else 0 for i in NUMBER], None),
        ([i % 4 if i < 16 else 0 for i in NUMBER], "4 of 10 `host` with several samples have two"),
        # As many times as half of the samples.
        ([i % 2 for i in NUMBER], None),
        ([0 if i >= 36 else i % 2 for i in NUMBER], "40 samples have 19 times of their `host`"),
    ],
)
def test_most_samples_have_a_time_of_their_own(values, why):
    times, refused = found({"day": texts(values)})
    assert times == ([] if why else ["day"])
    if why:
        assert refused[0].startswith(f"`day`: {why}")


def test_five_people_with_several_samples_are_needed():
    day = texts(NUMBER % 4)
    for people, is_found in ((5, True), (4, False)):
        host = [f"p{i // 4}" if i < 4 * people else f"single{i}" for i in NUMBER]
        times, refused = found({"host": host, "day": day})
        assert (times == ["day"]) == is_found
        assert refused == []


def test_several_beings_in_a_home_follow_no_course():
    cage = [f"c{i // 8}" for i in NUMBER]
    times, refused = found({"cage": cage, "day": texts(NUMBER % 4)}, together="cage")
    assert times == []
    assert refused == [
        "each `cage` has several values of host, whose samples do not follow each other"
    ]


def course(columns: dict[str, object], target: str, together: str | None = "host") -> Course:
    by_name = named(columns)
    group = None if together is None else by_name[together]
    times, _ = find_time_columns([*by_name.values()], group)
    return propose_course(draft_task(by_name[target], group), times)


def test_later_samples_are_forecast_where_a_target_changes():
    day = texts(NUMBER % 4)
    score = texts((7 * NUMBER) % 40)
    found = course({"day": day, "score": score}, "score")
    assert (found.time, found.has_forecast, found.why_not) == ("day", True, None)
    level = texts(NUMBER // 4 * 1.5)
    found = course({"day": day, "score": level, "other": score}, "score")
    assert (found.time, found.has_forecast) == ("day", False)
    assert "`score` changes within 0 of 10 `host`" in found.why_not
    nobody = course({"day": day, "score": score}, "score", together=None)
    assert (nobody.time, nobody.has_forecast, nobody.why_not) == (None, False, None)
    alone = course({"score": score}, "score")
    assert (alone.time, alone.has_forecast, alone.why_not) == (None, False, None)


def test_a_target_that_is_a_time_is_told_by_a_calendar():
    columns = {"day": texts(NUMBER % 4), "age": texts(20 + NUMBER % 20)}
    found = course(columns, "age")
    assert found.time is None
    assert "`age` is a time itself" in found.why_not


def test_labels_at_one_time_ask_for_no_change():
    day = texts(NUMBER % 4)
    few = texts([(7 * i) % 40 if i % 4 == 0 or i < 16 else None for i in NUMBER])
    columns = {"day": day, "score": few}
    found = course(columns, "score")
    assert found.time is None
    assert "few `host` have labels at two times of `day`" in found.why_not


def test_a_forecast_needs_people_on_both_sides_of_a_time():
    # Only four people were sampled early and late.
    day = [i % 4 * 5 if i < 16 else i % 4 + 20 * (i // 4 % 2) for i in NUMBER]
    found = course({"day": texts(day), "score": texts((7 * NUMBER) % 40)}, "score")
    assert found.time == "day"
    assert not found.has_forecast
    assert "`host` have samples before and after one time" in found.why_not
