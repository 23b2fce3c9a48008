"""A small version of the table of claims on people and their changes."""

import pandas as pd
import pytest

from benchmarks import people


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rows = [
        people.measure_draw(case, "numbers", draw) for case in people.CASES for draw in (3, 4, 5)
    ]
    return pd.DataFrame(rows)


def test_only_what_is_followed_is_claimed(table):
    said = table.groupby("case")[list(people.CLAIMS)].mean()
    assert said.loc["between people alone", "between"] > 0
    assert not said.drop("between people alone")["between"].any()
    assert said.loc["within people alone", ["within", "time"]].gt(0).all()
    assert not said.drop("within people alone")[["change", "time"]].any(axis=None)
    assert not said.loc["no signal"].any()
    assert not said["new"].any()


def test_the_summary_has_every_case(table):
    text = people.summarize(table)
    assert all(f"| numbers | {case} | 3 |" in text for case in people.CASES)
