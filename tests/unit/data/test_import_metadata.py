import pyarrow.parquet as pq
import pytest

from aam.data.importing.metadata import load_metadata
from aam.data.metadata import read_metadata, write_metadata
from aam.util.errors import InputError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metadata.tsv"


def loaded(path, text):
    path.write_bytes(text.encode())
    return load_metadata(path)


@pytest.mark.parametrize(
    "header",
    [
        "id", "ID", "sampleid", "SampleID", "sample id", "Sample-ID", "sample_id", "sample_name",
        "feature-id", "featureid", "#SampleID", "#Sample ID", "#OTU ID", "#OTUID",
    ],
)  # fmt: skip
def test_every_id_header_is_known(path, header):
    frame = loaded(path, f"# words\n\n{header}\tage\n0001\t007\n#no\t1\n")
    assert frame["age"].to_dict() == {"0001": "007"}
    assert loaded(path, f"{header}\n1\n2\n").shape == (2, 0)


def test_a_file_as_spreadsheets_leave_it_is_kept_in_our_own(path, tmp_path):
    text = (
        "\ufeffSampleID\tage\tbody site\tnote\t\t\r\n"
        "#q2:types\tNumeric\tcategorical\t\r\n"
        "#q2:missing\tblank\tINSDC:missing\tblank\r\n"
        "# a comment\tx\r\n"
        ' 01 \t 07 \t gut\t"said ""yes"""\t\t\r\n'
        "\t\t\t\r\n"
        "2\t\tnot collected\tnot collected  \r\n"
    )
    frame = loaded(path, text)
    for name in ("a", "b"):
        write_metadata(tmp_path / name, frame, {"aam.version": "1"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    for found in (frame, read_metadata(tmp_path / "a")):
        assert list(found.columns) == ["age", "body site", "note"]
        assert found.loc["01"].tolist() == ["07", "gut", 'said "yes"']
        assert found.loc["2"].isna().tolist() == [True, True, False]
        assert found.loc["2", "note"] == "not collected"
    assert frame.attrs["q2:types"] == {"age": "numeric", "body site": "categorical"}
    stored = pq.read_schema(tmp_path / "a")
    types = [{b"q2:type": b"numeric"}, {b"q2:type": b"categorical"}, None]
    assert [stored.field(name).metadata for name in frame.columns] == types


MISSING = ["NA", "n/a", "nan", "Missing: Not provided", "missing: control sample"]
MISSING += ["Not Applicable", "not collected", "restricted access"]


@pytest.mark.parametrize("cell", [*MISSING, "None", "unknown", "missing teeth", "Namibia"])
def test_words_for_missing_values_are_no_class_and_are_told(path, caplog, cell):
    header = "id\tsite\tkept\n#q2:missing\t\tblank\n"
    frame = loaded(path, f"{header}a\tgut\t{cell}\nb\t{cell}\t{cell}\n")
    assert frame.loc["b", "site"] == (None if cell in MISSING else cell)
    assert frame["kept"].tolist() == [cell, cell]
    told = f"read as missing: {cell!r} in 1 cell;" in caplog.text
    assert told == (cell in MISSING)


def test_all_problems_of_a_file_are_named_at_once(path):
    with pytest.raises(InputError) as caught:
        loaded(
            path,
            "id\ta\ta\t\tsample_id\n#q2:types\tnumber\n#q2:missing\tspaces\n#q2:colour\tred\n"
            "x\t1\nx\t2\n\t3\nlong\t1\t2\t3\t4\t5\n",
        )
    text = str(caught.value)
    for message in (
        "columns without a name: 4",
        "second column called 'sample_id'",
        "column names that occur more than once: 'a'",
        "sample IDs that occur more than once: 'x'",
        "rows without a sample ID: 1",
        "rows with more cells than the header's 5: 'long'",
        "unknown directives: '#q2:colour'",
        "got column type 'number' in #q2:types",
        "got scheme 'spaces' in",
    ):
        assert message in text
    assert all(line.startswith(str(path)) and "Hint: " in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name\tage\nx\t1\n", "begins with 'name'.*rename the first column"),
        ("sample-id,age\nx,1\n", "save it tab-separated"),
        ("# only\n# comments\n", "begins with ''"),
        ("id\tage\n", "no samples below the header"),
        (
            "id\tage\n#q2:types\tnumeric\nx\told\ny\t9th\n",
            r"'age' of type num.*values 'old', '9th'",
        ),
        ('id\tage\nx\t"a"b\n', "cannot be split into cells \\(line 2"),
        ('id\tsite\na\tgut\nb\t"gut\rskin"\n', r"line breaks in cells of 'b'"),
        ('id\t"body\nsite"\na\tgut\n', r"line breaks in the column names 'body\\nsite'"),
        ("id" + "\ta" * 10_000 + "\nx\n", "got 10001 columns; expected at most 10000"),
        ("PK\x03\x04", "a damaged archive.*download or export it again"),
    ],
)
def test_unreadable_files(path, text, message):
    with pytest.raises(InputError, match=message):
        loaded(path, text)
