"""The stages that import a study."""

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

HASHES = ["d41d8cd98f00b204e9800998ecf8427e", "0cc175b9c0f1b6a831c399e269772661"]
TSV = "#OTU ID\t0001\t2\tblank\n{}\t3\t0\t0\n{}\t1\t4\t0\nunseen\t0\t0\t0\n".format(*HASHES)
FASTA = "".join(f">{name}\nacgu{letter}\n" for name, letter in zip(HASHES, "AC", strict=True))
needs_programs = pytest.mark.skipif(
    shutil.which("mafft") is None or shutil.which("fasttree") is None,
    reason="MAFFT or FastTree is not installed",
)
OUTPUTS = ("table", "sequences", "dropped", "tree", "metadata")


@pytest.fixture
def run(tmp_path):
    """Write texts to files beside the inputs that are there, run a stage, return its outputs."""

    def run(stage, inputs=None, folder="out", **texts):
        files = dict(inputs or {})
        for name, text in texts.items():
            files[name] = tmp_path / f"{name}.txt"
            files[name].write_text(text)
        out = {name: tmp_path / folder / name for name in OUTPUTS}
        options = RunOptions(threads=2, work=tmp_path / "work")
        stage.run({}, inputs=files, outputs=out, runtime=options)
        return {name: path for name, path in out.items() if path.exists()}

    return run


@pytest.fixture
def imported(tmp_path):
    """Return a table of two samples and three features, and their sequences, as imported."""
    features, counts = ["a", "b", "c"], csr_array(np.ones((2, 3), dtype=np.int64))
    write_biom(tmp_path / "table.biom", FeatureTable(["0001", "0002"], features, counts), {})
    write_fasta(tmp_path / "s.fasta", {name: "ACGT" * 9 + name.upper() for name in features})
    return {"table": tmp_path / "table.biom", "sequences": tmp_path / "s.fasta"}


def test_a_table_with_hashes_is_imported(run):
    out = run(import_table, table=TSV, sequences=FASTA)
    table = read_biom(out["table"])
    assert (table.sample_ids, table.feature_ids) == (["0001", "2"], HASHES)
    assert table.counts.toarray().tolist() == [[3, 1], [0, 4]]
    expected = [(HASHES[0], "ACGTA"), (HASHES[1], "ACGTC")]
    assert list(read_fasta(out["sequences"]).items()) == expected
    assert out["dropped"].read_text() == (
        "what\tid\twhy\nsample\tblank\tno reads\nfeature\tunseen\tno reads\n"
    )
    inputs = json.loads(read_provenance(out["table"])["aam.inputs"])
    assert inputs.keys() == {"table", "sequences"}
    again = run(import_table, folder="again", table=TSV, sequences=FASTA)
    assert all(again[name].read_bytes() == path.read_bytes() for name, path in out.items())


def test_a_tree_is_cut_to_the_table(run, imported):
    out = run(import_tree, imported, tree="(((a:1,x:1):1,b:2):1,(c:1,y:1):1);")
    assert out["tree"].read_text() == "((b:2.0,a:2.0):1.0,c:2.0);\n"


@needs_programs
def test_a_tree_is_made_where_there_is_none(run, imported):
    tree = read_newick(run(import_tree, imported)["tree"])
    assert sorted(tip.name for tip in tree.tips()) == ["a", "b", "c"]


def test_metadata_follows_the_order_of_the_table(run, imported):
    text = "#SampleID\tage\n#q2:types\tnumeric\nother\t1\n0002\t09\n"
    out = run(import_metadata, {"table": imported["table"]}, metadata=text)
    frame = read_metadata(out["metadata"])
    assert list(frame.index) == ["0001", "0002"]
    assert frame["age"].tolist() == [None, "09"]
    assert frame.attrs["q2:types"] == {"age": "numeric"}
    assert b"aam.inputs" in pq.read_schema(out["metadata"]).metadata
    run(import_metadata, {"table": imported["table"]})
    assert pq.read_table(out["metadata"]).to_pydict() == {"sample_id": ["0001", "0002"]}


@pytest.mark.parametrize(
    ("stage", "texts", "message"),
    [
        (import_table, {"table": TSV}, "look like hashes"),
        (import_tree, {"tree": "((a:1,b:1):1,x:1);"}, r"a tree without 1 \(c\) of 3 features"),
        (
            import_metadata,
            {"metadata": "id\tage\n1\t5\n2\t6\n"},
            r"its IDs are 2 \(1, 2\).*the table 2 \(0001, 0002\).*lost zeros",
        ),
    ],
)
def test_a_bad_file_leaves_nothing_behind(run, imported, tmp_path, stage, texts, message):
    with pytest.raises(InputError, match=message):
        run(stage, {} if stage is import_table else imported, **texts)
    assert not (tmp_path / "out").exists()
