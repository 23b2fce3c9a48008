"""How the programs of other projects are called: stand-ins record it."""

import json
import os
import shutil
import stat
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unifrac_cases import compute, needs_package, needs_ssu, table_of, tree_of

from aam.data.table import FeatureTable, read_biom
from aam.distances.engines import ScikitBio
from aam.distances.packages import (
    BYTES_PER_DISTANCE,
    BYTES_PER_ENTRY,
    Ssu,
    UnifracPackage,
    feature_labels,
    package_memory_bytes,
    sample_labels,
    scratch_folder,
    write_plain_files,
)
from aam.util.scikit_bio import TreeNode

TREE = "((A:1,B:2):0.5,(C:1,D:3):0.25);"
PROGRAM = """#!{python}
import json, os, sys
given = sys.argv[1:]
kept = ("OMP_NUM_THREADS", "UNIFRAC_USE_GPU")
record = [os.path.basename(sys.argv[0]), given, {{name: os.environ[name] for name in kept}}]
with open("{record}", "a") as file:
    file.write(json.dumps(record) + chr(10))
{body}
"""


def case() -> tuple[FeatureTable, TreeNode]:
    counts = [[1, 2, 0, 0], [0, 3, 1, 0], [0, 0, 4, 4]]
    return table_of(counts, list("ABCD")), tree_of(TREE)


def put_on_path(monkeypatch, folder, name: str, body: str):
    """Make a program the first of its name on the path; return the file that records its calls."""
    record = folder / "calls.jsonl"
    path = folder / name
    path.write_text(PROGRAM.format(python=sys.executable, record=record, body=body))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return record


def read_calls(record) -> list:
    """Return the name, the arguments and the environment of each call."""
    return [json.loads(line) for line in record.read_text().splitlines()]


def test_labels_are_numbers_in_the_order_of_the_table():
    table, _ = case()
    assert sample_labels(table) == ["s0", "s1", "s2"]
    assert feature_labels(table) == ["f0", "f1", "f2", "f3"]


def test_a_table_and_its_tree_are_written_under_plain_labels(tmp_path):
    table, tree = case()
    odd = FeatureTable(["1'", "b c", "ü"], ["A", "B", "C", "D"], table.counts)
    with write_plain_files(odd, tree, tmp_path / "new") as folder:
        assert folder.parent == tmp_path / "new"
        written = read_biom(folder / "table.biom")
        assert written.sample_ids == ["s0", "s1", "s2"]
        assert written.feature_ids == ["f0", "f1", "f2", "f3"]
        assert written.counts.toarray().tolist() == table.counts.toarray().tolist()
        text = (folder / "tree.nwk").read_text()
        labelled = tree_of(text)
        assert [tip.name for tip in labelled.tips()] == ["f0", "f1", "f2", "f3"]
        assert labelled.find("f3").length == 3.0
        assert [node.name for node in labelled.non_tips(include_self=True)] == [None] * 3
    assert not folder.exists()
    assert [tip.name for tip in tree.tips()] == ["A", "B", "C", "D"]


def test_a_folder_that_a_killed_job_left_is_removed_and_no_other(tmp_path):
    (tmp_path / "unifrac-left").mkdir()
    (tmp_path / "unifrac-left" / "stripes.bin").write_text("")
    (tmp_path / "other").mkdir()
    with scratch_folder(tmp_path) as folder:
        assert {path.name for path in tmp_path.iterdir()} == {"other", folder.name}
        assert folder.name.startswith("unifrac-")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_without_a_scratch_folder_that_of_the_system_is_used_and_left_clean():
    with scratch_folder(None) as folder:
        assert folder.is_dir()
    assert not folder.exists()


def test_faithpd_is_called_with_files_threads_and_no_gpu(monkeypatch, tmp_path):
    lines = "#SampleID\tfaith_pd\ns0\t3.5\ns1\t3.75\ns2\t4.25\n"
    body = f"open(given[given.index('-o') + 1], 'w').write({lines!r})"
    record = put_on_path(monkeypatch, tmp_path, "faithpd", body)
    found = compute(Ssu(threads=3), *case(), "faith_pd")
    assert found.tolist() == [3.5, 3.75, 4.25]
    ((program, given, environment),) = read_calls(record)
    assert program == "faithpd"
    assert [Path(word).name for word in given] == [
        *("-i", "table.biom", "-t", "tree.nwk", "-o", "faith.tsv")
    ]
    assert environment == {"OMP_NUM_THREADS": "3", "UNIFRAC_USE_GPU": "N"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(3)", "faithpd ended with code 3; it said: nothing"),
        ("print('out'); sys.exit('err')", "faithpd ended with code 1; it said: out\nerr"),
        ("print('x' * 5000)", "faithpd ended with code 0; it said: " + "x" * 2000 + "$"),
    ],
)
def test_a_program_that_fails_or_writes_nothing_says_why(monkeypatch, tmp_path, body, said):
    put_on_path(monkeypatch, tmp_path, "faithpd", body)
    with pytest.raises(RuntimeError, match=said):
        compute(Ssu(), *case(), "faith_pd")


