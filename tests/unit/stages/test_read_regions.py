"""What `check` and the stages say of the gene and the region of reads, and of their tree."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from cut_genes import FUNGI, GENES, amplicons
from scipy.sparse import csr_array
from stage_calls import call

from aam.config import slices
from aam.config.configuration import load
from aam.config.references import references_folder
from aam.data.importing.ribosomal_genes import YEAST
from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, write_biom
from aam.reference_tree.genes import build_reference
from aam.reference_tree.nearest import reverse_complement
from aam.stages import import_tree
from aam.stages.describe import describe_study
from aam.stages.import_table import import_table
from aam.util.notes import read_notes
from aam.util.scikit_bio import TreeNode

OF_18S = [YEAST[620:1000], GENES["Arabidopsis_thaliana"][620:1000]]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no references but those of the package."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., str]:
    """Write a table of sequences, and return what is said of it, for a `tree` of the dataset."""

    def check(sequences: list[str], tree: str | bool | None = None) -> str:
        counts = csr_array(np.full((3, len(sequences)), 500))
        write_biom(tmp_path / "table.biom", FeatureTable(["x", "y", "z"], sequences, counts), {})
        dataset = {"table": "table.biom", "tree": tree}
        raw = {"datasets": {"mine": dataset}, "rarefaction": {"depth": 1}, "models": {}}
        return describe_study(slices.describe(load(raw), "mine"), table=tmp_path / "table.biom")

    return check


def lines_of_tree(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("No tree", "The sequences"))]


def test_check_says_the_region_and_how_to_get_a_reference_for_it(check):
    text = check(amplicons("341F", "805R"))
    assert "16S, V3-V4 (E. coli 358 to 784, behind 341F and before 805R)" in text
    (line,) = lines_of_tree(text)
    assert "MAFFT and FastTree" in line
    assert "aam reference get greengenes" in line


def test_check_names_the_reference_that_is_tried(check, tmp_path):
    (line,) = lines_of_tree(check(amplicons("515F", "806R")))
    assert "reference tree v4" in line
    write_fasta(tmp_path / "genes.fasta", {"a": "ACGT" * 300, "b": "GCTA" * 300})
    (tmp_path / "genes.nwk").write_text("(a:1,b:1);")
    files = {"sequences": tmp_path / "genes.fasta", "tree": tmp_path / "genes.nwk"}
    build_reference(references_folder() / "greengenes", **files)
    (line,) = lines_of_tree(check(amplicons("341F", "805R")))
    assert "reference tree greengenes" in line
    assert "v4" not in line


def test_check_says_that_v4_does_not_serve_another_region(check):
    (line,) = lines_of_tree(check(amplicons("341F", "805R"), tree="v4"))
    assert "holds V4 alone" in line
    (line,) = lines_of_tree(check(amplicons("515F", "806R"), tree="v4"))
    assert "V4 alone" not in line


def test_check_says_nothing_of_a_tree_that_is_not_made(check):
    assert not lines_of_tree(check(amplicons("341F", "805R"), tree=False))


def test_the_time_of_a_run_counts_a_tree_that_has_to_be_made(check):
    part = "the tree of the sequences:"
    assert part in check(amplicons("341F", "805R"))
    assert part in check(FUNGI)
    for primers, tree in ((("341F", "805R"), False), (("515F", "806R"), None)):
        assert part not in check(amplicons(*primers), tree=tree)


@pytest.mark.parametrize(("sequences", "gene"), [(FUNGI, "ITS"), (OF_18S, "18S")])
def test_check_sends_no_other_gene_to_a_reference_of_16s(check, sequences, gene):
    text = check(sequences)
    assert f"nucleotides: {gene}" in text
    (line,) = lines_of_tree(text)
    assert "aam reference" not in line
    assert ("tree: false" in line) == (gene == "ITS")


def test_the_page_says_what_is_odd_about_reads(tmp_path):
    reads = [reverse_complement(text) for text in amplicons("341F", "805R", with_primers=True)]
    counts = csr_array(np.full((3, len(reads)), 50))
    write_biom(tmp_path / "table.biom", FeatureTable(["x", "y", "z"], reads, counts), {})
    out = {name: tmp_path / name for name in ("table", "sequences", "dropped", "notes")}
    call(import_table, {"root": "given"}, {"table": tmp_path / "table.biom"}, out)
    notes = read_notes(out["notes"])
    said = " ".join(note.text for note in notes if note.is_caution)
    for fact in ("CCTACGGGNGGCWGCAG", "GACTACHVGGGTATCTAATCC", "reverse complements"):
        assert fact in said


@pytest.mark.parametrize(
    ("sequences", "gene"), [(FUNGI, "ITS"), (OF_18S, "18S"), (amplicons("341F", "805R"), "16S")]
)
def test_the_page_says_whether_a_made_tree_is_to_be_trusted(tmp_path, monkeypatch, sequences, gene):
    names = [f"asv{number}" for number in range(len(sequences))]
    counts = csr_array(np.full((2, len(names)), 50))
    write_biom(tmp_path / "table.biom", FeatureTable(["x", "y"], names, counts), {})
    write_fasta(tmp_path / "s.fasta", dict(zip(names, sequences, strict=True)))
    tips = [TreeNode(name, length=0.1) for name in names]
    monkeypatch.setattr(import_tree, "build_tree", Mock(return_value=TreeNode(children=tips)))
    inputs = {"table": tmp_path / "table.biom", "sequences": tmp_path / "s.fasta"}
    out = {name: tmp_path / name for name in ("tree", "notes")}
    settings = {"reference": None, "candidates": []}
    call(import_tree.import_tree, settings, inputs, out, threads=1, work=tmp_path / "work")
    notes = read_notes(out["notes"])
    said = " ".join(note.text for note in notes)
    assert f"nucleotides: {gene}" in said
    assert ("tree: false" in said) == (gene == "ITS")
    assert ("aam reference get" in said) == (gene == "16S")
    assert any(note.is_caution for note in notes) == (gene == "ITS")
