import hashlib
import json
import os
import sys
from datetime import datetime
from pathlib import Path

import biom
import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

from aam.data.importing import hdf5
from aam.data.importing.layout import Layout
from aam.data.importing.sequences import feature_sequences, is_sequence, load_sequences
from aam.data.importing.table import _without_metadata, load_table, without_empty
from aam.data.sequences import read_fasta, write_fasta
from aam.data.table import FeatureTable, read_biom, write_biom
from aam.util.errors import InputError

COUNTS = np.array([[5, 0, 2**40], [0, 7, 1]])
SAMPLES = ["0001", "sample β"]
FEATURES = ["ACGT" * 10, "f 2", "f_3"]


def table(counts=COUNTS, samples=SAMPLES, features=FEATURES):
    return FeatureTable(list(samples), list(features), csr_array(np.asarray(counts, np.int64)))


def assert_same(left, right):
    assert left.sample_ids == right.sample_ids
    assert left.feature_ids == right.feature_ids
    assert left.counts.dtype == np.int64
    np.testing.assert_array_equal(left.counts.toarray(), right.counts.toarray())


def write_hdf5(path, values, samples=SAMPLES, features=FEATURES):
    """Write a BIOM 2.1 file that our own writer would refuse: duplicate IDs, any values."""
    unique = biom.Table(
        csr_matrix(np.asarray(values, float).T),
        [f"feature{i}" for i in range(len(features))],
        [f"sample{i}" for i in range(len(samples))],
        [{"taxonomy": ["k__A", "p__B"]}] * len(features) or None,
    )
    with h5py.File(path, "w") as handle:
        unique.to_hdf5(handle, "test", creation_date=datetime(2020, 1, 1))
        for axis, names in (("sample", samples), ("observation", features)):
            if names:
                handle[axis]["ids"][:] = [name.encode() for name in names]
    return path


def write_json(path, values, samples=SAMPLES, features=FEATURES, **changes):
    values = np.asarray(values, float).T
    content = {
        "id": None, "format": "Biological Observation Matrix 1.0.0", "format_url": "",
        "generated_by": "test", "type": "OTU table", "date": "2020-01-01T00:00:00",
        "matrix_type": "dense", "matrix_element_type": "float", "shape": values.shape,
        "data": values.tolist(), "columns": [{"id": name, "metadata": None} for name in samples],
        "rows": [{"id": name, "metadata": {"taxonomy": ["k__A"]}} for name in features],
    }  # fmt: skip
    path.write_text(json.dumps({**content, **changes}))
    return path


def sparse(*counts):
    return {"values": COUNTS, "matrix_type": "sparse", "data": counts}


def write_tsv(path, values, samples=SAMPLES, features=FEATURES):
    rows = zip(features, np.asarray(values).T, strict=True)
    lines = ["# Constructed from biom file", "\t".join(["#OTU ID", *samples])]
    lines += ["\t".join([name, *map(str, row)]) for name, row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("own", [table(), FeatureTable([], ["f"], csr_array((0, 1), dtype=int))])
def test_own_file_keeps_the_table_and_has_the_same_bytes_each_time(tmp_path, own):
    write_biom(tmp_path / "a.biom", own, {"b": "1", "a": "2"})
    write_biom(tmp_path / "b.biom", own, {"a": "2", "b": "1"})
    assert (tmp_path / "a.biom").read_bytes() == (tmp_path / "b.biom").read_bytes()
    assert_same(read_biom(tmp_path / "a.biom"), own)
    with h5py.File(tmp_path / "a.biom") as handle:
        assert json.loads(handle.attrs["generated-by"]) == {"a": "2", "b": "1"}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2**53), min_size=3, max_size=3), min_size=1, max_size=5),
    st.sampled_from([write_hdf5, write_json, write_tsv]),
)
def test_every_format_gives_the_same_table_without_metadata(tmp_path_factory, rows, write):
    path = tmp_path_factory.mktemp("table") / "table"
    samples = [f"00{i}" for i in range(len(rows))]
    counts = np.array(rows)
    # A table of 0 and 1 alone has no reads.
    counts[0, 0] += 2 * (counts.max() < 2)
    write(path, counts, samples=samples)
    assert_same(load_table(path), table(counts, samples=samples))


