"""Times of samples, as columns have them."""

import pandas as pd
import pytest

from aam.data.times import read_as_dates, read_cut, read_times


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["3", None, "10.5"], [3, None, 10.5]),
        (["5 days", "12 days"], [5, 12]),
        (["2014", "2015"], [2014, 2015]),
        (["2014-02-07", "2014/02/09", "2014-2-10 06:00"], [16108, 16110, 16111.25]),
        (["20140131", "20140201"], [16101, 16102]),
        (["20140131", "20140201", "unknown"], [16101, 16102, None]),
        # A year far away stands for no date, and these numbers for no year.
        (["2014-02-07", "9999-12-31", "0001-01-01"], [16108, None, None]),
        (["-7", "0", "7", "post"], [-7, 0, 7, None]),
        (["1200", "1300", "pre"], [1200, 1300, None]),
        (["07-Feb-2014", "9-feb-14", None], [16108, None, None]),
        (["Feb 7, 2014", "February 9, 2014", "Mar 1, 2014"], [16108, None, 16130]),
        (["Feb-2014", "Mar-2014"], [16102, 16130]),
        # One of the values says which number is the month.
        (["2/7/14", "25/7/14"], [16253, 16276]),
        (["2/7/14 9:30", "7/25/14 9:30"], [16108 + 9.5 / 24, 16276 + 9.5 / 24]),
        (["2/7/14", "3/4/14"], [None, None]),
        (["13/7/14", "7/25/14"], [None, None]),
        (["V1", "v2", "V10"], [1, 2, 10]),
        (["Week 0", "Week -2", "week 12.5"], [0, -2, 12.5]),
        (["Baseline", "Month 6", "Month 12"], [0, 6, 12]),
        # A dash that all have is part of the word; else it is a minus.
        (["D-7", "D0", "D7"], [-7, 0, 7]),
        (["Week-1", "Week-2", "baseline"], [1, 2, 0]),
        (["day 3", "week 2"], [None, None]),
        (["pre", "post", "baseline"], [None, None, None]),
        ([None, None], [None, None]),
        # What is written in another way than most has no time.
        (["1", "2", "2014-02-07"], [1, 2, None]),
    ],
)
def test_a_column_is_read_in_the_way_that_most_of_it_is_written(values, expected):
    read = read_times(pd.Series(values, dtype=object))
    pd.testing.assert_series_equal(read, pd.Series(expected, dtype="float64"))


@pytest.mark.parametrize(
    ("wanted", "values", "expected"),
    [
        ("365", ["1", "400"], 365),
        ("V3", ["V1", "V4"], 3),
        ("3", ["V1", "V4"], 3),
        ("2014-02-07", ["2/7/14", "7/25/14"], 16108),
        ("2/7/14", ["2/7/14", "7/25/14"], 16108),
        ("auto", [str(day) for day in range(10)], 6),
        ("soon", ["V1", "V4"], None),
        ("2014-02-07", ["1", "400"], None),
        ("2014-06-01", ["2013", "2014", "2015"], None),
        ("2014", ["2013", "2014", "2015"], 2014),
        ("2014-02-01", ["20140131", "20140305", "unknown"], 16102),
    ],
)
def test_a_cut_is_a_time_as_the_column_has_it_or_plain(wanted, values, expected):
    assert read_cut(wanted, pd.Series(values, dtype=object)) == expected


@pytest.mark.parametrize(
    ("values", "are_days"),
    [
        (["1", "2"], False),
        (["2014", "2015"], False),
        (["20140131", "20140201"], True),
        (["20140131", "1"], False),
        (["V1", "V2"], False),
        (["7-Feb-2014", "soon"], True),
        (["soon"], False),
        ([None], False),
    ],
)
def test_calendar_dates_are_read_as_days_and_years_as_numbers(values, are_days):
    assert read_as_dates(pd.Series(values, dtype=object)) is are_days


def test_three_in_ten_samples_are_later_than_an_automatic_cut():
    """The cut is a time that a sample has, and repeated times count by their samples."""
    days = pd.Series([*["1"] * 6, "2", "3", "4", "5", None], dtype=object)
    assert read_cut("auto", days) == 2
    assert read_cut("auto", pd.Series(["1", "2", "3"], dtype=object)) == 2
    assert read_cut("auto", pd.Series(["1"] * 3 + ["2"] * 7, dtype=object)) == 2


def test_times_are_read_as_numbers_unless_another_way_reads_more_of_them():
    text = pd.Series(["3", "V2"], dtype=object)
    assert read_times(text).tolist()[0] == 3
    assert read_times(text).isna().tolist() == [False, True]
    most = pd.Series(["3", "V2", "V2"], dtype=object)
    assert read_times(most).isna().tolist() == [True, False, False]
