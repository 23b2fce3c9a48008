"""Workbooks of Excel: the first sheet is read as it is shown, or one message says why not."""

import datetime
import re
import zipfile

import pytest

from aam.data.importing.metadata import load_metadata
from aam.data.importing.table import load_table
from aam.data.importing.taxonomy import load_taxonomy
from aam.util.errors import InputError

openpyxl = pytest.importorskip("openpyxl")
ROWS = [["OTU", "00123", "1e5", 7], ["a", 5, 0, 2.0], [' b;"c" ', 1e5, 3, 4]]


@pytest.fixture
def write(tmp_path):
    """Return a function that writes sheets, and returns the path of the workbook."""

    def write(*sheets, change=lambda book: None):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for number, rows in enumerate(sheets):
            sheet = book.create_sheet(f"sheet {number}")
            for row in rows:
                sheet.append(row)
        change(book)
        book.save(tmp_path / "table.xlsx")
        return tmp_path / "table.xlsx"

    return write


def test_the_first_sheet_is_the_table_and_ids_stay_text(write, caplog):
    table = load_table(write(ROWS, [["nothing"]]))
    assert table.sample_ids == ["00123", "1e5", "7"]
    assert table.feature_ids == ["a", 'b;"c"']
    assert table.counts.toarray().tolist() == [[5, 100_000], [0, 3], [2, 4]]
    assert "'sheet 0'" in caplog.text
    assert "'sheet 1'" in caplog.text


def test_zeros_that_a_format_shows_are_part_of_the_id(write):
    def change(book):
        book.active["B1"].number_format = "00000"
        book.active["B1"].value = 123

    assert load_table(write(ROWS, change=change)).sample_ids[0] == "00123"


def test_formulas_that_nothing_has_calculated_are_refused(write):
    """Programs such as R's openxlsx write formulas alone: their cells would be empty labels."""
    path = write([["sample-id", "age"], ["1", "=2020-1980"], ["2", 31]])
    with pytest.raises(InputError, match=r"=2020-1980 in cell B2.*save it"):
        load_metadata(path, ["1", "2"])


@pytest.mark.parametrize(
    ("formula", "kept", "expected"),
    [
        ("2020-1980", '<c r="B2"><f>2020-1980</f><v>40</v></c>', "40"),
        # A text without letters is a value, too.
        ('IF(1=1,"","old")', '<c r="B2" t="str"><f>IF(1=1,"","old")</f><v></v></c>', None),
    ],
)
def test_formulas_are_read_as_their_last_values(write, formula, kept, expected):
    path = write([["sample-id", "age"], ["1", f"={formula}"], ["2", 31]])
    # openpyxl calculates nothing; spreadsheet programs keep the value next to the formula.
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    changed = re.sub(r'<c r="B2".*?</c>', kept, members[sheet])
    assert changed != members[sheet]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, changed if name == sheet else content)
    assert load_metadata(path, ["1", "2"])["age"].tolist() == [expected, "31"]


def test_metadata_and_taxonomy_may_be_workbooks(write):
    day = datetime.datetime(2020, 3, 1)
    path = write(
        [
            ["sample-id", "day", "ok", "note"],
            ["1", day, True, "two\nlines"],
            ["2", None, False, "NA"],
        ]
    )
    frame = load_metadata(path)
    assert frame["day"].tolist() == ["2020-03-01", None]
    assert frame["note"].tolist() == ["two lines", None]
    assert load_taxonomy(write([["Feature ID", "Taxon"], ["a", "k__B; p__A"]])) == {
        "a": "k__B; p__A"
    }


def test_ids_that_became_dates_are_named_with_their_cells(write):
    rows = [["OTU", datetime.datetime(2020, 2, 1), "b"], ["x", 1, 2]]
    with pytest.raises(InputError, match=r"2020-02-01 in cell B1.*format these cells as text"):
        load_table(write(rows))


@pytest.mark.parametrize("share", [0.3, 0.7, 0.98])
def test_a_workbook_that_is_cut_off_is_named(write, share):
    path = write(ROWS)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"table\.xlsx: got a damaged Excel workbook"):
        load_table(path)


@pytest.mark.parametrize("stream", ["EncryptedPackage", "Workbook"])
def test_passwords_and_old_workbooks_are_told_apart(tmp_path, stream):
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 500 + stream.encode("utf-16-le"))
    with pytest.raises(InputError, match="password" if stream[0] == "E" else r"\(\.xls\)"):
        load_table(path)


def test_a_workbook_that_claims_much_or_is_empty_is_refused(write, tmp_path):
    with pytest.raises(InputError, match="empty sheet 'sheet 0'"):
        load_table(write([[]]))
    path = write(ROWS)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/zeros", b"\0" * (2**26 + 2**25))
    with pytest.raises(InputError, match="bytes"):
        load_table(path)