@pytest.mark.parametrize(
    ("ending", "first"), [("\n", "#OTU ID"), ("\r\n", "\ufeffFeature ID"), ("\r", "#OTU ID")]
)
def test_tsv_dialects(tmp_path, ending, first):
    path = tmp_path / "t.tsv"
    lines = [f"{first}\t01\t02\ttaxonomy", "0007\t1\t2.0\tk__A; p__B", "f2\t0\t4\t", "", ""]
    path.write_bytes(ending.join(lines).encode())
    assert_same(load_table(path), table([[1, 0], [2, 4]], ["01", "02"], ["0007", "f2"]))


def test_a_comment_with_a_tab_above_the_header_is_none_of_the_rows(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("# made by\tme\n#OTU ID\ta\tb\nx\t1\t2\n")
    assert_same(load_table(path), table([[1], [2]], ["a", "b"], ["x"]))


def test_samples_and_features_without_reads_are_listed():
    kept, dropped = without_empty(table([[0, 3, 0], [0, 0, 0]], ["a", "b"], ["x", "y", "z"]))
    assert_same(kept, table([[3]], ["a"], ["y"]))
    left_out = [["sample", "b"], ["feature", "x"], ["feature", "z"]]
    assert dropped.to_numpy().tolist() == [[*name, "no reads"] for name in left_out]


def test_a_sample_that_was_not_found_is_not_taken_for_the_last_one():
    with pytest.raises(AssertionError, match="a sample is missing"):
        table().select_samples(np.array([0, -1]))


@pytest.mark.parametrize("write", [write_hdf5, write_json, write_tsv])
def test_duplicate_ids_and_bad_counts_are_named_at_once(tmp_path, write):
    values = [[-3, 0.5, np.nan], [2.0**54, np.inf, 1]]
    path = write(tmp_path / "t", values, samples=["s", "s"], features=["f", "g", "f"])
    with pytest.raises(InputError) as caught:
        load_table(path)
    lines = str(caught.value).splitlines()
    messages = [
        "sample IDs that occur more than once: 's'",
        "feature IDs that occur more than once: 'f'",
        "NaN or infinite: 2 (nan in sample s, feature f; inf in sample s, feature g)",
        "negative counts: 1 (-3 in sample s, feature f)",
        "fractional counts: 1 (0.5 in sample s, feature g)",
        "above 2**53: 1 (1.8014398509482e+16 in sample s, feature f)",
    ]
    assert all(message in line for message, line in zip(messages, lines, strict=True))
    assert all(line.startswith(str(path)) for line in lines)
    assert all("before any transformation" in line for line in lines[2:])
    # biom-format is strict again.
    with pytest.raises(biom.exception.TableException):
        biom.Table(np.ones((2, 1)), ["f", "f"], ["s"])


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        (write_json, {"values": COUNTS, "samples": ["a\tb", " "]}, r"tabs.*: 'a\\tb', ''"),
        (write_json, sparse([0, 0, 3], [0, 0, 4]), "a sample and a feature have two counts"),
        (write_json, sparse([0, 0, 10**400]), "JSON that is cut off"),
        (write_json, {"values": COUNTS, "shape": [10**12, 3]}, "a shape that is not that of"),
        (write_hdf5, {"values": np.zeros((0, 3)), "samples": []}, "without samples"),
        (write_tsv, {"values": np.zeros((2, 0)), "features": []}, "without features"),
        (write_tsv, {"values": np.zeros((2, 3), int)}, "without a single read"),
    ],
)
def test_empty_tables_and_unusable_ids_are_named(tmp_path, write, options, message):
    with pytest.raises(InputError, match=message):
        load_table(write(tmp_path / "t", **options))


