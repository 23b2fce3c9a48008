"""Damaged and odd files: every reader takes them, or says in one message what is wrong.

`make fuzz` tries 100,000 of each kind; `make test` the same few.
"""

import gzip
import importlib.util
import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fuzzing import VALUES, damaged, forked, fuzzed, refused
from hypothesis import given
from hypothesis import strategies as st
from qiime_artifacts import artifact, zipped
from scipy.sparse import csr_array

from aam.config.configuration import load
from aam.config.messages import read_configuration
from aam.data.importing.metadata import load_metadata
from aam.data.importing.sequences import load_sequences
from aam.data.importing.table import load_table
from aam.data.importing.taxonomy import load_taxonomy
from aam.data.importing.tree import load_tree
from aam.data.table import FeatureTable, write_biom
from aam.util.errors import InputError

COUNTS = csr_array(np.array([[5, 0, 2], [0, 7, 1]]))
TABLE = FeatureTable(["s1", "0002"], ["ACGT" * 6, "f 2", "f_3"], COUNTS)
JSON = {
    "id": None, "format": "Biological Observation Matrix 1.0.0", "format_url": "",
    "generated_by": "x", "type": "OTU table", "date": "2020-01-01T00:00:00",
    "matrix_type": "sparse", "matrix_element_type": "int", "shape": [2, 2],
    "data": [[0, 0, 3], [1, 1, 4]],
    "rows": [{"id": "a", "metadata": None}, {"id": "b", "metadata": None}],
    "columns": [{"id": "s", "metadata": None}, {"id": "t", "metadata": {"x": [1]}}],
}  # fmt: skip
TEXTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "json": (load_table, json.dumps(JSON)),
    "tsv": (load_table, "# made\n#OTU ID\ts1\t02\ttaxonomy\nf1\t1\t2.0\tk__A; p__B\nf2\t0\t4\t\n"),
    "csv": (load_table, '"","s1","s2","Total"\n"1",1,2,3\n"2",5,4,9\n"3",0,7,7\n'),
    "r": (load_table, '"s1" "s2" "s3"\n"f1" 1 2e+05 0\n"f2" 0 4 9\n'),
    "shared": (
        load_table,
        "label\tGroup\tnumOtus\tO1\tO2\n0.03\ts1\t2\t5\t0\t\n0.03\ts2\t2\t1\t7\t\n",
    ),
    "metaphlan": (
        load_table,
        "#mpa_v30\nclade_name\tNCBI_tax_id\ts1\t02\nUNKNOWN\t-1\t3\t0\nk__A\t2\t7\t9\n"
        "k__A|p__B\t2|3\t7\t9\nk__A|p__B|s__C\t2|3|4\t5\t9\nk__A|p__B|s__D\t2|3|5\t2\t0\n",
    ),
    "bracken": (
        load_table,
        "name\ttaxonomy_id\ttaxonomy_lvl\ts1_num\ts1_frac\t02_num\t02_frac\n"
        "A b\t9\tS\t5\t0.5\t0\t0.0\nA c\t10\tS\t5\t0.5\t7\t1.0\n",
    ),
    "humann": (
        load_table,
        "# Pathway\ts1_Abundance\t02_Abundance\nUNMAPPED\t3\t4\nPWY-1: a\t5\t0\n"
        "PWY-1: a|g__B.s__C\t5\t0\nPWY-2: d\t0\t6\nPWY-2: d|unclassified\t0\t6\n",
    ),
    "lineages": (
        load_table,
        '"","Kingdom","Genus","s1","02"\n"f1","A","B",5,0\n"f2","A","NA",1e3,7\n',
    ),
    "dada2": (
        load_table,
        '"","ACGTACGTACGTACGTACGTA","ACGTACGTACGTACGTACGTC"\n"s1",5,0\n"02",1,7\n',
    ),
    "cons": (load_taxonomy, "OTU\tSize\tTaxonomy\nOtu1\t9\tA(100);B(98);\nOtu2\t3\tA(70);\n"),
    "fasta": (load_sequences, ">a first\nACGTN\nacgu\n>b\nTTTT\n"),
    "newick": (load_tree, "[&R] ((a:1,'b c':2e-1)0.9:0.5,(c:1,d_e:0):1);\n"),
    "metadata": (
        load_metadata,
        '#SampleID\tage\tsite\n#q2:types\tnumeric\tcategorical\n1\t5\t"a ""b"""\n2\tNA\t\n',
    ),
    "ranks": (load_taxonomy, '"Kingdom","Phylum"\n"f1","Bacteria","NA"\n"f2","Archaea","Eury"\n'),
    "taxonomy": (load_taxonomy, "Feature ID\tTaxon\tConfidence\nf1\tk__A; s__b\t0.9\nf2\t\t1\n"),
}


