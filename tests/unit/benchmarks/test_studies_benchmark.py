"""A small version of the table of claims on studies never seen."""

import pandas as pd
import pytest

from benchmarks import studies


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rows = [
        studies.measure_draw(case, "two classes", draw)
        for case in studies.CASES
        for draw in range(4)
    ]
    return pd.DataFrame(rows)


def test_only_what_holds_across_studies_is_said_to(table):
    said = table.groupby("case")["works unseen"].mean()
    assert said["across studies"] >= 0.5
    assert not said.drop("across studies").any()
    scores = table.groupby("case")["unseen"].mean()
    assert scores["across studies"] > 0.65
    assert (scores.drop("across studies") - 0.5).abs().max() < 0.05


def test_samples_together_would_take_batches_for_a_signal(table):
    part = table[table["case"] == "in batches alone"]
    assert part["works, samples together"].mean() >= 0.5


def test_the_summary_has_every_case(table):
    text = studies.summarize(table)
    assert all(f"| two classes | {case} | 4 |" in text for case in studies.CASES)