def test_hdf5_that_is_cut_off_or_damaged_is_named(tmp_path):
    path = write_hdf5(tmp_path / "t.biom", COUNTS)
    whole = path.read_bytes()
    damaged = [whole[: len(whole) // 2]]
    for key, value in (("indices", 10**6), ("indices", -5), ("indptr", 10**6), ("ids", None)):
        path.write_bytes(whole)
        with h5py.File(path, "r+") as handle:
            if value is None:
                del handle["sample/ids"]
            else:
                handle[f"sample/matrix/{key}"][1] = value
        damaged.append(path.read_bytes())
    for content in damaged:
        path.write_bytes(content)
        message = r"t\.biom: got an HDF5 file that is cut off, damaged or not BIOM 2\.1.*export"
        with pytest.raises(InputError, match=message):
            load_table(path)


def duplicate(handle):
    indices = handle["sample/matrix/indices"]
    indices[1] = indices[0]


def claimed(handle):
    del handle["sample/matrix/data"]
    handle.create_dataset("sample/matrix/data", shape=(10**11,), dtype=float, chunks=(1000,))


def elsewhere(handle):
    del handle["sample/ids"]
    handle["sample/ids"] = h5py.ExternalLink("/etc/hosts", "/")


def stored_elsewhere(handle):
    del handle["sample/matrix/data"]
    handle.create_dataset("sample/matrix/data", (4,), "u1", external=[("/etc/hosts", 0, 4)])


def square(handle):
    ids = handle["sample/ids"][:]
    del handle["sample/ids"]
    handle["sample/ids"] = ids[:, None]


@pytest.mark.parametrize("change", [claimed, elsewhere, stored_elsewhere, square, duplicate])
def test_hdf5_that_claims_much_lies_elsewhere_or_counts_twice_is_refused(tmp_path, change):
    path = write_hdf5(tmp_path / "t.biom", COUNTS)
    with h5py.File(path, "a") as handle:
        change(handle)
    message = "1 counts of a sample and a" if change is duplicate else "damaged or not BIOM 2\\.1"
    with pytest.raises(InputError, match=message) as caught:
        load_table(path)
    assert "localhost" not in str(caught.value)


ENDS = {"-9": "import os; os.kill(os.getpid(), 9)", "not read in 1 s": "while 1: pass"}


@pytest.mark.parametrize("said", ENDS)
def test_hdf5_that_ends_its_reader_or_keeps_it_is_told(tmp_path, monkeypatch, said):
    monkeypatch.setattr(hdf5, "COMMAND", [sys.executable, "-c", ENDS[said]])
    monkeypatch.setattr(hdf5, "LEAST_S", 1)
    with pytest.raises(InputError, match=f"t.biom: got an HDF5 file that is .*{said}"):
        load_table(write_hdf5(tmp_path / "t.biom", COUNTS))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"Dear reader,\nthis is a letter.\n",
            "without columns that tabs separate.*\\('Dear reader",
        ),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xfe", "bytes that are not UTF-8 text"),
        (b"a\x00b\tc", "a binary file"),
        (b'{"rows": []}', "JSON that is cut off or not BIOM 1.0"),
        (b"\x1f\x8b\x08\x00", "a gzip file that is cut off or damaged"),
        (b"", "an empty file"),
        (b"#OTU ID\ta\tb\nx\t1\n", "number of columns than the header: 'x' has 2"),
        (b"#OTU ID\ta\tb\nx\t1\t\ny\tmany\t2\n", "no numbers: 2 \\('many' in column a, row y"),
        (b"#OTU ID\ta\nx\tTrue\ny\tFalse\n", "no numbers: 2 .*presence and absence"),
        (b"#OTU ID\ttaxonomy\nx\tk__A\n", "a table without samples"),
        (b"#OTU ID\ta\nx\t1\n#y\t2\n", "feature ID begins with '#'.*: '#y'"),
        (b"# made\n#OTU ID\ta\n#x\t1\ny\t2\n", "feature ID begins with '#'.*: '#x'"),
        (b"#OTU ID\ta\n# why\n#x\t1\n#y\t2\n", "feature ID begins with '#'.*: '#x', '#y'"),
        (b"#OTU ID\ta\n':\t1\n", "of punctuation alone"),
    ],
)
def test_no_table_at_all(tmp_path, content, message):
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_table(path)
    assert str(caught.value).startswith(f"{path}: got ")
    assert "Hint: " in str(caught.value)


