import pytest

from aam.data.importing.metadata import load_metadata
from aam.data.metadata import read_metadata, write_metadata
from aam.util.errors import InputError


def sheet(tmp_path, text):
    path = tmp_path / "metadata.tsv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "header",
    [
        "id", "ID", "sampleid", "SampleID", "sample id", "Sample-ID", "sample_id", "sample_name",
        "feature-id", "featureid", "#SampleID", "#Sample ID", "#OTU ID", "#OTUID",
    ],
)  # fmt: skip
def test_every_id_header_is_known(tmp_path, header):
    frame = load_metadata(sheet(tmp_path, f"# words\n\n{header}\tage\n0001\t007\n#no\t1\n"))
    assert list(frame.index) == ["0001"]
    assert frame.loc["0001", "age"] == "007"
    assert load_metadata(sheet(tmp_path, f"{header}\n1\n2\n")).shape == (2, 0)


def test_a_file_as_spreadsheets_leave_it(tmp_path):
    text = (
        '\ufeffSampleID\tage\t "body site" \tnote\t\t\r\n'
        "#q2:types\tNumeric\tcategorical\t\r\n"
        "# a comment\tx\r\n"
        ' s1 \t 1.5 \t gut\t"said ""yes"""\t\t\r\n'
        "\t\t\t\r\n"
        "s2\t\t  \r\n"
    )
    frame = load_metadata(sheet(tmp_path, text.replace(' "body site" ', "body site")))
    assert list(frame.columns) == ["age", "body site", "note"]
    assert frame.loc["s1"].tolist() == ["1.5", "gut", 'said "yes"']
    assert frame.loc["s2"].tolist() == [None, None, None]
    assert frame.attrs["q2:types"] == {"age": "numeric", "body site": "categorical"}


def test_missing_terms_count_where_the_file_says_so(tmp_path):
    text = "id\ta\tb\n#q2:missing\tINSDC:missing\tblank\nx\tnot collected\tnot collected\n"
    frame = load_metadata(sheet(tmp_path, text))
    assert frame.loc["x"].tolist() == [None, "not collected"]


def test_all_problems_of_a_file_are_named_at_once(tmp_path):
    path = sheet(
        tmp_path,
        "id\ta\ta\t\tsample_id\n#q2:types\tnumber\n#q2:colour\tred\n"
        "x\t1\nx\t2\n\t3\nlong\t1\t2\t3\t4\t5\n",
    )
    with pytest.raises(InputError) as caught:
        load_metadata(path)
    text = str(caught.value)
    for message in (
        "columns without a name: 1 (4)",
        "second column called 'sample_id'",
        "column names that occur more than once: 1 (a)",
        "sample IDs that occur more than once: 1 (x)",
        "rows without a sample ID: 1",
        "header's 5 in rows 1 (long)",
        "directives 1 (#q2:colour)",
        "column types 1 (number)",
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
        ("id\tage\n#q2:types\tnumeric\nx\told\ny\tnan\n", r"'age' of type numeric.*2 \(old, nan\)"),
        ("id\tage\n#q2:missing\tspaces\nx\t1\n", r"schemes 1 \(spaces\)"),
        ('id\tage\nx\t"a"b\n', "cannot be split into cells \\(line 2"),
        ("PK\x03\x04", "a zip archive.*xlsx"),
        ("", "an empty file"),
        ("id\tplace\nx\tKöln\n", "not UTF-8.*save it as UTF-8"),
    ],
)
def test_unreadable_files(tmp_path, text, message):
    path = sheet(tmp_path, text)
    path.write_bytes(text.encode("utf-16" if "ö" in text else "utf-8"))
    with pytest.raises(InputError, match=message) as caught:
        load_metadata(path)
    assert str(caught.value).startswith(f"{path}: got ")


def test_own_file_keeps_strings_types_and_bytes(tmp_path):
    frame = load_metadata(
        sheet(tmp_path, "id\tage\tsite\n#q2:types\tnumeric\n01\t07\t\n2\t\tgut\n")
    )
    for name in ("a.parquet", "b.parquet"):
        write_metadata(tmp_path / name, frame, {"aam.version": "1"})
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    again = read_metadata(tmp_path / "a.parquet")
    assert list(again.index) == ["01", "2"]
    assert again["age"].tolist() == ["07", None]
    assert again["site"].tolist() == [None, "gut"]
    assert again.attrs["q2:types"] == {"age": "numeric"}
