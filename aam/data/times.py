"""When samples were taken: a column of numbers or of dates, on one scale."""

import pandas as pd

from aam.data.cell_values import read_numbers


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
