import csv

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.data.importing.metadata import load_metadata, metadata_of
from aam.data.metadata import declared_type, metadata_column, read_metadata, write_metadata
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
        "feature-id", "featureid", "#SampleID", "#Sample ID", "#OTU ID", "#OTUID", "#sampleid",
        "#SAMPLEID", "#Sample-ID", "#NAME", "Sample_ID", "Sample ID", "sample name", "Sample.Name",
        "Sample", "Run", "run_accession", "X.SampleID", '""', "", "Unnamed: 0", "X", "row.names",
        "\u200bSampleID", "Sample\xa0ID", '"SampleID"', "SampleID ",
    ],
)  # fmt: skip
def test_every_id_header_is_known(path, header):
    frame = loaded(path, f"# words\n\n{header}\tage\n0001\t007\n#no\t1\n")
    assert frame["age"].to_dict() == {"0001": "007"}
    if header.strip('"'):
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
        "column called 'sample_id' with other values than the IDs",
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
        ("name\tage\nx\t1\n", "begins with 'name'.*call it 'sample-id'"),
        (
            "age\tsite\nx\t25\t\ny\t31\t\n",
            "2 names above rows of 3 cells, the last of which are empty; .*in front of 'age'",
        ),
        ("sample-id,age\nx,1,2,3\n", "save it as tab-separated text"),
        ("# only\n# comments\n", "nothing but comments"),
        (
            "SampleID\tage\nx\tgut\t1\ny\tskin\t2\n",
            "header that lacks one name: 2 names above rows of 3 cells, which begin with 'x', 'y' "
            "and go on with 'gut', 'skin'",
        ),
        ("id\tage\n#q2:types\tnumeric\tnumeric\nx\t1\n", "more cells than the header's 2.*types"),
        ("id\tage\n", "no samples below the header"),
        (
            "id\tage\n#q2:types\tnumeric\nx\told\ny\t9th\n",
            r"'age' of type num.*values 'old', '9th'",
        ),
        ('id\tage\nx\t"a"b\n', "cannot be split into cells \\(line 2"),
        ('id\tsite\n"a\nb"\tgut\n', r"sample IDs with line breaks: 'a\\nb'"),
        ("id" + "\ta" * 10_000 + "\nx\n", "got 10001 columns; expected at most 10000"),
        ("PK\x03\x04", "a damaged archive.*download or export it again"),
    ],
)
def test_unreadable_files(path, text, message):
    with pytest.raises(InputError, match=message):
        loaded(path, text)


AGES = {f"s{number}": str(20 + number) for number in range(15)}


def column_with(path, cells, types=""):
    """Return what is read of a column of ages and further cells."""
    given = [*AGES.values(), *cells]
    rows = "".join(f"s{number}\t{cell}\n" for number, cell in enumerate(given))
    return loaded(path, f"id\tage\n{types}{rows}")["age"].tolist()[len(AGES) :]


@pytest.mark.parametrize(
    "word",
    [
        "unknown", "Unknown", "UNK", "?", ".", "-", "--", "ND", "n.d.", "None", "not determined",
        "n.a.", "\N{EN DASH}", "not reported",
    ],
)  # fmt: skip
def test_a_word_among_numbers_is_missing_and_told(path, caplog, word):
    assert column_with(path, [word, "90", word]) == [None, "90", None]
    assert f"read as missing among numbers: {word!r} in 2 cells of 'age'" in caplog.text
    caplog.clear()
    kept = column_with(path, [word, "90"], "#q2:types\tcategorical\n")
    assert kept == [word, "90"], "the declared type decides"
    assert word not in caplog.text
    given = loaded(path, f"id\tsite\na\tgut\nb\t{word}\nc\tskin\n")
    assert given["site"].tolist() == ["gut", word, "skin"], "among classes it may be one"


@pytest.mark.parametrize("word", ["none", "90+", "<1", ">60", "no", "high", "12 years"])
def test_what_may_be_a_value_is_kept_among_numbers(path, word):
    assert column_with(path, [word, "unknown"]) == [word, None]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["0", "1", "1", "unknown", "-"], ["0", "1", "1", None, "-"]),
        (["0", "1", "1", "unknown", "?"], ["0", "1", "1", None, None]),
        (["0", "10", "50", "none", "ND"], ["0", "10", "50", "none", "ND"]),
        (["01", "02", "unknown"], ["01", "02", "unknown"]),
        (["+", "-", "+"], ["+", "-", "+"]),
    ],
)
def test_a_mark_among_a_few_codes_is_one_of_them(path, cells, expected):
    rows = "".join(f"s{number}\t{cell}\n" for number, cell in enumerate(cells))
    assert loaded(path, f"id\tcode\n{rows}")["code"].tolist() == expected


