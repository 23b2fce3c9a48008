"""When samples were taken: a column of numbers or of dates, on one scale."""

import math

import pandas as pd

from aam.data.cell_values import read_numbers

AUTO = "auto"
LATER = 0.3
"""Share of the samples that are after the time that is chosen where the user names none."""


def read_times(text: pd.Series) -> pd.Series:
    """Read when each sample was taken.

    Parameters
    ----------
    text
        Texts by sample, some of them missing: numbers in any unit, or dates as ISO 8601 has them,
        such as 2014-02-07. Other dates are not read, since 2/7/14 has two meanings.

    Returns
    -------
    pandas.Series
        float64 by sample, NaN where there is no time. Dates are in days.
    """
    given = text.dropna()
    values = read_numbers(given).values
    dates = pd.to_datetime(given, format="ISO8601", errors="coerce", utc=True)
    # Years alone, such as 2014, are numbers and dates.
    if dates.notna().sum() > values.notna().sum():
        values = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return values.reindex(text.index).astype("float64")


def read_cut(wanted: str, text: pd.Series) -> float | None:
    """Return the time after which samples are later, on the scale of `read_times`.

    Parameters
    ----------
    wanted
        A time as the column has it, or `auto`: the last one that `LATER` of the samples are after.
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
    together = pd.concat([text.dropna(), pd.Series([wanted], ["the cut"])])
    cut = float(read_times(together).iloc[-1])
    return None if math.isnan(cut) else cut
