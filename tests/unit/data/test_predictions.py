"""Names in tables of predictions: their order, sets of them, and files that are read again."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.data.predictions import (
    class_names,
    class_order,
    join_classes,
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