WORDS = ["#N/A", "#VALUE!", "#REF!", "#DIV/0!", "<NA>", "NaT", "not available", "LabControl test"]


@pytest.mark.parametrize("word", [*WORDS, "missing : lost", "Not applicable: control"])
def test_errors_of_spreadsheets_and_words_of_archives_are_missing_everywhere(path, caplog, word):
    found = loaded(path, f"id\tsite\na\tgut\nb\t{word}\nc\tskin\n")["site"].tolist()
    assert found == ["gut", None, "skin"]
    assert f"read as missing: {word!r} in 1 cell" in caplog.text


@pytest.mark.parametrize(
    ("cells", "expected", "message"),
    [
        (["0", "0.0", "1", "1.0"], ["0", "0", "1", "1"], "joined in 'x' ('0.0' as '0')"),
        (
            ["TRUE", "True", "false", "TRUE"],
            ["TRUE", "TRUE", "false", "TRUE"],
            "('True' as 'TRUE')",
        ),
        (["1.1", "1.10", "2"], ["1.1", "1.10", "2"], "kept apart in 'x' ('1.1' and '1.10')"),
        (["Male", "male", "f"], ["Male", "male", "f"], "kept apart in 'x' ('Male' and 'male')"),
        (["a b", "a_b", "c"], ["a b", "a_b", "c"], "kept apart in 'x' ('a b' and 'a_b')"),
        (["yes", "Y", "no"], ["yes", "Y", "no"], "kept apart in 'x' ('Y' and 'yes')"),
        (["Gr\u00f6n", "Gro\u0308n", "x"], ["Gr\u00f6n", "Gr\u00f6n", "x"], "were read as one"),
        (["a\u00a0b", "a b", "x"], ["a b", "a b", "x"], "were read as one"),
        (["yes", "yes ", "no"], ["yes", "yes", "no"], ""),
        (["01", "1", "2"], ["01", "1", "2"], "kept apart in 'x' ('01' and '1')"),
    ],
)
def test_spellings_of_one_value_are_joined_where_that_is_certain(
    path, caplog, cells, expected, message
):
    rows = "".join(f"s{number}\t{cell}\n" for number, cell in enumerate(cells))
    assert loaded(path, f"id\tx\n{rows}")["x"].tolist() == expected
    assert message in caplog.text
    assert bool(caplog.text) == bool(message)


def test_declared_classes_keep_their_spelling(path, caplog):
    text = "id\tx\n#q2:types\tcategorical\na\t0\nb\t0.0\nc\t1\n"
    assert loaded(path, text)["x"].tolist() == ["0", "0.0", "1"]
    assert "kept apart in 'x' ('0' and '0.0')" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "#q2:types\tcategorical\tnumeric\nsample-id\tsite\tdose\n01\t03\t0\n02\t04\t1\n",
        "# made by hand\n#SampleID\tsite\tdose\n# a comment\n#Q2:TYPES\tCategorical\tNUMERIC\n"
        "01\t03\t0\n02\t04\t1\n",
        "sample-id\tsite\tdose\nq2:types\tcategorical\tnumeric\n01\t03\t0\n02\t04\t1\n",
        "sample-id\tsite\tdose\nX.q2.types\tcategorical\tnumeric\n01\t03\t0\n02\t04\t1\n",
        "sample-id,site,dose\n#q2:types,categorical,numeric\n01,03,0\n02,04,1\n",
    ],
)
def test_declared_types_are_found_and_kept_on_the_way_to_a_task(path, tmp_path, text):
    path.write_text(text)
    imported = metadata_of(path, ["02", "01", "03"])
    assert imported["site"].tolist()[:2] == ["04", "03"]
    write_metadata(tmp_path / "a", imported, {})
    of_task = read_metadata(tmp_path / "a").loc[["01", "02"]]
    kinds = [declared_type(of_task[name]) for name in ("site", "dose")]
    assert kinds == ["categorical", "numeric"]


def test_fewer_types_than_columns_are_those_of_the_first(path):
    frame = loaded(path, "id\ta\tb\n#q2:types\tcategorical\nx\t1\t2\n")
    assert frame.attrs["q2:types"] == {"a": "categorical"}


