"""What the page says of the clades that a label depends on."""

import numpy as np
import pandas as pd
import pytest
from page_reports import answer_to, classes, guessing, regression

from aam.data.nouns import Nouns
from aam.report.page.named_clades import clade_tables, effect_tables, mark_named, write_clades

OTUS = Nouns("OTU", "OTUs", "amounts")
SHARED = {
    "p": 0.0004,
    "effect": 0.031,
    "folds": 5,
    "draws": 4,
    "prevalence": 0.4,
    "log_ratio": -3.0,
}


def table(number, **about):
    """Return a table of as many clades, as it is read from its file."""
    rows = []
    for at in range(number):
        row = {"clade": f"seq{at}", "taxon": "k__Bacteria; g__Dialister", "features": at + 1}
        rows.append(row | SHARED | {"representative": f"seq{at}"} | about)
    return pd.DataFrame(rows)


OF_CLASSES = {"direction": "gut"} | {
    f"{part}:{name}": value
    for name in ("gut", "skin")
    for part, value in (("log_ratio", -2.0), ("low", -2.5), ("high", -1.5), ("prevalence", 0.5))
}


def test_clades_of_a_number_rise_or_fall_with_it():
    answer = answer_to(regression())
    said = write_clades(answer, table(7, direction="falls", correlation=-0.4))
    assert "genus Dialister (one ASV; falls with it)" in said
    assert "genus Dialister (2 ASVs; falls with it)" in said
    assert "and 2 more" in said
    assert "one in ten" in said
    shown = next(clade_tables(answer, table(7, direction="falls", correlation=-0.4)))
    assert len(shown.rows) == 7
    assert {"0.0004", "3.1 %", "40 %", "-0.40"} <= set(shown.rows[0])


def test_clades_of_classes_are_most_in_one_and_have_intervals_in_all():
    answer = answer_to(classes())
    said = write_clades(answer, table(1, **OF_CLASSES), OTUS)
    assert "(one OTU; most in gut)" in said
    assert "amounts" in said
    shown = next(clade_tables(answer, table(1, **OF_CLASSES), OTUS))
    assert "log-ratio: skin" in shown.header
    assert "-2.0 [-2.5, -1.5]" in shown.rows[0]


@pytest.mark.parametrize("report", [regression, classes])
def test_what_the_answer_loses_without_a_clade_is_in_the_table_and_without_all_in_the_sentence(
    report,
):
    answer = answer_to(report())
    about = OF_CLASSES if answer.kind != "regression" else {"direction": "rises", "correlation": 1}
    measured = {"score": 4.0, "loss": [0.031, 0.2, 0.256], "low": [-0.01, 0.1, 0.125], "high": 0.5}
    losses = pd.DataFrame({"clade": ["seq0", "seq1", float("nan")], **measured})
    said = write_clades(answer, table(2, **about), losses=losses)
    cell = "20.0 % [10.0 %, 50.0 %]" if answer.kind != "regression" else "0.20 years [0.10, 0.50]"
    words = "25.6 % (95 % interval 12.5 % to 50.0 %)"
    if answer.kind == "regression":
        words = "0.26 years (95 % interval 0.12 to 0.50)"
    assert words in said
    assert "all of them" in said
    shown = next(clade_tables(answer, table(2, **about), losses=losses))
    assert cell in shown.rows[1]
    assert "3.1 %" not in shown.rows[1]
    one = losses.iloc[1:2].assign(low=float("nan"), high=float("nan"))
    assert "this clade" in write_clades(answer, table(1, **about), losses=one)
    assert "interval" not in write_clades(answer, table(1, **about), losses=one)


@pytest.mark.parametrize("report", [regression, classes])
def test_networks_pass_the_test_of_a_clade_or_not(report):
    answer = answer_to(report())
    about = OF_CLASSES if answer.kind != "regression" else {"direction": "rises", "correlation": 1}
    measured = {"score": 4.0, "loss": [0.031, 0.2, 0.256], "low": [-0.01, 0.1, 0.125], "high": 0.5}
    tested = {"samples": 320, "p": [0.2, 0.01, float("nan")]}
    losses = pd.DataFrame({"clade": ["seq0", "seq1", float("nan")], **measured, **tested})
    said = write_clades(answer, table(2, **about), losses=losses)
    assert "all of them, the networks' " in said
    assert said.endswith("The networks pass the same test on 1 of 2.")
    shown = next(clade_tables(answer, table(2, **about), losses=losses))
    assert all(len(row) == len(shown.header) for row in shown.rows)
    row = dict(zip(shown.header, shown.rows[1], strict=True))
    cell = "20.0 % [10.0 %, 50.0 %]" if answer.kind != "regression" else "0.20 years [0.10, 0.50]"
    assert (row["p"], row["loss"]) == ("0.0004", "3.1 %")
    assert (row["networks' p"], row["networks' loss"]) == ("0.01", cell)
    assert "of 320 held-out samples" in shown.note


