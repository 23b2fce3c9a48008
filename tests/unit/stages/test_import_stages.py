import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from aam.data.metadata import read_metadata
from aam.data.sequences import read_fasta, write_fasta
from aam.data.table import FeatureTable, read_biom, read_provenance, write_biom
from aam.data.trees.newick import read_newick
from aam.runtime.run_options import RunOptions
from aam.stages import import_metadata, import_table, import_tree
from aam.util.errors import InputError

RUNTIME = RunOptions()
HASHES = ["d41d8cd98f00b204e9800998ecf8427e", "0cc175b9c0f1b6a831c399e269772661"]
TSV = "#OTU ID\t0001\t2\tblank\n{}\t3\t0\t0\n{}\t1\t4\t0\nunseen\t0\t0\t0\n".format(*HASHES)
FASTA = "".join(f">{name}\nacgu{letter}\n" for name, letter in zip(HASHES, "AC", strict=True))


def put(path, text):
    path.write_text(text)
    return path


def outputs(folder, *names):
    return {name: folder / "inputs" / name for name in names}


def import_example(tmp_path):
    """Import the table and the sequences above."""
    out = outputs(tmp_path, "table", "sequences", "dropped")
    inputs = {"table": put(tmp_path / "t.tsv", TSV), "sequences": put(tmp_path / "s.fasta", FASTA)}
    import_table.run({}, inputs=inputs, outputs=out, runtime=RUNTIME)
    return out


def test_a_table_with_hashes_is_imported(tmp_path):
    out = import_example(tmp_path)
    table = read_biom(out["table"])
    assert (table.sample_ids, table.feature_ids) == (["0001", "2"], HASHES)
    assert table.counts.toarray().tolist() == [[3, 1], [0, 4]]
    assert list(read_fasta(out["sequences"]).items()) == [
        (HASHES[0], "ACGTA"),
        (HASHES[1], "ACGTC"),
    ]
    assert out["dropped"].read_text() == (
        "what\tid\twhy\nsample\tblank\tno reads\nfeature\tunseen\tno reads\n"
    )
    inputs = json.loads(read_provenance(out["table"])["aam.inputs"])
    assert inputs.keys() == {"table", "sequences"}


def test_the_same_files_give_the_same_bytes(tmp_path):
    first = {name: path.read_bytes() for name, path in import_example(tmp_path).items()}
    shutil.rmtree(tmp_path / "inputs")
    assert {name: path.read_bytes() for name, path in import_example(tmp_path).items()} == first


@pytest.mark.parametrize(
    ("text", "sequences", "message"),
    [
        (TSV, None, "look like hashes"),
        (TSV, FASTA.split(">")[1].join([">", ""]), "no sequence for 1"),
        (TSV, FASTA.replace("acgu", "ac*u"), "no IUPAC nucleotides"),
        (TSV.replace("3", "-3"), FASTA, "negative counts"),
        (TSV.replace("3", "0.3"), FASTA, "fractional counts"),
        (TSV.replace("0001", "2"), FASTA, "sample IDs that occur more than once"),
        (TSV.replace("unseen", HASHES[0]), FASTA, "feature IDs that occur more than once"),
        ("#OTU ID\ts\nx\t0\n", FASTA, "without a single read"),
        ("no table", FASTA, "without tab-separated columns"),
    ],
)
def test_a_bad_table_leaves_nothing_behind(tmp_path, text, sequences, message):
    inputs = {"table": put(tmp_path / "t.tsv", text)}
    if sequences is not None:
        inputs["sequences"] = put(tmp_path / "s.fasta", sequences)
    out = outputs(tmp_path, "table", "sequences", "dropped")
    with pytest.raises(InputError, match=message):
        import_table.run({}, inputs=inputs, outputs=out, runtime=RUNTIME)
    assert not (tmp_path / "inputs").exists()


