from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from skbio import TreeNode

from aam.data.table import FeatureTable, write_biom
from aam.runtime.run_options import RunOptions
from aam.simulate.birth_death import birth_death_tree
from aam.stages import unifrac
from aam.unifrac import check, engines, store
from aam.unifrac.scikit_bio import ScikitBio
from aam.util.errors import InputError
from aam.util.seeds import generator

METRICS = ["unweighted", "weighted_normalized", "weighted_unnormalized", "generalized", "faith_pd"]
needs_ssu = pytest.mark.skipif(
    not engines.installed(), reason="ssu and faithpd are not installed (apt: unifrac-tools)"
)


@pytest.fixture
def case() -> tuple[FeatureTable, TreeNode]:
    rng = generator("case")
    tree = birth_death_tree(40, rng)
    for number, tip in enumerate(tree.tips()):
        tip.name = f"t{number}"
    counts = rng.poisson(rng.gamma(0.5, 4.0, size=(30, 40))).astype(np.int64)
    counts[:, :2] += 1
    counts = counts[:, counts.any(axis=0)]
    features = [f"t{number}" for number in range(counts.shape[1])]
    samples = [f"s{number}" for number in rng.permutation(30)]
    return FeatureTable(samples, features, csr_array(counts)), tree


@pytest.fixture
def inputs(case, tmp_path) -> dict[str, Path]:
    paths = {"table": tmp_path / "table.biom", "tree": tmp_path / "tree.nwk"}
    write_biom(paths["table"], case[0], {})
    paths["tree"].write_text(str(case[1]))
    return paths


def run(inputs, path: Path, metric: str, context: RunOptions | None = None, **changes) -> Path:
    cfg = {"metric": metric, "engine": "scikit-bio", "checked_pairs": 20}
    if metric == "generalized":
        cfg["alpha"] = 0.5
    unifrac.run(
        cfg | changes,
        inputs=inputs,
        outputs={"distances": path},
        runtime=context or RunOptions(),
    )
    return path


def read(path: Path, metric: str):
    return store.read_faith_pd(path) if metric == "faith_pd" else store.read_distances(path)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("ssu", [False, pytest.param(True, marks=needs_ssu)])
def test_samples_stay_in_the_order_of_the_table(case, inputs, tmp_path, metric, ssu, monkeypatch):
    if not ssu:
        monkeypatch.setenv("PATH", "")
    path = run(inputs, tmp_path / "out.parquet", metric, engine="auto")
    sample_ids, values = read(path, metric)
    assert sample_ids == case[0].sample_ids
    assert values.shape == ((30,) if metric == "faith_pd" else (30, 30))
    carried = store.read_provenance(path)
    assert carried["aam.engine"] == ("ssu" if ssu else "scikit-bio")
    assert {"aam.schema", "aam.version", "aam.settings", "aam.inputs"} <= set(carried)


@needs_ssu
@pytest.mark.parametrize("metric", METRICS)
def test_threads_and_scratch_folder_change_no_byte(inputs, tmp_path, metric):
    plain = run(inputs, tmp_path / "a.parquet", metric, engine="ssu")
    context = RunOptions(threads=2, work=tmp_path / "work")
    other = run(inputs, tmp_path / "b.parquet", metric, context, engine="ssu")
    assert plain.read_bytes() == other.read_bytes()


class Faulty(ScikitBio):
    """Wrong for the samples of one block, as after an overflow."""

    @contextmanager
    def distances(self, table, tree, metric, alpha):
        with super().distances(table, tree, metric, alpha) as matrix:
            wrong = matrix.copy()
            wrong[:20, :20] *= 1.001
            yield wrong

    def faith_pd(self, table, tree):
        return super().faith_pd(table, tree) * 1.001


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("other", [None, ScikitBio()])
def test_nothing_is_written_where_engines_disagree(inputs, tmp_path, metric, other, monkeypatch):
    monkeypatch.setattr(unifrac, "choose", lambda *_, **__: (Faulty(), other))
    with pytest.raises(RuntimeError, match=rf"{metric} of s\d+.* is [\d.]+, but [\d.]+ when"):
        run(inputs, tmp_path / "out" / "d.parquet", metric)
    assert not (tmp_path / "out").exists()


def test_a_missing_value_counts_as_disagreement(case):
    table, tree = case
    matrix = np.full((30, 30), np.nan)
    with pytest.raises(RuntimeError, match="is nan, but 0"):
        check.check_distances(matrix, table, tree, "unweighted", 1.0, pairs=5, other=None)


@needs_ssu
@pytest.mark.parametrize("metric", ["weighted_unnormalized", "faith_pd"])
def test_tolerance_is_relative_where_values_are_large(inputs, tmp_path, metric):
    tree = TreeNode.read(inputs["tree"])
    for node in tree.traverse(include_self=False):
        node.length *= 1e6
    inputs["tree"].write_text(str(tree))
    _, values = read(run(inputs, tmp_path / "d.parquet", metric, engine="ssu"), metric)
    assert values.max() > 1e4


def test_undefined_distances_are_the_users_problem(inputs, tmp_path):
    tree = TreeNode.read(inputs["tree"])
    for node in tree.traverse(include_self=False):
        node.length = 0.0
    inputs["tree"].write_text(str(tree))
    with pytest.raises(InputError, match=r"tree.nwk: got branches of length 0 only.*30 \(s"):
        run(inputs, tmp_path / "d.parquet", "unweighted")
    assert not (tmp_path / "d.parquet").exists()


def test_one_sample_has_no_pair_to_check(inputs, tmp_path):
    table = FeatureTable(["only"], ["t3", "t5"], csr_array(np.array([[1, 2]])))
    write_biom(inputs["table"], table, {})
    _, matrix = store.read_distances(run(inputs, tmp_path / "d.parquet", "unweighted"))
    assert matrix.tolist() == [[0.0]]


@pytest.mark.parametrize(("samples", "wanted"), [(2, 50), (5, 10), (30, 50), (2000, 50)])
def test_checked_pairs_are_distinct_and_seeded(samples, wanted):
    first, second = check.sample_pairs(samples, wanted, "unweighted")
    assert len(set(zip(first, second, strict=True))) == min(wanted, samples * (samples - 1) // 2)
    assert (first < second).all()
    assert first.min() >= 0
    assert second.max() < samples
    again = check.sample_pairs(samples, wanted, "unweighted")
    assert np.array_equal(again, (first, second))
