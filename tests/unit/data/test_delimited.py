import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.data.importing.delimited import (
    find_separator,
    lacks_first_name,
    numbers_rows,
    split_line,
    trim,
)

CELLS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1).filter(
    # Such a cell loses its quotes: R and spreadsheets put them around names.
    lambda cell: not cell.startswith('"')
)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=4), st.data())
def test_cells_that_a_csv_writer_writes_are_read_again(rows, data):
    separator = data.draw(st.sampled_from("\t,;"))
    with io.StringIO() as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows(rows)
        lines = file.getvalue().split("\n")[:-1]
    found = [split_line(line, separator) for line in lines]
    assert found == rows


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("#OTU ID\ta,b\nx\t1,2", "\t"),
        ("id,a,b\nx,1,2", ","),
        ("id;a;b\nx;1,5;2,5", ";"),
        ('"a" "b"\n"x y" 1 2\n"z" 3 4', " "),
        ("a\nx\t1\ny\t2", "\t"),
        ('id,a,tax\nx,1,"k__A; p__B"\ny,2,"k__C; p__D"', ","),
        ("Dear reader,\nthis is a letter.", None),
        ("a,b;c\nx,1;2", None),
        ("id,a\nx,1,2,3", None),
        ('id,a\n"x,1', None),
        ("id,a", None),
        ("", None),
    ],
)
def test_a_separator_is_one_that_splits_all_lines_alike(text, separator):
    assert find_separator(text.split("\n")) == separator


def test_quotes_around_cells_are_none_of_their_text():
    assert split_line('"a b"\t "say ""x""" \t""', "\t") == ["a b", 'say "x"', ""]
    lineage = '"Bacteria";"Firmicutes"'
    assert split_line(f"x\t1\t{lineage}", "\t") == ["x", "1", lineage]
    for line, separator in (('x\t"1\t2', "\t"), ('x,"a"b,2', ","), ('"x,1', ",")):
        with pytest.raises(ValueError, match="double quote"):
            split_line(line, separator)


@pytest.mark.parametrize(
    ("header", "rows", "lacks"),
    [
        (["a", "b"], [["x", "1", "2"], ["y", "3", ""]], True),
        # A tab at the end of each row.
        (["id", "b"], [["x", "1", ""], ["y", "3", ""]], False),
        (["a", "b"], [["x", "1", "2"], ["y", "3"]], False),
        (["a"], [], False),
    ],
)
def test_a_header_that_lacks_a_name_has_one_fewer_than_every_row(header, rows, lacks):
    assert lacks_first_name(header, rows) is lacks


def test_rows_are_numbered_from_one_or_from_zero():
    assert numbers_rows(["1", "2", "3"])
    assert numbers_rows(["0", "1"])
    assert not any(map(numbers_rows, (["1", "3"], ["2", "3"], ["01", "02"], ["1", "1"], [])))


def test_empty_cells_at_the_end_of_a_line_are_trimmed():
    assert trim(["", "a", "", "b", "", ""]) == ["", "a", "", "b"]
    assert trim(["", ""]) == []