def test_amounts_have_no_draws():
    answer = answer_to(regression())
    rows = {"direction": "falls", "correlation": -0.4}
    assert "draws" in next(clade_tables(answer, table(2, **rows))).header
    shown = next(clade_tables(answer, table(2, **rows, draws=float("nan"))))
    assert "draws" not in shown.header
    assert len(shown.rows[0]) == len(shown.header)


def test_a_clade_without_a_taxon_is_called_by_a_short_id():
    found = table(1, direction="rises", correlation=0.4, clade="ACGT" * 40, taxon=float("nan"))
    assert "…" in write_clades(answer_to(regression()), found)


@pytest.mark.parametrize("report", [regression, classes])
def test_where_nothing_can_be_told_the_page_says_so_and_shows_no_table(report):
    answer = answer_to(report())
    none = table(1).head(0)
    assert f"cannot be told with {answer.units}" in write_clades(answer, none)
    assert [*clade_tables(answer, none)] == []


def test_nothing_is_said_where_nobody_looked_or_nothing_was_learned():
    assert write_clades(answer_to(regression()), None) == ""
    assert [*clade_tables(answer_to(regression()), None)] == []
    stopped = answer_to(regression(networks={"guessing": guessing(9.0, 0.4, 0.7)}))
    found = table(1, direction="rises", correlation=0.4)
    assert write_clades(stopped, found) == ""
    assert [*clade_tables(stopped, found)] == []


def test_of_several_targets_each_has_its_own():
    found = table(2, direction="rises", correlation=0.4).assign(target=["label", "other"])
    answer = answer_to(regression())
    shown = [*clade_tables(answer, found.replace({"label": answer.key.column}))]
    assert len(shown[0].rows) == 1


def test_what_matters_to_networks_is_marked_where_it_lies_in_a_named_clade():
    answer = answer_to(regression())
    importance = pd.DataFrame({"feature-id": ["a", "007", "c"], "importance": [3.0, 2.0, 1.0]})
    features = pd.DataFrame({"feature-id": ["007", "c"], "clade": ["seq0", float("nan")]})
    clades = table(1, direction="rises", correlation=0.4)
    marked = mark_named(answer, importance, clades, features)
    assert marked["named clade"].tolist() == ["", "genus Dialister", ""]
    assert marked["importance"].tolist() == [3.0, 2.0, 1.0]
    per_target = features.rename(columns={"clade": f"clade:{answer.key.column}"})
    of_target = clades.assign(target=answer.key.column)
    assert mark_named(answer, importance, of_target, per_target).equals(marked)
    # Another target's clades mark nothing.
    other = mark_named(answer, importance, clades.assign(target="other"), per_target)
    assert set(other["named clade"]) == {""}
    none = mark_named(answer, importance, clades.iloc[:0], per_target.assign(**{"clade:": np.nan}))
    assert set(none["named clade"]) == {""}


def test_effects_on_predictions_are_shown_by_sample():
    answer = answer_to(classes())
    row = {"sample-id": "01", "predicted": "gut", "clade": "seq0", "taxon": "g__Dialister"}
    effects = pd.DataFrame([row | {"effect": 0.25, "share": 0.1, "share_alike": 0.02}])
    shown = next(effect_tables(answer, "new", effects))
    assert {"01", "gut", "genus Dialister", "+0.25", "10.0 %", "2.0 %"} <= set(shown.rows[0])
    assert [*effect_tables(answer, "new", effects.head(0))] == []
    stopped = answer_to(regression(networks={"guessing": guessing(9.0, 0.4, 0.7)}))
    assert [*effect_tables(stopped, "new", effects)] == []