TIDY = {"s1": ["gut", "12"], "s2": ["skin", "13"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample-id,site,age\ns1,gut,12\ns2,skin,13\n", "text that commas separate"),
        ("#SampleID;site;age\ns1;gut;12\ns2;skin;13\n", "text that semicolons separate"),
        ('"","site","age"\n"s1","gut",12\n"s2","skin",13\n', "text that commas separate"),
        ('"site" "age"\n"s1" "gut" 12\n"s2" "skin" 13\n', "one name fewer"),
        ('"site"\t"age"\n"s1"\t"gut"\t12\n"s2"\t"skin"\t13\n', "one name fewer"),
        (
            '"SampleID"\t"site"\t"age"\n"1"\t"s1"\t"gut"\t12\n"2"\t"s2"\t"skin"\t13\n',
            "names of the rows, '1', '2', were left out",
        ),
        (
            '"SampleID"\t"site"\t"age"\n"s1"\t"s1"\t"gut"\t12\n"s2"\t"s2"\t"skin"\t13\n',
            "names of the rows, 's1', 's2', were left out",
        ),
        ("\tsample_name\tsite\tage\n0\ts1\tgut\t12\n1\ts2\tskin\t13\n", "is numbered"),
        ("\tsite\tage\ns1\tgut\t12\ns2\tskin\t13\n", ""),
        ("Unnamed: 0\tsite\tage\ns1\tgut\t12\n\t\t\ns2\tskin\t13\n", ""),
        ("sample-id\tsite\tage\t\t\ns1\tgut\t12\t\t\ns2 \tskin\t13\t\t\n", ""),
    ],
)
def test_what_spreadsheets_r_and_pandas_write_is_read_right(path, caplog, text, message):
    frame = loaded(path, text)
    assert dict(zip(frame.index, frame.to_numpy().tolist(), strict=True)) == TIDY
    assert list(frame.columns) == ["site", "age"]
    assert message in caplog.text
    assert bool(caplog.text) == bool(message), "what is decided is told"


def test_a_column_of_the_tables_ids_is_found_whatever_it_is_called(path, caplog):
    path.write_text("subject\tbarcode of tube\tage\np1\tt1\t5\np1\tt2\t6\np2\tt3\t7\n")
    with pytest.raises(InputError, match="begins with 'subject'"):
        load_metadata(path)
    frame = metadata_of(path, ["t3", "t1"])
    assert frame["subject"].tolist() == ["p2", "p1"]
    assert list(frame.columns) == ["subject", "age"]
    assert "IDs were taken from the column 'barcode of tube'" in caplog.text
    caplog.clear()
    path.write_text("Name\tage\nt1\t5\nt2\t6\n")
    assert metadata_of(path, ["t1"])["age"].tolist() == ["5"]
    assert "the first column, 'Name', was taken for the sample IDs" in caplog.text
    caplog.clear()
    path.write_text("#SampleID\trun_accession\tage\nmy1\tERR1\t5\nmy2\tERR2\t6\n")
    assert metadata_of(path, ["ERR2", "ERR1"])["#SampleID"].tolist() == ["my2", "my1"]
    assert "as the first one, '#SampleID', has none of them" in caplog.text


def test_a_file_without_a_header_is_named_as_one(path):
    path.write_text("t1\t5\nt2\t6\n")
    with pytest.raises(InputError, match="no header: the first line begins with 't1', which is a"):
        metadata_of(path, ["t1", "t2"])


def test_words_in_a_column_that_is_declared_numeric_are_missing_and_no_others(path):
    text = "id\tage\n#q2:types\tnumeric\na\t1\nb\tunknown\nc\t-\n"
    assert loaded(path, text)["age"].tolist() == ["1", None, None]
    with pytest.raises(InputError, match="of type numeric with the values '90\\+'; expected"):
        loaded(path, text + "d\t90+\n")


