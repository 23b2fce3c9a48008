"""When samples were taken: a column of numbers or of dates, on one scale."""

import math
import re
from collections.abc import Iterator

import pandas as pd

from aam.data.cell_values import NUMBER, read_numbers

AUTO = "auto"
LATER = 0.3
"""Share of the samples that are after the time that is chosen where the user names none."""
ISO = "ISO8601"
"""How pandas calls dates with the year in front."""
_CLOCKS = ("", " %H:%M", " %H:%M:%S")
"""What may stand behind a date."""
_NAMED_MONTHS = tuple(
    f"{date}{clock}"
    for date in (
        *(f"%d{mark}%b{mark}{year}" for mark in "- " for year in ("%Y", "%y")),
        *("%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
    )
    for clock in _CLOCKS
) + ("%b-%Y", "%b %Y", "%B %Y")
"""Dates whose month is a word, as archives write them: 07-Feb-2014; without a day, the first."""
_NUMBERED_MONTHS = tuple(
    (f"%d{mark}%m{mark}{year}{clock}", f"%m{mark}%d{mark}{year}{clock}")
    for mark in "/.-"
    for year in ("%Y", "%y")
    for clock in _CLOCKS
)
"""Dates with the day or the month in front."""
_COMPACT = re.compile(r"(19|20)[0-9]{6}")
"""A date in eight digits."""
_NUMBERED = re.compile(rf"([^\W\d_][^\d]*?)([ _]+|-)?({NUMBER})")
"""A word with a number behind it: V2, Week 12, day_3."""


def read_times(text: pd.Series) -> pd.Series:
    """Read when each sample was taken.

    Of all ways to read a column, the one that reads the most samples is taken; values that are
    written in another way have no time.

    Parameters
    ----------
    text
        Texts by sample, some of them missing. They are numbers in any unit; numbers behind one word
        that all share, such as V2 or Week 12, beside which `baseline` is 0; or dates: 2014-02-07,
        20140207, 07-Feb-2014. A date such as 2/7/2014 has two meanings, and is read only where
        another value rules out one of them, as 25/7/2014 does.

    Returns
    -------
    pandas.Series
        float64 by sample, NaN where there is no time. Dates are in days.
    """
    return text.map(_read(text)[1]).astype("float64")


def read_as_dates(text: pd.Series) -> bool:
    """Return whether `read_times` reads a column as dates.

    Parameters
    ----------
    text
        Texts by sample, some of them missing.
    """
    return _read(text)[0]


def read_cut(wanted: str, text: pd.Series) -> float | None:
    """Return the time after which samples are later, on the scale of `read_times`.

    Parameters
    ----------
    wanted
        A time as the column has it, or without its word; a date may also be written as 2014-02-07.
        `auto`: the last time that `LATER` of the samples are after.
    text
        The times of the samples, as the metadata have them.

    Returns
    -------
    float or None
        None: the word is no time on the scale of the column.
    """
    if wanted == AUTO:
        given = read_times(text).dropna()
        return float(given.quantile(1 - LATER, interpolation="lower"))
    # The column decides whether 2014 is a number or a year.
    are_days, times = _read(text)
    are_still_days, with_cut = _read(pd.concat([text.dropna(), pd.Series([wanted])]))
    is_same_scale = are_days == are_still_days and times.items() <= with_cut.items()
    cut = with_cut.get(wanted, math.nan) if is_same_scale else math.nan
    if math.isnan(cut):
        plain = pd.Series([wanted])
        cut = float((_days(plain, ISO) if are_days else read_numbers(plain).values).iloc[0])
    return None if math.isnan(cut) else cut


def _read(text: pd.Series) -> tuple[bool, dict[str, float]]:
    """Return whether a column is of dates, and the time of each value that has one."""
    counts = text.value_counts()
    values = pd.Series(counts.index, counts.index, dtype=object)
    best: tuple[bool, dict[str, float]] = False, {}
    most = 0
    for are_days, read in _readings(values):
        times = read.dropna()
        size = int(counts.loc[times.index].sum())
        # The first of equals is taken: years alone, such as 2014, are numbers before dates.
        if size > most:
            most = size
            best = are_days, {str(value): float(time) for value, time in times.items()}
    return best


def _readings(values: pd.Series) -> Iterator[tuple[bool, pd.Series]]:
    """Yield each way of reading the values of a column: whether as dates, and NaN where unread."""
    if not len(values):
        return
    numbers = read_numbers(values).values
    is_compact = values.str.fullmatch(_COMPACT)
    if is_compact.any() and numbers[~is_compact].isna().all():
        # As numbers, the last of a month would be 70 from the first of the next.
        yield True, _days(values, ISO)
    yield False, numbers
    if numbers.notna().all():
        return
    yield False, _numbers_behind_a_word(values)
    for written in (ISO, *_NAMED_MONTHS):
        yield True, _days(values, written)
    for day_first, month_first in _NUMBERED_MONTHS:
        one = _days(values, day_first)
        other = _days(values, month_first)
        if other.notna().sum() > one.notna().sum():
            one, other = other, one
        is_certain = one.notna().sum() > other.notna().sum()
        if is_certain and one[other.notna()].notna().all():
            yield True, one


def _days(values: pd.Series, written: str) -> pd.Series:
    """Return the days since 1970 of the dates that are written in a way.

    Dates that pandas cannot count in nanoseconds, such as 9999-12-31, stand for none.
    """
    dates = pd.to_datetime(values, format=written, errors="coerce", utc=True).dt.as_unit("s")
    is_possible = dates.dt.year.between(pd.Timestamp.min.year + 1, pd.Timestamp.max.year - 1)
    return (dates.where(is_possible) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


def _numbers_behind_a_word(values: pd.Series) -> pd.Series:
    """Return the numbers of values such as Week 12, where all that have one share the word.

    A dash is part of the word where all have one, as in Week-1 and Week-2; where only some have, as
    in D-7 and D0, it is a minus.
    """
    read = pd.Series(index=values.index, dtype="float64")
    matches = {value: _NUMBERED.fullmatch(value.strip()) for value in values}
    numbered = {value: match for value, match in matches.items() if match is not None}
    if len({match[1].casefold() for match in numbered.values()}) != 1:
        return read
    is_minus = not all(match[2] == "-" for match in numbered.values())
    for value, match in numbered.items():
        sign = -1 if is_minus and match[2] == "-" else 1
        read[value] = sign * float(match[3])
    read[values.str.strip().str.casefold() == "baseline"] = 0.0
    return read