def test_a_missing_file_a_folder_or_a_pipe_is_named(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "table.biom").write_bytes(b"#")
    messages = {
        "tabel.biom": r"no such file; .*did you mean '.*/table\.biom'\?",
        "nothing": r"no such file; .*correct the path; .* has 'table\.biom'",
        ".": r"a folder; .*name the file inside of it: 'table\.biom'",
        "pipe": "a device or a pipe",
    }
    for name, message in messages.items():
        with pytest.raises(InputError, match=f"got {message}"):
            load_table(tmp_path / name)


ASV = "ACGTTGCA" * 5


def of_features(features, sample="s1"):
    return table(np.ones((1, len(features))), [sample], features)


def fasta(tmp_path, text):
    path = tmp_path / "rep-seqs.fasta"
    path.write_bytes(text.encode())
    return path


@settings(deadline=None)
@given(st.text("ACGTRYSWKMBDHVN", min_size=1), st.integers(1, 60))
def test_the_width_of_lines_does_not_matter(tmp_path_factory, sequence, width):
    lines = [sequence[i : i + width] for i in range(0, len(sequence), width)]
    path = fasta(tmp_path_factory.mktemp("fasta"), ">x\n" + "\n".join(lines) + "\n")
    assert load_sequences(path) == {"x": sequence}
    sequences = {"b c": sequence, "0001": "NNRY", "a>b": "A"}
    write_fasta(path, sequences)
    assert list(read_fasta(path).items()) == list(sequences.items())


def test_dialects_and_all_problems_of_a_fasta_at_once(tmp_path):
    path = fasta(tmp_path, "\ufeff>0001 some words\r\nacgu\r\nNRy\r\n\r\n>x\tmore\r\nT\r\n")
    assert load_sequences(path) == {"0001": "ACGTNRY", "x": "T"}
    with pytest.raises(InputError, match="'hello' before the first header.*'>'"):
        load_sequences(fasta(tmp_path, "hello\nworld\n"))
    with pytest.raises(InputError) as caught:
        load_sequences(fasta(tmp_path, ">a\nACXZ\n>b\n>a\nAC-GT\n>\nAC\n"))
    unnamed, duplicate, empty, strange = str(caught.value).splitlines()
    assert "1 headers without an ID" in unnamed
    assert "more than once: 'a'" in duplicate
    assert "without a sequence: 'b'" in empty
    assert "'-'" in strange
    assert "before the alignment" in strange
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())


def test_sequences_are_those_of_the_file_then_the_ids_themselves(tmp_path):
    features = [ASV, ASV.lower().replace("t", "u") + "nn"]
    found = feature_sequences(of_features(features), tmp_path / "t.biom", None)
    assert list(found.items()) == [(features[0], ASV), (features[1], ASV + "NN")]
    path = fasta(tmp_path, f">other\nAA\n>b\nCC\n>a\nGG\n>{ASV}\nTT\n")
    found = feature_sequences(of_features(["a", "b", ASV, ASV + "A"]), tmp_path / "t.biom", path)
    assert list(found.items()) == [("a", "GG"), ("b", "CC"), (ASV, "TT"), (ASV + "A", ASV + "A")]


@pytest.mark.parametrize(
    ("ids", "likeness"),
    [
        ([hashlib.md5(b"x").hexdigest(), hashlib.md5(b"y").hexdigest()], "look like hashes"),
        (["4479944", "1234"], "look like OTU numbers"),
        (["Zotu1", "OTU_2"], "look like OTU numbers"),
        (["Bacteroides", "ACGT" * 4, "ACGT" * 5 + "_1"], "are no sequences"),
    ],
)
def test_ids_without_a_sequence_are_named_with_what_they_look_like(tmp_path, ids, likeness):
    assert not any(map(is_sequence, ids))
    path = tmp_path / "t.biom"
    message = rf"{path}: got .*{likeness}.*: '{ids[0]}.*datasets.<name>.sequences"
    with pytest.raises(InputError, match=message):
        feature_sequences(of_features([*ids, ASV]), path, None)
    with pytest.raises(InputError, match="transposed"):
        feature_sequences(of_features(ids, sample=ASV), path, None)
    given = fasta(tmp_path, ">a\nACGT\n")
    with pytest.raises(InputError, match=rf"{given}: got no sequence for . features .*{ids[0]}"):
        feature_sequences(of_features(["a", *ids]), path, given)


