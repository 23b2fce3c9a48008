from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from skbio import TreeNode
from unifrac_cases import SPARSE_METRICS, compute, needs_ssu, parameters, random_case, table_of

from aam.config.metrics import METRICS
from aam.data.table import FeatureTable, write_biom
from aam.runtime.run_options import RunOptions
from aam.stages import unifrac
from aam.unifrac import check, store
from aam.unifrac.engines import ScikitBio, Sparse
from aam.util.errors import InputError

WITH_TREE = [name for name in METRICS if name not in SPARSE_METRICS]


@pytest.fixture(scope="module")
def case() -> tuple[FeatureTable, TreeNode]:
    return random_case(11, samples=30)


@pytest.fixture
def inputs(case, tmp_path) -> dict[str, Path]:
    paths = {"table": tmp_path / "table.biom", "tree": tmp_path / "tree.nwk"}
    write_biom(paths["table"], case[0], {})
    paths["tree"].write_text(str(case[1]))
    return paths


def run(inputs, path: Path, metric: str, context: RunOptions | None = None, **changes) -> Path:
    cfg = {"metric": metric, "engine": "scikit-bio", "checked_pairs": 20, **parameters(metric)}
    unifrac.run(
        cfg | changes,
        inputs=inputs,
        outputs={"distances": path},
        runtime=context or RunOptions(),
    )
    return path


def read(path: Path, metric: str):
    return (store.read_faith_pd if METRICS[metric].per_sample else store.read_distances)(path)


@pytest.mark.parametrize("ssu", [pytest.param(True, marks=needs_ssu), False])
@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_written_with_its_engine(case, inputs, tmp_path, monkeypatch, metric, ssu):
    if not ssu:
        monkeypatch.setenv("PATH", "")
    engine = Sparse() if metric in SPARSE_METRICS else ScikitBio()
    path = run(inputs, tmp_path / "out.parquet", metric, engine="auto")
    sample_ids, values = read(path, metric)
    assert sample_ids == case[0].sample_ids
    assert np.allclose(values, compute(engine, *case, metric), atol=1e-6)
    carried = store.read_provenance(path)
    named = "ssu" if ssu and metric in WITH_TREE else engine.name
    assert carried["aam.engine"] == named
    assert {"aam.schema", "aam.version", "aam.settings", "aam.inputs"} <= set(carried)


@needs_ssu
def test_threads_and_scratch_folder_change_no_byte(inputs, tmp_path):
    for metric in WITH_TREE:
        plain = run(inputs, tmp_path / "a.parquet", metric, engine="ssu")
        context = RunOptions(threads=2, work=tmp_path / "work")
        other = run(inputs, tmp_path / "b.parquet", metric, context, engine="ssu")
        assert plain.read_bytes() == other.read_bytes()


class Faulty:
    """Wrong for the samples of one block, as after an overflow."""

    name = "faulty"

    @contextmanager
    def compute(self, table, tree, metric, parameters):
        engine = Sparse() if metric in SPARSE_METRICS else ScikitBio()
        with engine.compute(table, tree, metric, parameters) as found:
            wrong = np.array(found[:])
            wrong[(slice(20),) * wrong.ndim] *= 1.001
            yield wrong


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("other", [None, ScikitBio()])
def test_nothing_is_written_where_engines_disagree(inputs, tmp_path, metric, other, monkeypatch):
    monkeypatch.setattr(unifrac, "choose", lambda *_, **__: (Faulty(), other))
    monkeypatch.setattr(unifrac, "Sparse", Faulty)
    with pytest.raises(RuntimeError, match=rf"{metric} of s\d+.* is [\d.]+, but [\d.]+ when"):
        run(inputs, tmp_path / "out" / "d.parquet", metric)
    assert not (tmp_path / "out").exists()


def test_a_missing_value_counts_as_disagreement(case):
    matrix = np.full((30, 30), np.nan)
    with pytest.raises(RuntimeError, match="is nan, but 0"):
        check.check(matrix, *case, "unweighted", {}, count=5, other=None)


def set_lengths(path: Path, change) -> None:
    tree = TreeNode.read(path)
    for node in tree.traverse(include_self=False):
        node.length = change(node.length)
    path.write_text(str(tree))


@needs_ssu
@pytest.mark.parametrize("metric", ["weighted_unnormalized", "faith_pd"])
def test_tolerance_is_relative_where_values_are_large(inputs, tmp_path, metric):
    set_lengths(inputs["tree"], lambda length: length * 1e6)
    _, values = read(run(inputs, tmp_path / "d.parquet", metric, engine="ssu"), metric)
    assert values.max() > 1e4


def test_undefined_distances_are_the_users_problem(inputs, tmp_path):
    set_lengths(inputs["tree"], lambda _: 0.0)
    with pytest.raises(InputError, match=r"tree.nwk: got branches of length 0 only.*30 \(s"):
        run(inputs, tmp_path / "d.parquet", "unweighted")
    assert not (tmp_path / "d.parquet").exists()


@pytest.mark.parametrize("metric", ["unweighted", "bray_curtis"])
def test_one_sample_has_no_pair_to_check(inputs, case, tmp_path, metric):
    write_biom(inputs["table"], table_of([[1, 2]], case[0].feature_ids[:2]), {})
    _, matrix = store.read_distances(run(inputs, tmp_path / "d.parquet", metric))
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