BINARY = ("unicode", "gzip", "biom", "qza", "counts", "xlsx", "sheet")
SHEET = "xl/worksheets/sheet1.xml"


def write_workbook(path: Path) -> Path:
    """Write a workbook with text, numbers, zeros in front and a second sheet."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in [["#OTU ID", "s1", 2], ["f1", 1, 2.0], ["0002", 0, 4e5]]:
        book.active.append(row)
    book.active["C1"].number_format = "0000"
    book.create_sheet("notes")
    book.save(path)
    return path


def load_sheet(path: Path) -> Any:
    """Read a workbook whose first sheet is the XML in a file, which it replaces."""
    sheet = path.read_bytes()
    with zipfile.ZipFile(write_workbook(path)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return load_table(zipped(path, members | {SHEET: sheet}))


def attempt(read: Callable[[Path], Any], path: Path, content: bytes) -> bool:
    path.write_bytes(content)
    return refused(lambda: read(path), f"{path}: got ")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Callable[..., Any], bytes]]:
    """Return the readers of all kinds, each with what it reads."""
    folder = tmp_path_factory.mktemp("archives")
    write_biom(folder / "t.biom", TABLE, {})
    counts = artifact(
        folder / "counts.qza",
        "FeatureTable[Frequency]",
        member="feature-table.biom",
        content=(folder / "t.biom").read_bytes(),
    )
    own = artifact(folder / "t.qza", "Phylogeny[Rooted]", content=TEXTS["newick"][1], method=8)
    texts = {name: (read, text.encode()) for name, (read, text) in TEXTS.items()}
    texts["unicode"] = (load_table, TEXTS["tsv"][1].encode("utf-16"))
    texts["gzip"] = (load_table, gzip.compress(TEXTS["tsv"][1].encode(), mtime=0))
    archives = {"biom": (load_table, folder / "t.biom"), "qza": (load_tree, own)}
    archives["counts"] = (load_table, counts)
    if importlib.util.find_spec("openpyxl") is not None:
        archives["xlsx"] = (load_table, write_workbook(folder / "t.xlsx"))
        with zipfile.ZipFile(folder / "t.xlsx") as archive:
            texts["sheet"] = (load_sheet, archive.read(SHEET))
    return texts | {name: (read, path.read_bytes()) for name, (read, path) in archives.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*TEXTS, *BINARY])
@fuzzed
@given(data=st.data())
def test_files(kind: str, files: Any, tmp_path: Path, monkeypatch: Any, data: Any) -> None:
    if kind in ("xlsx", "sheet"):
        pytest.importorskip("openpyxl")
    monkeypatch.setattr(subprocess, "run", forked)
    read, content = files[kind]
    changed = data.draw(damaged(content) | st.just(content))
    assert not attempt(read, tmp_path / "file", changed) or changed != content


SECTIONS = "datasets models tasks predictions rarefaction unifrac pretraining finetuning runtime"


@fuzzed
@given(st.dictionaries(st.sampled_from(SECTIONS.split()) | st.text(max_size=5), VALUES, max_size=3))
def test_configurations(changes: dict[str, Any]) -> None:
    base = {
        "datasets": {"demo": {"simulate": {}}},
        "tasks": {"a": {"dataset": "demo", "column": "x", "kind": "regression", "folds": {"k": 3}}},
    }
    refused(lambda: load({**base, **changes}))


YAML = b"""\
data_dir: data
datasets: {demo: &x {table: t.biom, "tree": t.nwk}}
rarefaction: {depth: 1_000, views: 0x2}
models:
  base: {width: 128, patch_bp: 9}
tasks: {a: {<<: {kind: regression}, dataset: demo, column: 'x', folds: {k: 3}, bounds: [0, ~]}}
"""


@fuzzed
@given(data=st.data())
def test_texts_of_configurations(tmp_path: Path, data: Any) -> None:
    path, text = tmp_path / "c.yaml", data.draw(damaged(YAML) | st.just(YAML))
    path.write_bytes(text)
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        # Snakemake reads it before the workflow does, and says so.
        raw = None
    if isinstance(raw, dict):
        assert not refused(lambda: (read_configuration(path), load(raw))) or text != YAML


def test_an_alias_of_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: &x [*x, {b: 1, b: 2}]\n")
    with pytest.raises(InputError, match="duplicate keys"):
        read_configuration(tmp_path / "c.yaml")
