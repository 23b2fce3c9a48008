import io
import zipfile

import pytest
from scipy.sparse import csr_array

from aam.data.importing.metadata import load_metadata
from aam.data.importing.sequences import load_sequences
from aam.data.importing.table import load_table
from aam.data.importing.tree import load_tree
from aam.data.table import FeatureTable, write_biom
from aam.util.errors import InputError

UUID = "6a6c4a1e-3f1c-4f0e-9a2b-0123456789ab"
LOADERS = {"table": load_table, "sequences": load_sequences, "tree": load_tree}


def artifact(path, kind, member, content, extra=()):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{UUID}/VERSION", "QIIME 2\narchive: 5\nframework: 2024.10.1\n")
        archive.writestr(f"{UUID}/metadata.yaml", f"uuid: {UUID}\ntype: {kind}\nformat: F\n")
        archive.writestr(f"{UUID}/provenance/metadata.yaml", "type: Other\n")
        archive.writestr(f"{UUID}/data/{member}", content)
        for name in extra:
            archive.writestr(name, "x")
    return path


def tree(path, kind="Phylogeny[Rooted]", **kwargs):
    return artifact(path, kind, "tree.nwk", "((a:1,b:1):1,c:1);", **kwargs)


def test_every_artifact_is_read_whatever_the_name_of_the_file(tmp_path):
    path, table = tmp_path / "x.zip", FeatureTable(["01"], ["f", "g"], csr_array([[3, 4]]))
    write_biom(tmp_path / "t.biom", table, {})
    content = (tmp_path / "t.biom").read_bytes()
    found = load_table(artifact(path, "FeatureTable[Frequency]", "feature-table.biom", content))
    assert (found.sample_ids, found.feature_ids) == (["01"], ["f", "g"])
    assert found.counts.toarray().tolist() == [[3, 4]]
    fasta = artifact(path, "FeatureData[Sequence]", "dna-sequences.fasta", ">a x\nacg\nT\n")
    assert load_sequences(fasta) == {"a": "ACGT"}
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
        ("table", "FeatureTable[PresenceAbsence]", "FeatureTable\\[Frequency\\], instead"),
        ("table", "FeatureData[Sequence]", "under the key `sequences`"),
        ("table", "Phylogeny[Rooted]", "under the key `tree`"),
        ("sequences", "FeatureData[AlignedSequence]", "before the alignment"),
        ("sequences", "FeatureData[Taxonomy]", "rep-seqs"),
        ("sequences", "Visualization", "qiime tools peek"),
    ],
)
def test_an_artifact_of_another_type_is_named_with_the_fix(tmp_path, what, kind, fix):
    path = artifact(tmp_path / "x.qza", kind, "file", "content")
    with pytest.raises(InputError, match=fix) as caught:
        LOADERS[what](path)
    assert str(caught.value).startswith(f"{path}: got an artifact of type {kind}; expected ")


@pytest.mark.parametrize(
    "name", ["/etc/passwd", f"{UUID}/../../x", "..\\x", "C:/x", f"{UUID}/data/../../../y"]
)
def test_paths_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="absolute or climbing paths: 1 \\("):
        load_tree(tree(tmp_path / "t.qza", extra=[name]))


def test_damaged_archives_are_named(tmp_path):
    path = tree(tmp_path / "t.qza")
    content = path.read_bytes()
    flipped = content.replace(b"((a:1,b:1):1,c:1);", b"((a:1,b:1):1,c:2);", 1)
    for size in (3, 40, len(content) // 2, len(content) - 10, None):
        path.write_bytes(content[:size] if size else flipped)
        with pytest.raises(InputError, match="a damaged archive.*download or export it again"):
            load_tree(path)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=str
)
def test_damage_inside_of_compressed_data_is_named(tmp_path, method):
    path, name = tree(tmp_path / "t.qza"), f"{UUID}/data/tree.nwk"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(f"{UUID}/metadata.yaml", "type: Phylogeny[Rooted]\n")
        archive.writestr(name, "((a:1,b:1):1,c:1);" * 50)
        stored = archive.getinfo(name)
    content = bytearray(path.read_bytes())
    start = stored.header_offset + 30 + len(name)
    # The first bytes of LZMA data in an archive are its settings; what follows is the stream.
    content[start + 4 : start + stored.compress_size] = b"\xff" * (stored.compress_size - 4)
    path.write_bytes(content)
    with pytest.raises(InputError, match="a damaged archive.*download or export it again"):
        load_tree(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "0 entries at its top"),
        ({"a/x": "", "b/x": ""}, "2 entries at its top"),
        ({"a/data/tree.nwk": "(a:1,b:1);"}, "metadata.yaml"),
        ({"a/metadata.yaml": "type: Phylogeny[Rooted]"}, "tree.nwk"),
        ({"a/metadata.yaml": "just words"}, "without a `type`"),
        ({"a/metadata.yaml": "a: [b"}, "not YAML"),
    ],
)
def test_zip_archives_that_are_no_artifacts(tmp_path, members, message):
    path, buffer = tmp_path / "t.qza", io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    path.write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match=message) as caught:
        load_tree(path)
    assert str(caught.value).startswith(f"{path}: got ")


def test_metadata_in_an_artifact_is_explained(tmp_path):
    with pytest.raises(InputError, match="qiime tools export"):
        load_metadata(tree(tmp_path / "m.qza"))
