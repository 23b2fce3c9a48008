"""What a page without networks says of them."""

from pathlib import Path

import pandas as pd
import pytest
from page_reports import regression

from aam.report.page.networks import (
    MEASURED,
    Gain,
    describe_gains,
    describe_networks,
    measured_gains,
)

LEADERBOARD = Path(__file__).resolve().parents[3] / "docs" / "leaderboard.tsv"
MICE = Gain(labels=300, kind="regression", without=4.0, with_networks=4.2)
SITES = Gain(labels=500, kind="classification", without=0.5, with_networks=0.6)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({150}, "was 5.0 % worse in one task of public studies with 300 labelled"),
        ({400}, "was 5.0 % worse to 20.0 % better in 2 tasks of public studies with 300 to 500"),
        ({1000, 20}, "was 20.0 % better in one task"),
        ({149, 1001}, "was not measured in studies of this size"),
    ],
)
def test_gains_are_those_of_studies_of_about_the_same_size(sizes, said):
    assert said in describe_gains(sizes, [MICE, SITES])


def test_what_hardly_changes_is_unchanged():
    same = Gain(labels=33, kind="classification", without=0.625, with_networks=0.6251)
    assert "was unchanged in one task" in describe_gains({33}, [same])


def test_the_gains_are_those_of_the_leaderboard():
    table = pd.read_csv(LEADERBOARD, sep="\t")
    gains = pd.read_csv(MEASURED, sep="\t")
    with_networks = table[table["learner"] == "super learner without AAM"]
    assert set(gains["task"]) == set(with_networks["task"])
    for gain in gains.to_dict("records"):
        scores = table[table["task"] == gain["task"]].groupby("learner")["score"]
        mean = scores.mean()
        assert gain["with"] == pytest.approx(mean["super learner"], rel=1e-4)
        assert gain["without"] == pytest.approx(mean["super learner without AAM"], rel=1e-4)


def test_what_is_coming_is_told_with_its_time_and_what_is_not_asked_for_is_not():
    reports = [regression(networks={"n": 300})]
    text = describe_networks(reports, models=["base"], tasks=["age", "site"], seconds=420.0)
    assert "AAM follows, pretrained without labels" in text
    assert "fine-tuned to age, site in about 7 min on two cores" in text
    assert "site can be answered by networks alone" in text
    text = describe_networks(reports, models=[], tasks=["age"], seconds=None)
    assert "models: {base: {}}" in text
    assert describe_gains({300}, measured_gains()) in text
    assert "alone" not in text
    assert "follows" not in text
