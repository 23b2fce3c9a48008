"""Numbers, dates, missing words and spellings, as metadata have them."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.data.cell_values import (
    are_codes,
    are_dates,
    find_sentinels,
    group_alike,
    is_unknown,
    join_spellings,
    missing_among_numbers,
    read_numbers,
)


def numbers_of(*texts):
    read = read_numbers(pd.Series(texts, dtype=object))
    return [None if value != value else value for value in read.values], read.how


@pytest.mark.parametrize(
    ("texts", "numbers", "how"),
    [
        (["3,5", "4", "2,25"], [3.5, 4, 2.25], "with decimal commas"),
        (["0,125", "1,250"], [0.125, 1.25], "with decimal commas"),
        (["1,234", "2,345"], [None, None], ""),
        (["1,234,567", "1,234", "5"], [1234567, 1234, 5], "without the commas between thousands"),
        (["1,234.5", "1,234", "7"], [1234.5, 1234, 7], "without the commas between thousands"),
        (["3,5", "4.5", "1"], [None, 4.5, 1], ""),
        (["1.234,5", "1.234"], [None, 1.234], ""),
        (["12 years", "1 year", "13years"], [12, 1, 13], "without their unit, 'year'"),
        (["45%", "50 %"], [45, 50], "without their unit, '%'"),
        (["12 years", "6 months", "13 years"], [12, None, 13], "without their unit, 'year'"),
        (["1A", "2A"], [None, None], ""),
        (["1e3", "\N{MINUS SIGN}5", "+2", "1e\N{MINUS SIGN}2"], [1000, -5, 2, 0.01], ""),
        (["1 000", "20"], [1000, 20], "without the spaces or marks between thousands"),
        (["1\N{NO-BREAK SPACE}000", "20"], [1000, 20], "without the spaces or marks between thous"),
        (["90+", "<1", ">60", "~5", "5"], [None, None, None, None, 5], ""),
        (["1e31", "inf", "nan", "1_000", "0x1", "1"], [None, None, None, None, None, 1], ""),
    ],
)
def test_numbers_are_read_in_the_one_way_that_the_column_is_written_in(texts, numbers, how):
    found, way = numbers_of(*texts)
    assert found == numbers
    assert way.startswith(how)
    assert bool(way) == bool(how)


@given(st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 2)), min_size=1))
def test_a_decimal_comma_changes_no_number(values):
    plain = [f"{value:.2f}" for value in values]
    assert numbers_of(*(text.replace(".", ",") for text in plain))[0] == numbers_of(*plain)[0]


@given(
    st.lists(st.sampled_from(["3,5", "1,234", "4", "7 kg", "12 %", "1,234,567", "x", "2.5"])),
    st.data(),
)
def test_samples_that_are_left_out_never_change_what_a_column_of_numbers_means(texts, data):
    """What `init` accepts of all samples, a run accepts of some, or refuses by name."""
    whole, _ = numbers_of(*texts)
    if None in whole or not texts:
        return
    kept = data.draw(st.lists(st.sampled_from(range(len(texts))), min_size=1, unique=True))
    part, _ = numbers_of(*(texts[i] for i in kept))
    assert all(value in (None, whole[i]) for value, i in zip(part, kept, strict=True))


@pytest.mark.parametrize(
    ("values", "are"),
    [
        (["2019-05-01", "2020-12-31"], True),
        (["5/1/19", "12/31/18"], True),
        (["1.5.2019", "31.12.2018"], True),
        (["20190501", "20200131"], True),
        (["2019-05-01T12:00:00Z", "2019-05-02T08:30:00Z"], True),
        (["2/7/14 9:00", "12/30/14 10:30"], True),
        (["1-Mar", "2-Apr"], True),
        (["May 1, 2019", "June 2, 2019"], True),
        (["2019-05", "2019", "unknown"], True),
        (["08:30", "12:15"], True),
        (["2019", "2020"], False),
        (["10-20", "20-30"], False),
        (["1:10", "1:100"], False),
        (["1.5", "2.5"], False),
        (["20191301", "20200131"], False),
        (["gut", "2019-05-01"], False),
        ([], False),
    ],
)
def test_dates(values, are):
    assert are_dates(values) is are


def test_codes_have_zeros_in_front_or_too_many_digits():
    assert are_codes(["01", "12"])
    assert are_codes(["1", "4006381333931123"])
    assert not are_codes(["0", "0.5", "-0.5", "10"])


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        (["0", "0.0", "1"], [["0", "0.0"]]),
        (["M", "m", "F"], [["M", "m"]]),
        (["T", "TRUE", "false"], [["T", "TRUE"]]),
        (["T", "treated"], []),
        (["sub-acute", "sub acute", "acute"], [["sub acute", "sub-acute"]]),
        (["+", "-", "_"], []),
        (["-1", "1"], []),
        (
            ["1E99999999999999999999", "1e99999999999999999999"],
            [["1E99999999999999999999", "1e99999999999999999999"]],
        ),
        (["1e3", "1000", "1000.5"], [["1000", "1e3"]]),
        (["stra\N{LATIN SMALL LETTER SHARP S}e", "STRASSE"], [["STRASSE", "straße"]]),
    ],
)
def test_values_that_people_read_as_one(values, groups):
    assert group_alike(values) == groups


def test_only_whole_numbers_and_truth_values_are_certainly_one():
    assert join_spellings({"1": 2, "1.0": 1, "2.0": 1}) == {"1.0": "1"}
    assert join_spellings({"true": 1, "TRUE": 2, "False": 1}) == {"true": "TRUE"}
    for kept in (["1.1", "1.10"], ["Male", "male"], ["01", "1"], ["1", "1.0", "x"]):
        assert join_spellings(dict.fromkeys(kept, 1)) == {}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.1, 7.2, 7.3, 6.8, -9999], {-9999: 1}),
        ([1, 2, 3, 50, 80, 999, 999, -9999], {999: 2, -9999: 1}),
        ([0, 5, 7, 9, -1, -1], {-1: 2}),
        ([-5, -3, -1, -1, 4], {}),
        ([0, 10, 50, 1000, 1000], {}),
        ([*range(20), 500, 500], {500: 2}),
        ([*range(1, 100), 99], {}),
        ([*range(100, 120), 0, 0, 0], {}),
        ([], {}),
    ],
)
def test_numbers_that_may_stand_for_a_missing_value(values, expected):
    assert find_sentinels(pd.Series(values, dtype=float)) == expected


def test_numbers_beyond_1e30_are_not_read():
    assert numbers_of("1e30", "-1e30", "1.1e30", "-1.1e30")[0] == [1e30, -1e30, None, None]


@pytest.mark.parametrize(
    ("texts", "numbers", "how"),
    [
        # A column is read as most of its samples are written, and as plain numbers if in doubt.
        (["1,5", "1,5", "2.5"], [1.5, 1.5, None], "with decimal commas"),
        (["1,5", "2.5"], [None, 2.5], ""),
        (["12 kg", "12 kg", "7"], [12, 12, None], "without their unit, 'kg'"),
        (["12 kg", "7"], [None, 7], ""),
        (["1,5 kg", "2 kg", "0,25 kg"], [1.5, 2, 0.25], "without their unit, 'kg' and with decim"),
        (["1'000 kg", "20 kg"], [1000, 20], "without their unit, 'kg'"),
        (["5 mg/L", "7.5 mg/L"], [5, 7.5], "without their unit, 'mg/L'"),
        (["5 m2", "7 m2"], [5, 7], "without their unit, 'm2'"),
        (["1 234 567", "12 345"], [1234567, 12345], "without the spaces or marks"),
        (["1 23", "1"], [None, 1], ""),
        (["-5", "\N{EN DASH}5", "5-"], [-5, -5, None], ""),
        ([" 7 ", "8\t"], [7, 8], ""),
        ([".5", "3.", "1e-3"], [0.5, 3, 0.001], ""),
    ],
)
def test_a_column_is_read_in_the_way_that_most_of_its_numbers_are_written(texts, numbers, how):
    found, way = numbers_of(*texts)
    assert found == numbers
    assert way.startswith(how)
    assert bool(way) == bool(how)


NUMBERS = {str(number): 1 for number in range(11)}
"""More numbers than a column of codes has."""


@pytest.mark.parametrize(
    ("counts", "missing"),
    [
        ({**NUMBERS, "unknown": 1, "-": 1}, ["unknown", "-"]),
        # Among ten numbers or fewer, which may be codes, a dash may be a class.
        ({**{str(number): 1 for number in range(10)}, "unknown": 1, "-": 1}, ["unknown"]),
        ({**NUMBERS, "old": 10, "unknown": 1}, ["unknown"]),
        ({**NUMBERS, "old": 11, "unknown": 1}, []),
        ({"1": 3, "2": 3, "old": 1, "unknown": 1}, []),
        ({"gut": 3, "unknown": 1}, []),
        ({"01": 3, "02": 3, "unknown": 1}, []),
        ({"2019-05-01": 2, "2019-05-02": 2, "unknown": 1}, []),
        ({"unknown": 3}, []),
        ({"1": 1}, []),
    ],
)
def test_words_for_unknown_are_missing_values_where_the_others_are_numbers(counts, missing):
    assert missing_among_numbers(counts) == missing


def test_words_for_unknown_are_missing_values_of_a_column_that_is_declared_numeric():
    counts = {"gut": 3, "unknown": 1, "n.d.": 1, "None": 1, "1": 1}
    assert missing_among_numbers(counts, is_declared=True) == ["unknown", "n.d.", "None"]


@pytest.mark.parametrize(
    "word", ["Unknown", "unk", "?", "??", "...", "not recorded", "n.a.", "TBD"]
)
def test_a_class_may_stand_for_a_missing_value(word):
    assert is_unknown(word)


@pytest.mark.parametrize("word", ["gut", "na", "none", "0", "-", "not ill", ""])
def test_other_classes_do_not_stand_for_a_missing_value(word):
    assert not is_unknown(word)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # Half of the values that are known have to be dates, and the others years.
        (["2019-05-01", "2020"], True),
        (["2019-05-01", "2020", "2021"], False),
        (["2019-05-01", "soon"], False),
        (["unknown"], False),
        (["2019.05.01", "2019.06.01"], True),
        (["7 Feb 2014", "8 Feb 14"], True),
        (["9:30 am", "10:45 pm"], True),
        (["1899-05-01"], True),
        (["2219-05-01"], False),
        (["2019-13-01"], False),
    ],
)
def test_a_column_has_dates_where_the_others_are_years_or_unknown(values, expected):
    assert are_dates(values) is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # The gap has to be wider than the range of the others.
        ([0, 50, 99.9, 999], {999: 1}),
        ([0, 250, 499, 999], {999: 1}),
        ([0, 250, 500, 999], {}),
        # The range of two numbers says nothing.
        ([1, 2, -9999], {}),
        ([0, 1, 2, -9], {-9: 1}),
        ([0, 10, 20, -9], {}),
        ([0, 10, 20, -9, -9], {-9: 2}),
        # Numbers that are no codes have to be twice as far, to repeat, and to have ten others.
        ([*range(10), 28, 28], {28: 2}),
        ([*range(10), 27, 27], {}),
        ([*range(10), 28], {}),
        ([*range(9), 28, 28], {}),
        ([*range(30, 40), 0, 0], {}),
        ([*range(130, 140), 50, 50], {50: 2}),
    ],
)
def test_a_far_number_may_be_missing_by_its_distance_from_the_others(values, expected):
    assert find_sentinels(pd.Series(values, dtype=float)) == expected
