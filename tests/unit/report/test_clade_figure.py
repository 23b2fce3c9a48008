"""The figure of the clades that say something of a label."""

import numpy as np
import pandas as pd
import pytest
from page_reports import classes, guessing, regression

from aam.report.figures.clades import NOTHING, draw

ROW = {
    "clade": "s1",
    "taxon": "k__Bacteria; g__Dialister",
    "features": 3,
    "representative": "s1",
}


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"observed": rng.normal(size=30), "s1": rng.normal(size=30)})
    return table.assign(s2=rng.normal(size=30))


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.nwk"
    path.write_text("(s1:1,s2:1);\n")
    return path


def test_every_clade_has_its_name_and_samples_are_sorted_by_number(samples, tree, tmp_path):
    clades = pd.DataFrame(
        [ROW, ROW | {"clade": "s2", "representative": "s2", "taxon": np.nan, "features": 1}]
    )
    draw(clades, samples, tree, regression(), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "genus Dialister (3)" in text
    assert "s2 (1)" in text
    assert f"{samples['observed'].min():g}" in text
    # The order of the samples in the file changes nothing.
    draw(clades, samples.iloc[::-1], tree, regression(), tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_bytes() == (tmp_path / "a.svg").read_bytes()


def test_classes_stand_side_by_side(samples, tree, tmp_path):
    named = samples.assign(observed=np.where(samples["observed"] > 0, "01", "no"))
    draw(pd.DataFrame([ROW]), named, tree, classes(), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "01" in text
    assert "no" in text


def test_a_sentence_stands_for_no_clades_and_under_a_red_light(samples, tree, tmp_path):
    draw(pd.DataFrame([ROW]).head(0), samples, tree, regression(), tmp_path / "a.svg")
    stopped = regression(networks={"guessing": guessing(9.0, 0.4, 0.7)})
    draw(pd.DataFrame([ROW]), samples, tree, stopped, tmp_path / "b.svg")
    for name in ("a.svg", "b.svg"):
        text = (tmp_path / name).read_text()
        assert NOTHING in text
        assert "Dialister" not in text


def test_clades_stand_in_the_order_of_their_tree(samples, tmp_path):
    tree = tmp_path / "tree.nwk"
    tree.write_text("(s2:1,(s3:1,s1:1):1);\n")
    rows = [
        ROW | {"clade": name, "representative": name, "taxon": np.nan}
        for name in ("s1", "s2", "s3")
    ]
    draw(pd.DataFrame(rows), samples.assign(s3=0.0), tree, regression(), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    places = [text.index(f"{name} (3)") for name in ("s2", "s3", "s1")]
    assert places == sorted(places)