@pytest.mark.parametrize("separator", ["\t", ",", ";"])
def test_quotes_that_join_lines_of_samples_are_refused(path, separator):
    """Otherwise S3 had the age of S4, and S4 had no row."""
    rows = [("id", "note", "site", "age"), ("S1", "ok", "gut", "1"), ("S2", "fine", "gut", "2")]
    rows += [("S3", '"soft', "gut", "3"), ("S4", 'small 3"', "skin", "4"), ("S5", "", "skin", "5")]
    path.write_text("".join(separator.join(row) + "\n" for row in rows))
    refused = "a quote in the row of '.*' that goes on over several lines"
    names = [f"S{number}" for number in range(1, 6)]
    with pytest.raises(InputError, match=refused):
        load_metadata(path, names)
    # The IDs may be in another column.
    rows = [("subject" if row[0] == "id" else f"p{row[0]}", *row) for row in rows]
    path.write_text("".join(separator.join(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=refused):
        load_metadata(path, names)


def test_a_cell_may_have_lines_that_begin_as_ids_do(path):
    path.write_text('id\tnote\tage\n1\t"drugs:\n1, aspirin\n2, none"\t30\n2\tnone\t31\n')
    assert load_metadata(path, ["1", "2"])["age"].tolist() == ["30", "31"]


def test_the_types_move_with_the_column_of_ids(path):
    path.write_text("subject\ttube\tage\n#q2:types\tcategorical\tnumeric\np1\tt1\t5\np1\tt2\t6\n")
    types = metadata_of(path, ["t1"]).attrs["q2:types"]
    assert types == {"age": "numeric"}


def test_cells_of_several_lines_and_quotes_of_r_are_read(path, caplog):
    frame = loaded(
        path,
        'id,"body\nsite",note\n"a",gut,"two\r\nlines"\nb,skin,"say ""yes"", please"\n',
    )
    assert list(frame.columns) == ["body site", "note"]
    assert frame["note"].tolist() == ["two lines", 'say "yes", please']
    assert "line breaks in 1 cell were read as spaces" in caplog.text
    frame = loaded(path, 'id\tnote\n"a"\t"say \\"yes\\""\n"b"\t"no"\n')
    assert frame["note"].tolist() == ['say "yes"', "no"]


def test_excels_unicode_text_and_ids_that_it_changed(path, caplog):
    path.write_bytes("SampleID\tsite\r\n1E+05\tgut\r\n1-Mar\tskin\r\n".encode("utf-16"))
    assert list(load_metadata(path).index) == ["1E+05", "1-Mar"]
    assert "a spreadsheet had changed them: 2 IDs ('1E+05', '1-Mar')" in caplog.text
    caplog.clear()
    metadata_of(path, ["1E+05", "1-Mar"])
    assert not caplog.text, "the table has them, too"


def test_a_second_column_of_the_same_ids_is_left_out_and_near_names_are_told(path, caplog):
    frame = loaded(path, "#SampleID\tAge\tsample_id\tage\na\t1\ta\t2\nb\t3\tb\t4\n")
    assert list(frame.columns) == ["Age", "age"]
    assert "names that look like one: 'Age' and 'age'" in caplog.text


@pytest.mark.parametrize(
    "name", ["Frequency % Properties", "{age}", "fold", "group", "a.b/c", "%s"]
)
def test_names_of_columns_are_free(path, tmp_path, name):
    frame = loaded(path, f"id\t{name}\na\t1\n")
    write_metadata(tmp_path / "a", frame, {})
    assert metadata_column(read_metadata(tmp_path / "a"), name).tolist() == ["1"]


@given(
    cells=st.lists(
        st.sampled_from(["1", "2.0", "x", "unknown", "NA", "3,5", "-", "TRUE"]), min_size=1
    ),
    separator=st.sampled_from("\t,;"),
)
def test_the_separator_changes_no_value(tmp_path_factory, cells, separator):
    folder = tmp_path_factory.mktemp("separators")
    found = []
    for number, one in enumerate(("\t", separator)):
        with (folder / str(number)).open("w", newline="") as file:
            writer = csv.writer(file, delimiter=one)
            writer.writerow(["id", "a", "b"])
            writer.writerows([f"s{row}", cell, "z"] for row, cell in enumerate(cells))
        found.append(load_metadata(folder / str(number)))
    assert found[0].equals(found[1])


def test_values_that_differ_in_a_sign_without_width_are_joined_with_a_word(tmp_path, caplog):
    path = tmp_path / "m.tsv"
    path.write_text("sample-id\tsite\n\u200bs1\ta\u200b\ns2\ta\ns3\tb\n", encoding="utf-8")
    found = load_metadata(path)
    assert found["site"].to_dict() == {"s1": "a", "s2": "a", "s3": "b"}
    assert r"'a\u200b' as 'a' in 'site'" in caplog.text


def test_a_separator_behind_every_row_is_none_of_a_column(path):
    """Where the header has an empty name for the IDs, no name is missing."""
    found = loaded(path, "\tage\tsite\nx\t25\tgut\t\ny\t31\tskin\t\n")
    assert found["age"].tolist() == ["25", "31"]
    assert found["site"].tolist() == ["gut", "skin"]