def imported(tmp_path, features=("a", "b", "c"), samples=("0001", "0002")):
    counts = csr_array(np.ones((len(samples), len(features)), dtype=np.int64))
    write_biom(tmp_path / "table.biom", FeatureTable(list(samples), list(features), counts), {})
    write_fasta(tmp_path / "s.fasta", {name: "ACGT" * 9 + name.upper() for name in features})
    return {"table": tmp_path / "table.biom", "sequences": tmp_path / "s.fasta"}


def test_a_tree_is_cut_to_the_table(tmp_path):
    tree = put(tmp_path / "t.nwk", "(((a:1,x:1):1,b:2):1,(c:1,y:1):1);")
    out = outputs(tmp_path, "tree")
    import_tree.run({}, inputs={**imported(tmp_path), "tree": tree}, outputs=out, runtime=RUNTIME)
    assert out["tree"].read_text() == "((b:2.0,a:2.0):1.0,c:2.0);\n"


@pytest.mark.skipif(
    shutil.which("mafft") is None or shutil.which("fasttree") is None,
    reason="MAFFT or FastTree is not installed",
)
def test_a_tree_is_made_where_there_is_none(tmp_path):
    out = outputs(tmp_path, "tree")
    runtime = RunOptions(threads=2, work=tmp_path / "work")
    import_tree.run({}, inputs=imported(tmp_path), outputs=out, runtime=runtime)
    assert sorted(tip.name for tip in read_newick(out["tree"]).tips()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("((a:1,b:1):1,x:1);", "a tree without 1 \\(c\\) of 3 features"),
        ("(a:1,b:1,c:1);", "an unrooted one"),
        ("((a:1,b):1,c:1);", "no length"),
        ("((a:1,b:-1):1,c:1);", "negative length"),
        ("((a:1,b:1):1,c:1", "not Newick"),
    ],
)
def test_a_bad_tree_leaves_nothing_behind(tmp_path, text, message):
    inputs = {**imported(tmp_path), "tree": put(tmp_path / "t.nwk", text)}
    out = outputs(tmp_path, "tree")
    with pytest.raises(InputError, match=message):
        import_tree.run({}, inputs=inputs, outputs=out, runtime=RUNTIME)
    assert not (tmp_path / "inputs").exists()


def test_metadata_follows_the_order_of_the_table(tmp_path):
    text = "#SampleID\tage\n#q2:types\tnumeric\nother\t1\n0002\t09\n"
    inputs = {"table": imported(tmp_path)["table"], "metadata": put(tmp_path / "m.tsv", text)}
    out = outputs(tmp_path, "metadata")
    import_metadata.run({}, inputs=inputs, outputs=out, runtime=RUNTIME)
    frame = read_metadata(out["metadata"])
    assert list(frame.index) == ["0001", "0002"]
    assert frame["age"].tolist() == [None, "09"]
    assert frame.attrs["q2:types"] == {"age": "numeric"}
    assert b"aam.inputs" in pq.read_schema(out["metadata"]).metadata


def test_without_metadata_there_are_the_sample_ids(tmp_path):
    inputs = {"table": imported(tmp_path)["table"]}
    out = outputs(tmp_path, "metadata")
    import_metadata.run({}, inputs=inputs, outputs=out, runtime=RUNTIME)
    assert pq.read_table(out["metadata"]).to_pydict() == {"sample_id": ["0001", "0002"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "id\tage\n1\t5\n2\t6\n",
            r"its IDs are 2 \(1, 2\).*the table 2 \(0001, 0002\).*lost zeros",
        ),
        ("id\tage\n0001\t5\n0001\t6\n", "more than once"),
        ("name\tage\n0001\t5\n", "rename the first column"),
    ],
)
def test_bad_metadata_leaves_nothing_behind(tmp_path, text, message):
    inputs = {"table": imported(tmp_path)["table"], "metadata": put(tmp_path / "m.tsv", text)}
    out = outputs(tmp_path, "metadata")
    with pytest.raises(InputError, match=message):
        import_metadata.run({}, inputs=inputs, outputs=out, runtime=RUNTIME)
    assert not (tmp_path / "inputs").exists()
