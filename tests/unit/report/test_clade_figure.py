"""The figure of the clades that say something of a label."""

import numpy as np
import pandas as pd
import pytest
from page_reports import classes, guessing, regression

from aam.report.figures.clades import NOTHING, draw

ROW = {"clade": "s1", "taxon": "k__Bacteria; g__Dialister", "features": 3}


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"observed": rng.normal(size=30), "s1": rng.normal(size=30)})
    return table.assign(s2=rng.normal(size=30))


def test_every_clade_has_its_name_and_samples_are_sorted_by_number(samples, tmp_path):
    clades = pd.DataFrame([ROW, ROW | {"clade": "s2", "taxon": np.nan, "features": 1}])
    draw(clades, samples, regression(), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "genus Dialister (3)" in text
    assert "s2 (1)" in text
    assert f"{samples['observed'].min():g}" in text
    # The order of the samples in the file changes nothing.
    draw(clades, samples.iloc[::-1], regression(), tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_bytes() == (tmp_path / "a.svg").read_bytes()


def test_classes_stand_side_by_side(samples, tmp_path):
    named = samples.assign(observed=np.where(samples["observed"] > 0, "01", "no"))
    draw(pd.DataFrame([ROW]), named, classes(), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "01" in text
    assert "no" in text


def test_a_sentence_stands_for_no_clades_and_under_a_red_light(samples, tmp_path):
    draw(pd.DataFrame([ROW]).head(0), samples, regression(), tmp_path / "a.svg")
    stopped = regression(networks={"guessing": guessing(9.0, 0.4, 0.7)})
    draw(pd.DataFrame([ROW]), samples, stopped, tmp_path / "b.svg")
    for name in ("a.svg", "b.svg"):
        text = (tmp_path / name).read_text()
        assert NOTHING in text
        assert "Dialister" not in text
