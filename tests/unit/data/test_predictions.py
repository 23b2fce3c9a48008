"""Names in tables of predictions: their order, sets of them, and files that are read again."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.data.predictions import (
    by_baseline,
    by_target,
    class_codes,
    class_names,
    class_order,
    class_probabilities,
    join_classes,
    mean_recall,
    numbers,
    read_predictions,
    read_results,
    split_classes,
    write_predictions,
)

CLASSES = st.lists(st.text(st.sampled_from("ab|\\ \n\"'"), min_size=1, max_size=4), min_size=1)
ODD = ["NA", "None", "null", "nan", "inf", "True", "-", "01", "1.0", "1e5", "a|b", '"x"', "<b>"]


@given(CLASSES)
def test_a_set_of_classes_is_read_as_it_was_written(names):
    assert split_classes(join_classes(names)) == names


def test_plain_names_of_a_set_stand_between_bars():
    assert join_classes(["gut", "skin"]) == "gut|skin"
    assert join_classes(["a|b", "c\\"]) == r"a\|b|c\\"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["10", "2", "1", "2"], ["1", "2", "10"]),
        (["2.0", "1e1", "-3"], ["-3", "2.0", "1e1"]),
        (["1", "01", "1.0"], ["01", "1", "1.0"]),
        (["10", "2", "x"], ["10", "2", "x"]),
        (["skin", "gut"], ["gut", "skin"]),
        (["nan", "1"], ["1", "nan"]),
    ],
)
def test_classes_are_sorted_by_number_where_all_are_numbers(names, expected):
    assert class_order(names) == expected


@pytest.mark.parametrize("read", [read_predictions, read_results])
@pytest.mark.parametrize("odd", ODD)
def test_names_stay_what_they_are_in_a_file(tmp_path: Path, read, odd):
    path = tmp_path / "predictions.tsv"
    columns = {name: [odd, odd] for name in ("sample-id", "target", "observed", "predicted")}
    columns |= {"likeliest": [odd, odd], "prediction_set": [join_classes([odd])] * 2}
    table = pd.DataFrame({**columns, "fold": [0, 1], f"probability:{odd}": [0.25, 1.0]})
    write_predictions(path, table)
    pd.testing.assert_frame_equal(read(path), table, check_dtype=False)
    assert class_names(read(path)) == [odd]


def test_a_mean_recall_is_the_mean_over_the_classes_that_occur():
    truth = np.array(["a", "a", "a", "b", "c"])
    guess = np.array(["a", "a", "b", "b", "d"])
    assert mean_recall(truth, guess) == pytest.approx((2 / 3 + 1 + 0) / 3)


def test_codes_and_numbers_are_read_from_text_and_numbers_alike():
    assert class_codes([2, 1, 2], ["2", "1"]).tolist() == [0, 1, 0]
    assert numbers(pd.Series(["1", "2.5"])).tolist() == [1.0, 2.5]


def test_probabilities_are_in_the_order_of_the_classes_that_are_asked_for():
    table = pd.DataFrame({"probability:a": [0.2, 0.9], "x": 0, "probability:b": [0.8, 0.1]})
    assert class_probabilities(table, ["b", "a"]).tolist() == [[0.8, 0.2], [0.1, 0.9]]
    assert class_names(table) == ["a", "b"]
    assert class_names(table[["x"]]) == []


def test_tables_are_divided_by_baseline_and_target_in_the_order_of_appearance():
    table = pd.DataFrame({"baseline": list("zaza"), "target": list("yyxx"), "n": range(4)})
    parts = by_baseline(table)
    assert {name: [*targets] for name, targets in parts.items()} == {
        "z": ["y", "x"],
        "a": ["y", "x"],
    }
    assert list(parts) == ["z", "a"]
    assert parts["a"]["x"].to_dict("list") == {"n": [3]}


def test_a_table_of_one_target_is_not_divided():
    whole = pd.DataFrame({"n": range(4)})
    assert by_target(whole).keys() == {""}
    assert by_target(whole)[""] is whole


def test_a_file_of_numbers_has_quantiles_and_folds_as_numbers(tmp_path):
    path = tmp_path / "predictions.tsv"
    columns = {
        "sample-id": ["01"],
        "fold": [-1],
        "observed": [0.1234567891234],
        "quantile:0.05": [2.5],
    }
    write_predictions(path, pd.DataFrame(columns))
    table = read_predictions(path)
    assert table["sample-id"].tolist() == ["01"]
    assert table["observed"].tolist() == ["0.123456789"]
    assert (table["fold"].tolist(), table["quantile:0.05"].tolist()) == ([-1], [2.5])


def test_results_of_numbers_are_numbers_and_may_be_missing(tmp_path):
    path = tmp_path / "results.tsv"
    path.write_text("sample-id\tfold\tobserved\tpredicted\n01\t0\t07\t\n")
    results = read_results(path)
    assert results["sample-id"].tolist() == ["01"]
    assert results["observed"].tolist() == [7]
    assert results["predicted"].isna().all()


def test_codes_of_classes_stay_text_where_nothing_says_what_they_are(tmp_path):
    """The samples of a figure of clades, and the effects of clades, have no folds."""
    path = tmp_path / "results.tsv"
    path.write_text("sample-id\tobserved\tpredicted\na\t01\t1.5\nb\t12\t-2e-05\n")
    results = read_results(path)
    assert results["observed"].tolist() == ["01", "12"]
    assert results["predicted"].tolist() == [1.5, -2e-05]


def test_names_of_results_are_text_whatever_they_look_like(tmp_path):
    path = tmp_path / "results.tsv"
    path.write_text("sample-id\tobserved\tprobability:07\nNA\t07\t1\n")
    classes = read_results(path)
    assert (classes["sample-id"].tolist(), classes["observed"].tolist()) == (["NA"], ["07"])
    path.write_text("clade\trepresentative\tdirection\n12\t01\t1\n")
    clades = read_results(path)
    assert clades.iloc[0].tolist() == ["12", "01", "1"]
    path.write_text("feature-id\tdirection\n01\t0.5\n")
    assert read_results(path)["direction"].tolist() == [0.5]


def test_clades_of_several_targets_stay_text(tmp_path):
    path = tmp_path / "features.tsv"
    path.write_text("feature-id\tclade:age\tclade:site\nNA\tNA\t4479944\n07\t\t4479944\n")
    features = read_results(path)
    assert features["feature-id"].tolist() == ["NA", "07"]
    assert features["clade:site"].tolist() == ["4479944"] * 2
    assert features["clade:age"].tolist()[0] == "NA"
    assert features["clade:age"].isna().tolist() == [False, True]
