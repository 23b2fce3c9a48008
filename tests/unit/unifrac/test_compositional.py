import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from skbio.stats.composition import rclr

from aam.data.table import FeatureTable, write_biom
from aam.runtime.run_options import RunOptions
from aam.stages import unifrac
from aam.unifrac import check, compositional, store
from aam.unifrac.compositional import METRICS


def table_of(counts) -> FeatureTable:
    rows = csr_array(np.asarray(counts, dtype=np.int64))
    names = [f"f{n}" for n in range(rows.shape[1])]
    return FeatureTable([f"s{n}" for n in range(rows.shape[0])], names, rows)


def random_counts(seed: int, samples: int = 9, features: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.3, 20.0, size=(samples, features)))
    counts[:, 0] += counts.sum(axis=1) == 0
    return counts


def compute(counts, metric: str) -> np.ndarray:
    with compositional.Sparse().distances(table_of(counts), metric) as matrix:
        return np.asarray(matrix[:])


def reference(counts, metric: str) -> np.ndarray:
    if metric == "bray_curtis":
        return cdist(counts, counts, "braycurtis")
    ratios = np.nan_to_num(rclr(counts))
    return cdist(ratios, ratios)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_distances_are_those_of_scipy_and_scikit_bio(metric, seed):
    counts = random_counts(seed)
    found = compute(counts, metric)
    assert np.allclose(found, reference(counts, metric), atol=1e-7)
    assert np.array_equal(found, found.T)
    assert not np.diagonal(found).any()


def test_by_hand():
    counts = [[1, 2, 0, 4], [0, 3, 3, 0]]
    assert compute(counts, "bray_curtis")[0, 1] == (1 + 1 + 3 + 4) / 13
    # log-ratios: -log 2, 0, absent, log 2 and absent, 0, 0, absent
    expected = np.sqrt(2) * np.log(2)
    assert compute(counts, "robust_aitchison")[0, 1] == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS)
def test_equal_samples_are_at_distance_0_and_disjoint_ones_are_not(metric):
    first = random_counts(4, samples=1)[0]
    found = compute(
        np.stack([np.r_[first, 0, 0], np.r_[first, 0, 0], np.r_[0 * first, 3, 7]]), metric
    )
    assert found[0, 1] == 0
    assert found[0, 2] > 0
    if metric == "bray_curtis":
        assert found[0, 2] == 1


def test_robust_aitchison_knows_no_depth():
    counts = random_counts(7)
    scaled = counts * np.arange(1, len(counts) + 1)[:, None]
    found = compute(scaled, "robust_aitchison")
    assert np.allclose(found, compute(counts, "robust_aitchison"), atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_rows_do_not_depend_on_the_block_they_are_asked_for_in(metric):
    with compositional.Sparse().distances(table_of(random_counts(3)), metric) as matrix:
        blocks = [matrix[start : start + 4] for start in range(0, 9, 4)]
        assert [len(block) for block in blocks] == [4, 4, 1]
        assert np.array_equal(np.concatenate(blocks), matrix[:])


@pytest.mark.parametrize("metric", METRICS)
def test_stage_writes_the_layout_of_every_metric_without_a_tree(tmp_path, metric):
    table = table_of(random_counts(5, samples=300))
    write_biom(tmp_path / "table.biom", table, {})
    (tmp_path / "tree.nwk").write_text("(not:1,its:1);")
    paths = {name: tmp_path / name for name in ("table.biom", "tree.nwk", "d.parquet")}
    unifrac.run(
        {"metric": metric, "checked_pairs": 20},
        inputs={"table": paths["table.biom"], "tree": paths["tree.nwk"]},
        outputs={"distances": paths["d.parquet"]},
        runtime=RunOptions(),
    )
    sample_ids, found = store.read_distances(paths["d.parquet"])
    assert sample_ids == table.sample_ids
    assert np.allclose(found, reference(table.counts.toarray(), metric), atol=1e-6)
    assert store.read_provenance(paths["d.parquet"])["aam.engine"] == "aam"


@pytest.mark.parametrize("metric", METRICS)
def test_a_wrong_matrix_is_refused(metric):
    table = table_of(random_counts(6))
    wrong = compute(table.counts.toarray(), metric) * 1.001
    with pytest.raises(RuntimeError, match=rf"{metric} of s\d and s\d is [\d.]+, but [\d.]+ when"):
        check.check_non_phylogenetic(wrong, table, metric, pairs=20)


@pytest.mark.parametrize("metric", METRICS)
def test_one_sample(metric):
    assert compute([[3, 4]], metric).tolist() == [[0.0]]
    assert (
        check.check_non_phylogenetic(np.zeros((1, 1)), table_of([[3, 4]]), metric, pairs=5) == 0.0
    )
