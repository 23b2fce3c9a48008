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
    states = [case for case in people.CASES if case.startswith("the state")]
    assert said.loc[["between people alone", states[-1]], "between"].gt(0).all()
    assert said.loc[["within people alone", states[-1]], ["within", "time"]].gt(0).all(axis=None)
    assert said.loc[states[-1], "known"] > 0, "only the state of a visit tells the later label"
    said = said.drop(states)
    assert not said.drop("between people alone")["between"].any()
    assert not said.drop("within people alone")[["change", "time"]].any(axis=None)
    assert not said.loc["no signal"].any()
    assert not said[["known", "new"]].any(axis=None)


def test_the_summary_has_every_case(table):
    text = people.summarize(table)
    assert all(f"| numbers | {case} | 3 |" in text for case in people.CASES)
