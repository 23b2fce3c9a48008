import zipfile

import pytest
from qiime_artifacts import NEWICK, UUID, artifact, zipped
from scipy.sparse import csr_array

from aam.data.importing import files
from aam.data.importing.sequences import load_sequences
from aam.data.importing.table import load_table
from aam.data.importing.tree import load_tree
from aam.data.table import FeatureTable, write_biom
from aam.util.errors import InputError

LOADERS = {"table": load_table, "sequences": load_sequences, "tree": load_tree}


def test_every_artifact_is_read_whatever_the_name_of_the_file(tmp_path):
    path, table = tmp_path / "x.zip", FeatureTable(["01"], ["f", "g"], csr_array([[3, 4]]))
    write_biom(tmp_path / "t.biom", table, {})
    content = (tmp_path / "t.biom").read_bytes()
    found = load_table(artifact(path, "FeatureTable[Frequency]", "feature-table.biom", content))
    assert (found.sample_ids, found.feature_ids) == (["01"], ["f", "g"])
    assert found.counts.toarray().tolist() == [[3, 4]]
    fasta = artifact(path, "FeatureData[Sequence]", "dna-sequences.fasta", ">a x\nacg\nT\n")
    assert load_sequences(fasta) == {"a": "ACGT"}
    kind = "FeatureTable[Frequency % Properties('phylogenetic')]"
    assert load_table(artifact(path, kind, "feature-table.biom", content)).sample_ids == ["01"]
    # A tree of this type is rooted, even with many children at the root.
    found = load_tree(artifact(path, "Phylogeny[Rooted]", "tree.nwk", "(a:1,b:1,c:1);"))
    assert [tip.name for tip in found.tips()] == ["a", "b", "c"]
    assert len(found.children) == 2


@pytest.mark.parametrize(
    ("what", "kind", "fix"),
    [
        ("tree", "Phylogeny[Unrooted]", "qiime phylogeny midpoint-root"),
        ("tree", "FeatureTable[Frequency]", "under the key `table`"),
        ("table", "FeatureTable[RelativeFrequency]", "FeatureTable\\[Frequency\\], instead"),
        ("table", "FeatureData[Sequence]", "under the key `sequences`"),
        ("table", "Phylogeny[Rooted]", "under the key `tree`"),
        ("sequences", "FeatureData[AlignedSequence]", "before the alignment"),
        ("sequences", "FeatureData[Taxonomy]", "rep-seqs"),
        (
            "sequences",
            "Visualization",
            r"visualization \(.qzv\) .* made from",
        ),
        ("table", "FeatureData[Taxonomy]", "under the key `taxonomy`"),
        ("table", "SampleData[AlphaDiversity]", "qiime tools peek"),
    ],
)
def test_an_artifact_of_another_type_is_named_with_the_fix(tmp_path, what, kind, fix):
    path = artifact(tmp_path / "x.qza", kind)
    with pytest.raises(InputError, match=fix) as caught:
        LOADERS[what](path)
    assert str(caught.value).startswith(f"{path}: got an artifact of type {kind}; expected ")


@pytest.mark.parametrize("name", ["/etc/passwd", f"{UUID}/data/../../../y", "..\\x", "C:/x"])
def test_paths_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="absolute or climbing paths: '"):
        load_tree(artifact(tmp_path / "t.qza", "Phylogeny[Rooted]", extra=[name]))


METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_damaged_archives_are_named(tmp_path, method):
    path = tmp_path / "t.qza"
    artifact(path, "Phylogeny[Rooted]", content=NEWICK * 50, method=method)
    with zipfile.ZipFile(path) as archive:
        stored = archive.getinfo(f"{UUID}/data/tree.nwk")
    content = path.read_bytes()
    # The first bytes of LZMA data in an archive are its settings; what follows is the stream.
    start = stored.header_offset + 30 + len(stored.filename) + 4
    size = stored.compress_size - 4
    flipped = content[:start] + b"\xff" * size + content[start + size :]
    for damaged in (flipped, *(content[:size] for size in (3, len(content) // 2, -10))):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="a damaged archive.*download or export it again"):
            load_tree(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a/x": "", "b/x": ""}, "2 entries at its top"),
        ({"a/data/tree.nwk": "(a:1,b:1);"}, "metadata.yaml"),
        ({"a/metadata.yaml": "type: Phylogeny[Rooted]"}, "tree.nwk"),
        ({"a/metadata.yaml": "just words"}, "without a `type`"),
        ({"a/metadata.yaml": "a: [b"}, "not YAML"),
    ],
)
def test_zip_archives_that_are_no_artifacts(tmp_path, members, message):
    path = zipped(tmp_path / "t.qza", members)
    with pytest.raises(InputError, match=message) as caught:
        load_tree(path)
    assert str(caught.value).startswith(f"{path}: got ")


def test_an_archive_that_claims_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST", 3)
    with pytest.raises(InputError, match=r"data/tree\.nwk of \d+ bytes; expected at most 3"):
        load_tree(artifact(tmp_path / "t.qza", "Phylogeny[Rooted]"))