@pytest.mark.parametrize(
    ("headers", "ids", "example"),
    [
        ("ASV1;size=100 ASV2;size=7;", "ASV1 ASV2", "'ASV1' has the sequence of 'ASV1;size=100'"),
        ("ASV1|size=100 ASV2|size=7", "ASV1 ASV2", "'ASV1' has the sequence of 'ASV1|size=100'"),
        ("ASV1 ASV2", "ASV1;size=100 ASV2;size=7", "'ASV1;size=100' has the sequence of 'ASV1'"),
        ("ASV1;size=9 ASV2", "ASV1;size=8 ASV2", "'ASV1;size=8' has the sequence of 'ASV1;size=9'"),
    ],
)
def test_names_are_found_without_what_programs_append(tmp_path, caplog, headers, ids, example):
    path = fasta(tmp_path, ">{} some words\nACGT\n>{}\nACGA\n".format(*headers.split()))
    found = feature_sequences(of_features(ids.split()), tmp_path / "t.biom", path)
    assert list(found.items()) == list(zip(ids.split(), ["ACGT", "ACGA"], strict=True))
    assert f"{path}: " in caplog.text
    assert example in caplog.text


def test_headers_with_spaces_are_names_where_the_first_word_is_none(tmp_path):
    path = fasta(tmp_path, ">ASV 1\nACGT\n>ASV 2\nACGA\n")
    found = feature_sequences(of_features(["ASV 2", "ASV 1"]), tmp_path / "t.biom", path)
    assert found == {"ASV 2": "ACGA", "ASV 1": "ACGT"}
    path = fasta(tmp_path, ">a one\nACGT\n>b two\nACGA\n")
    assert feature_sequences(of_features(["a one", "b"]), tmp_path / "t", path)["a one"] == "ACGT"
    # What two records could be is neither.
    path = fasta(tmp_path, ">a;size=1\nACGT\n>a;size=2\nACGA\n")
    with pytest.raises(InputError, match="no sequence for feature 'a' of 1"):
        feature_sequences(of_features(["a"]), tmp_path / "t.biom", path)


def test_names_that_r_changed_are_named_from_both_sides(tmp_path):
    path = fasta(tmp_path, ">12-3/a\nACGT\n>0042\nACGA\n")
    message = (
        r"the file has '12-3/a', '0042'; 'X12.3.a' is probably '12-3/a' .*, '42' is probably '0"
    )
    with pytest.raises(InputError, match=message):
        feature_sequences(of_features(["X12.3.a", "42"]), tmp_path / "t.biom", path)


def test_letters_of_proteins_and_of_alignments_have_hints_of_their_own(tmp_path):
    for letters, hint in (("MKVLEF", "look like proteins"), ("AC-GT", "before the alignment")):
        with pytest.raises(InputError, match=hint):
            load_sequences(fasta(tmp_path, f">a\n{letters}\n"))


def test_spaces_around_the_ids_of_a_biom_table_are_left_out(tmp_path, caplog):
    path = tmp_path / "table.biom"
    counts = csr_array(np.array([[1, 2], [3, 4]]))
    write_biom(path, FeatureTable(["s1 ", "s2"], ["ACGT" * 6, " b"], counts), {})
    found = load_table(path)
    assert (found.sample_ids, found.feature_ids) == (["s1", "s2"], ["ACGT" * 6, "b"])
    assert "'s1 '" in caplog.text
    write_biom(path, FeatureTable(["s1 ", "s1"], ["a", "b"], counts), {})
    with pytest.raises(InputError, match="more than once: 's1'"):
        load_table(path)


def test_ids_that_repeat_in_the_metadata_say_nothing_of_columns_of_the_table():
    """The import of the metadata refuses them, and says which they are."""
    counts = csr_array(np.array([[30, 5], [40, 6]]))
    layout = Layout(["s1", "s2"], ["age", "ACGT"], counts)
    cells = pd.DataFrame({"age": ["30", "40"]}, index=["s1", "s2"])
    assert _without_metadata(Path("t.tsv"), layout, cells).feature_ids == ["ACGT"]
    assert _without_metadata(Path("t.tsv"), layout, cells.iloc[[0, 1, 1]]) is layout
