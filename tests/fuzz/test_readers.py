"""Damaged and odd files: every reader takes them, or says in one message what is wrong.

`make fuzz` tries 100,000 of each kind, other ones each time; `make test` the same few.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qiime_artifacts import artifact
from scipy.sparse import csr_array

from aam.config.configuration import load
from aam.config.messages import refuse_doubled_keys
from aam.data.importing.metadata import load_metadata
from aam.data.importing.sequences import load_sequences
from aam.data.importing.table import load_table
from aam.data.importing.taxonomy import load_taxonomy
from aam.data.importing.tree import load_tree
from aam.data.table import FeatureTable, write_biom
from aam.util.errors import InputError

TRIED = int(os.environ.get("FUZZ", "40"))
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
    "fasta": (load_sequences, ">a first\nACGTN\nacgu\n>b\nTTTT\n"),
    "newick": (load_tree, "[&R] ((a:1,'b c':2e-1)0.9:0.5,(c:1,d_e:0):1);\n"),
    "metadata": (
        load_metadata,
        '#SampleID\tage\tsite\n#q2:types\tnumeric\tcategorical\n1\t5\t"a ""b"""\n2\tNA\t\n',
    ),
    "taxonomy": (load_taxonomy, "Feature ID\tTaxon\tConfidence\nf1\tk__A; s__b\t0.9\nf2\t\t1\n"),
}
TOKENS = [
    *(b"", b"\0", b"\t", b"\n", b"\r", b'"', b"'", b"#", b";", b":", b"(", b")", b",", b"[", b"{"),
    *(b"\xff\xfe", b"\xef\xbb\xbf", "é".encode(), b"NaN", b"inf", b"-1", b"1e400", b"9" * 400),
    *(
        b"null",
        b"true",
        b"#q2:types",
        b"#q2:missing\tblank",
        b"()" * 500,
        b"&a [*a]",
        b"..",
        b"\x1b",
    ),
]


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """Return the content after a few changes: bits flipped, spans cut or doubled, tokens put in."""
    for _ in range(draw(st.integers(1, 4))):
        start, stop = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        kind = draw(st.sampled_from(["flip", "cut", "double", "token", "end"]))
        if kind == "flip" and start < len(content):
            flipped = bytes([content[start] ^ (1 << draw(st.integers(0, 7)))])
            content = content[:start] + flipped + content[start + 1 :]
        elif kind == "cut":
            content = content[:start] + content[min(stop, start + 40) :]
        elif kind == "double":
            content = content[:stop] + content[start:]
        elif kind == "token":
            content = content[:start] + draw(st.sampled_from(TOKENS)) + content[start:]
        else:
            content = content[:stop]
    return content


def attempt(read: Callable[[Path], Any], path: Path, content: bytes) -> None:
    path.write_bytes(content)
    said = f"{path}: got . Hint: "
    try:
        read(path)
    except InputError as error:
        said = str(error)
    assert said.startswith(f"{path}: got ")
    assert "Hint: " in said


def fuzzed(function: Callable[..., None]) -> Callable[..., None]:
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    few = {"derandomize": True} if TRIED < 1000 else {}
    return settings(max_examples=TRIED, deadline=10_000, suppress_health_check=quiet, **few)(
        function
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", TEXTS)
@fuzzed
@given(data=st.data())
def test_texts(kind: str, tmp_path: Path, data: Any) -> None:
    read, text = TEXTS[kind]
    attempt(read, tmp_path / "file", data.draw(damaged(text.encode())))


@pytest.fixture(scope="module")
def archives(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Callable[..., Any], bytes]]:
    folder = tmp_path_factory.mktemp("archives")
    write_biom(folder / "t.biom", TABLE, {})
    own = artifact(folder / "t.qza", "Phylogeny[Rooted]", content=TEXTS["newick"][1], method=8)
    found = {"biom": (load_table, folder / "t.biom"), "qza": (load_tree, own)}
    return {name: (read, path.read_bytes()) for name, (read, path) in found.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["biom", "qza"])
@fuzzed
@given(data=st.data())
def test_archives(kind: str, archives: Any, tmp_path: Path, data: Any) -> None:
    read, content = archives[kind]
    attempt(read, tmp_path / "file", data.draw(damaged(content)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
SECTIONS = "datasets models tasks predictions rarefaction unifrac pretraining finetuning runtime"


@fuzzed
@given(st.dictionaries(st.sampled_from(SECTIONS.split()) | st.text(max_size=5), VALUES, max_size=3))
def test_configurations(changes: dict[str, Any]) -> None:
    base = {
        "datasets": {"demo": {"simulate": {}}},
        "tasks": {"a": {"dataset": "demo", "column": "x", "kind": "regression", "folds": {"k": 3}}},
    }
    said = "Hint: "
    try:
        load({**base, **changes})
    except InputError as error:
        said = str(error)
    assert "Hint: " in said


def test_an_alias_of_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: &x [*x, {b: 1, b: 2}]\n")
    with pytest.raises(InputError, match="occur twice"):
        refuse_doubled_keys(tmp_path / "c.yaml")
