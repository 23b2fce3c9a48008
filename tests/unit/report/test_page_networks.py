"""What a page without networks says of them."""

from pathlib import Path

import pandas as pd
import pytest
from page_reports import regression

from aam.report.page.networks import (
    MEASURED,
    Gain,
    gain_sentences,
    measured_gains,
    network_sentences,
)

LEADERBOARD = Path(__file__).resolve().parents[3] / "docs" / "leaderboard.tsv"
MICE = Gain(
    "the age of a mouse",
    labels=300,
    kind="regression",
    unit="days",
    draws=3,
    without=4.25,
    with_networks=4.125,
)


@pytest.mark.parametrize(
    ("sizes", "is_known", "unknown"),
    [([150], True, None), ([149, 601], False, "149 or 601"), ([600, 20], True, "20")],
)
def test_gains_are_those_of_studies_of_about_the_same_size(sizes, is_known, unknown):
    text = " ".join(gain_sentences(sizes, [MICE]))
    said = (
        "The age of a mouse (300 labelled samples): off by 4.25 days on average without networks, "
        "4.12 days with them."
    )
    assert (said in text) == is_known
    assert (f"of about {unknown} labelled samples" in text) == (unknown is not None)


def test_only_errors_have_a_unit():
    for gain in measured_gains():
        assert (gain.unit is not None) == (gain.kind == "regression")


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
        assert gain["draws"] == scores.size()["super learner"]


def test_what_is_coming_is_told_with_its_time_and_what_is_not_asked_for_is_not():
    reports = [regression(networks={"n": 300})]
    text = " ".join(
        network_sentences(reports, models=["base"], tasks=["age", "site"], seconds=420.0)
    )
    assert "AAM follows: its encoder is pretrained without labels" in text
    assert "fine-tuned to age, site in about 7 min on two cores" in text
    assert "Task site has no baselines" in text
    text = " ".join(network_sentences(reports, models=[], tasks=["age"], seconds=None))
    assert "models: {base: {}}" in text
    assert "no baselines" not in text
    assert "follows" not in text
