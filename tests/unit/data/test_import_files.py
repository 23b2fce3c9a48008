"""The user's files as they lie on a disk: compressed, of other programs, or inside an artifact."""

import gzip
import zipfile

import pytest
from qiime_artifacts import NEWICK, UUID, artifact, zipped
from scipy.sparse import csr_array

from aam.data.importing import files
from aam.data.importing.files import read_text
from aam.data.importing.metadata import load_metadata
from aam.data.importing.sequences import load_sequences
from aam.data.importing.table import load_table
from aam.data.importing.taxonomy import load_taxonomy
from aam.data.importing.tree import load_tree
from aam.data.table import FeatureTable, write_biom
from aam.util.errors import InputError

LOADERS = {
    "table": load_table,
    "sequences": load_sequences,
    "tree": load_tree,
    "metadata": load_metadata,
    "taxonomy": load_taxonomy,
}
TSV = "#OTU ID\ts1\ts2\nf1\t5\t2\nf2\t0\t7\n"
METADATA = "sample-id\tcity\ns1\tMünchen\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_text_of_excel_and_of_any_machine_is_read(tmp_path, encoding, ending):
    bom = "\ufeff" if encoding[-3:] in ("-le", "-be") else ""
    texts = {"table": TSV, "sequences": ">f1\nACGT\n", "tree": "(f1:1,f2:2);\n"}
    texts |= {"metadata": METADATA, "taxonomy": "Feature ID\tTaxon\nf1\tk__A\n"}
    for key, text in texts.items():
        path = tmp_path / key
        path.write_bytes((bom + text.replace("\n", ending)).encode(encoding))
        LOADERS[key](path)
    assert load_table(tmp_path / "table").counts.toarray().tolist() == [[5, 0], [2, 7]]
    assert load_metadata(tmp_path / "metadata").loc["s1", "city"] == "München"


@pytest.mark.parametrize("key", LOADERS)
def test_latin_1_is_named_with_the_line_and_how_to_convert_it(tmp_path, key):
    path = tmp_path / "x.tsv"
    path.write_bytes(METADATA.encode("latin-1"))
    message = r"perhaps Latin-1, first in line 2 \(.*'\); .* iconv -f LATIN1 -t UTF-8 x.tsv"
    with pytest.raises(InputError, match=message) as caught:
        LOADERS[key](path)
    assert "München" in str(caught.value)


def test_gzip_is_read_within_bounds(tmp_path, monkeypatch):
    path = tmp_path / "table.tsv.gz"
    path.write_bytes(gzip.compress(TSV.encode()))
    assert load_table(path).sample_ids == ["s1", "s2"]
    path.write_bytes(gzip.compress(b">f1\nACGT\n") + gzip.compress(b">f2\nACGA\n"))
    assert load_sequences(path) == {"f1": "ACGT", "f2": "ACGA"}
    whole = gzip.compress(TSV.encode())
    for damaged in (whole[:-6], whole[:15] + b"\xff" * 5 + whole[20:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="a gzip file that is cut off or damaged .* again"):
            load_table(path)
    path.write_bytes(gzip.compress(b" \n"))
    with pytest.raises(InputError, match="a gzip file of nothing"):
        load_table(path)
    monkeypatch.setattr(files, "LARGEST", 10)
    path.write_bytes(whole)
    with pytest.raises(InputError, match="a gzip file of more than 10 bytes.*gunzip table.tsv.gz"):
        load_table(path)


FOREIGN = {
    "an OpenDocument file .*'CSV UTF-8'": {"mimetype": "", "content.xml": ""},
    "an R object .*in R: write.table": gzip.compress(b"X\n\0\0\0\3\0\4"),
    "an R workspace .*in R: write.table": gzip.compress(b"RDX3\nX\n"),
    "a bzip2 file.*bunzip2 x.tsv": b"BZh91AY",
    "an xz file.*unxz x.tsv": b"\xfd7zXZ\0",
    "an old Excel workbook .*as text": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "a PDF document": b"%PDF-1.7\n",
    "a web page.*download the file itself": b"\n<!DOCTYPE html>\n<html>\n",
    "the pointer of Git LFS.*git lfs pull": b"version https://git-lfs.github.com/v1\n",
    "sequencing reads.*denoise": b"@read1\r\nACGTN\r\n+\r\nIIIII\r\n",
}


@pytest.mark.parametrize("key", LOADERS)
@pytest.mark.parametrize("message", FOREIGN)
def test_files_of_other_programs_are_named_with_what_to_do(tmp_path, key, message):
    path = tmp_path / "x.tsv"
    content = FOREIGN[message]
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        zipped(path, content)
    with pytest.raises(InputError, match=f"{path}: got {message}"):
        LOADERS[key](path)


@pytest.mark.parametrize("key", ["sequences", "tree"])
def test_a_workbook_holds_no_sequences_and_no_tree(tmp_path, key):
    zipped(tmp_path / "x.xlsx", {"xl/workbook.xml": ""})
    with pytest.raises(InputError, match=r"an Excel workbook .*'Text \(tab delimited\)'"):
        LOADERS[key](tmp_path / "x.xlsx")


@pytest.mark.parametrize("key", LOADERS)
@pytest.mark.parametrize(
    ("own", "text", "message"),
    [
        ("sequences", ">f1 x\nACGT\n", r"sequences \(FASTA\).*under the key `sequences`"),
        ("tree", "[&R] ((a:1,b:1):1,c:2);\n", r"a tree \(Newick\).*under the key `tree`"),
        ("table", '{"id": null,"format": "B', "BIOM 1.0.*under the key `table`"),
        ("", "#NEXUS\nBEGIN TREES;\n", r"NEXUS.*read.nexus\('x.tsv'\)"),
        ("table", "\x89HDF\r\n\x1a\n", r"an HDF5 file \(BIOM 2.1\?\).*under the key `table`"),
    ],
)
def test_a_file_under_the_key_of_another_is_told_so(tmp_path, key, own, text, message):
    path = tmp_path / "x.tsv"
    path.write_bytes(text.encode("latin-1"))
    if key == own == "sequences":
        load_sequences(path)
    elif key == own == "tree":
        load_tree(path)
    elif key != own:
        with pytest.raises(InputError, match=f"{path}: got .*{message}"):
            LOADERS[key](path)


def test_metadata_in_an_archive_is_told_what_to_do(tmp_path):
    path = artifact(tmp_path / "m.qza", "FeatureTable[Frequency]", "feature-table.biom", b"x")
    with pytest.raises(InputError, match="type FeatureTable.*sample metadata.*key `table`"):
        load_metadata(path)
    path = artifact(tmp_path / "m.qzv", "Visualization", "index.html", b"x")
    with pytest.raises(InputError, match="type Visualization.*sample metadata.* made from"):
        load_metadata(path)
    path = zipped(tmp_path / "m.zip", {"a.tsv": METADATA, "b.tsv": METADATA}, zipfile.ZIP_STORED)
    with pytest.raises(InputError, match="2 entries at its top; expected sample"):
        load_metadata(path)


def test_a_key_of_its_own_is_no_other(tmp_path):
    (tmp_path / "x").write_text(">f1\nACGT\n")
    assert read_text(tmp_path / "x", "sequences", None, key="sequences").startswith(">f1")


ARTIFACT_LOADERS = {"table": load_table, "sequences": load_sequences, "tree": load_tree}


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
        ("table", "FeatureTable[Balance]", "FeatureTable\\[Frequency\\], instead"),
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
        ARTIFACT_LOADERS[what](path)
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