@needs_ssu
@pytest.mark.parametrize(
    ("memory_bytes", "ranges"),
    [
        # Four samples have two stripes, each with a number of bytes for each sample.
        (8 * BYTES_PER_DISTANCE - 1, [(0, 1), (1, 2)]),
        (8 * BYTES_PER_DISTANCE, [(0, 2)]),
    ],
)
def test_ssu_is_called_once_for_the_stripes_that_its_memory_holds(
    monkeypatch, tmp_path, memory_bytes, ranges
):
    body = f"os.execv('{shutil.which('ssu')}', ['ssu', *given])"
    record = put_on_path(monkeypatch, tmp_path, "ssu", body)
    table, tree = case()
    four = table_of([*table.counts.toarray().tolist(), [1, 1, 1, 1]], list("ABCD"))
    found = compute(Ssu(memory_bytes=memory_bytes), four, tree, "generalized", alpha=0.25)
    expected = compute(ScikitBio(), four, tree, "generalized", alpha=0.25)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    options = [given[6:] for _, given, _ in read_calls(record)]
    common = ["-m", "generalized_fp64", "--mode", "partial", "-a", "0.25"]
    bounds = [["--start", str(start), "--stop", str(stop)] for start, stop in ranges]
    assert options == [common + one for one in bounds]


@pytest.mark.parametrize(("engine", "kind"), [(Ssu(), np.float32), (UnifracPackage(), np.float64)])
def test_the_distance_of_one_sample_to_itself_is_zero_and_no_program_is_called(
    monkeypatch, engine, kind
):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "unifrac", None)
    _, tree = case()
    alone = table_of([[1, 2, 0, 0]], list("ABCD"))
    with engine.compute(alone, tree, "unweighted", {}) as found:
        assert found.tolist() == [[0.0]]
        assert found.dtype == kind


class RecordingPackage:
    """A package `unifrac` whose functions record what they are given."""

    def __init__(self, ids=("s0", "s1", "s2")):
        self.module = types.ModuleType("unifrac")
        self.module.__file__ = "unifrac.py"
        self.ids = ids
        self.given = []

    def matrix(self, name):
        def function(table, tree, **parameters):
            self.given.append((name, Path(table).name, Path(tree).name, parameters))
            return types.SimpleNamespace(ids=self.ids, data=np.full((3, 3), 0.5))

        return function

    def faith_pd(self, table, tree):
        self.given.append(("faith_pd", Path(table).name, Path(tree).name))
        return pd.Series([1.0, 2.0, 3.0], list(self.ids))


@pytest.mark.parametrize("names", [["generalized"], ["generalized", "generalized_fp64"]])
def test_the_package_computes_in_double_precision_where_it_can_and_on_no_gpu(monkeypatch, names):
    package = RecordingPackage()
    for name in names:
        setattr(package.module, name, package.matrix(name))
    monkeypatch.setitem(sys.modules, "unifrac", package.module)
    monkeypatch.delenv("UNIFRAC_USE_GPU", raising=False)
    found = compute(UnifracPackage(), *case(), "generalized", alpha=0.25)
    assert found.tolist() == [[0.5] * 3] * 3
    assert package.given == [(names[-1], "table.biom", "tree.nwk", {"alpha": 0.25})]
    assert os.environ["UNIFRAC_USE_GPU"] == "N"


def test_the_package_computes_faith_pd_of_the_files(monkeypatch):
    package = RecordingPackage()
    package.module.faith_pd = package.faith_pd
    monkeypatch.setitem(sys.modules, "unifrac", package.module)
    assert compute(UnifracPackage(), *case(), "faith_pd").tolist() == [1.0, 2.0, 3.0]
    assert package.given == [("faith_pd", "table.biom", "tree.nwk")]


@pytest.mark.parametrize("metric", ["unweighted", "faith_pd"])
def test_results_in_another_order_of_samples_are_an_error(monkeypatch, metric):
    package = RecordingPackage(ids=("s1", "s0", "s2"))
    package.module.unweighted_fp64 = package.matrix("unweighted_fp64")
    package.module.faith_pd = package.faith_pd
    monkeypatch.setitem(sys.modules, "unifrac", package.module)
    with pytest.raises(AssertionError, match="unifrac changed the order"):
        compute(UnifracPackage(), *case(), metric)


@needs_package
def test_the_package_leaves_no_files(tmp_path):
    compute(UnifracPackage(scratch=tmp_path), *case(), "unweighted")
    compute(UnifracPackage(scratch=tmp_path), *case(), "faith_pd")
    assert list(tmp_path.iterdir()) == []


def test_the_memory_of_the_package_grows_with_the_square_of_the_samples():
    assert package_memory_bytes(10) == 100 * BYTES_PER_ENTRY
