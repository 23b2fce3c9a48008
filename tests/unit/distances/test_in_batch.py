from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unifrac_cases import (
    ENGINES,
    SPARSE_METRICS,
    WITH_ENGINES,
    compute,
    random_case,
    table_of,
    tree_of,
)

from aam.config.metrics import FAITH_PD, METRICS
from aam.data.trees import write_newick
from aam.distances import in_batch
from aam.distances.engines import ScikitBio, Sparse
from aam.distances.in_batch import BatchDistances


@pytest.fixture(scope="module")
def tree_file(tmp_path_factory):
    return tmp_path_factory.mktemp("tree") / "tree.nwk"


def of_case(seed, alpha, path, metrics):
    table, tree = random_case(seed)
    write_newick(path, tree)
    return BatchDistances.from_tree(metrics, path, table.feature_ids, alpha), table, tree


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([0.0, 0.3, 1.0]))
def test_the_distances_of_a_batch_are_those_of_the_stage(tree_file, engine, seed, alpha):
    exact, table, tree = of_case(seed, alpha, tree_file, list(METRICS))
    found = exact(table.counts)
    assert list(found) == list(METRICS)
    for metric, values in found.items():
        own = engine if metric in WITH_ENGINES else ScikitBio()
        own = Sparse() if metric in SPARSE_METRICS else own
        expected = compute(own, table, tree, metric, alpha)
        tolerance = 1e-6 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(values.squeeze(), expected.squeeze(), atol=tolerance)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), metric=st.sampled_from(list(METRICS)))
def test_neither_other_rows_nor_other_metrics_nor_the_order_matter(tree_file, seed, metric):
    exact, table, _ = of_case(seed, 0.5, tree_file, list(METRICS))
    whole = exact(table.counts)[metric]
    rows = np.random.default_rng(seed).permutation(len(table.sample_ids))[:3]
    exact = BatchDistances.from_tree([metric], tree_file, table.feature_ids, 0.5)
    alone = exact(table.counts[rows])
    expected = whole[rows] if metric == FAITH_PD else whole[np.ix_(rows, rows)]
    np.testing.assert_allclose(alone[metric], expected, atol=1e-9)


@pytest.mark.filterwarnings("error")
def test_a_sample_on_branches_of_length_0_alone_has_distances_that_are_numbers(tree_file):
    write_newick(tree_file, tree_of("((flat:0,too:0):0,(b:1,c:1):1);"))
    metrics = [name for name, facts in METRICS.items() if facts.phylogenetic]
    exact = BatchDistances.from_tree(metrics, tree_file, ["flat", "too", "b", "c"], 0.5)
    reads_of_flat_ones = [3, 2, 0, 0]
    reads_of_b = [0, 0, 4, 0]
    reads_of_all = [1, 0, 1, 1]
    found = exact(table_of([reads_of_flat_ones, reads_of_b, reads_of_all]).counts)
    for values in found.values():
        assert np.isfinite(values).all()
    expected = [[0, 1, 1], [1, 0, 1 / 3], [1, 1 / 3, 0]]
    np.testing.assert_allclose(found["unweighted"], expected)


THREE_TIPS = "((A:1,B:2):0.5,C:4):0;"


def exact_on(tree_file: Path, tree: str, metrics: list[str]) -> BatchDistances:
    """Return the distances of batches on the tips A, B and C of a tree."""
    write_newick(tree_file, tree_of(tree))
    return BatchDistances.from_tree(metrics, tree_file, ["A", "B", "C"], 0.5)


@pytest.mark.parametrize("few_rows", [2, 3])
def test_weighted_unifrac_and_faith_pd_of_few_rows_and_of_many(tree_file, monkeypatch, few_rows):
    monkeypatch.setattr(in_batch, "FEW_ROWS", few_rows)
    metrics = ["weighted_unnormalized", "weighted_normalized", "faith_pd"]
    exact = exact_on(tree_file, THREE_TIPS, metrics)
    found = exact(table_of([[1, 1, 0], [0, 0, 4], [1, 2, 1]]).counts)
    assert list(found) == metrics
    # Lengths times fractions, for A, B, their parent and C: 0.5, 1, 0.5 and 0; 0, 0, 0 and 4;
    # 0.25, 1, 0.375 and 1.
    upper = [[0, 6, 1.375], [6, 0, 4.625], [1.375, 4.625, 0]]
    lower = [[4, 6, 4.625], [6, 8, 6.625], [4.625, 6.625, 5.25]]
    np.testing.assert_allclose(found["weighted_unnormalized"], upper)
    np.testing.assert_allclose(found["weighted_normalized"], np.divide(upper, lower))
    assert found["faith_pd"].tolist() == [[3.5], [4.0], [7.5]]


def test_many_rows_have_the_distances_that_few_rows_have(tree_file):
    few_rows = in_batch.FEW_ROWS
    table, tree = random_case(1, few_rows + 1)
    write_newick(tree_file, tree)
    metrics = ["weighted_unnormalized", "weighted_normalized"]
    exact = BatchDistances.from_tree(metrics, tree_file, table.feature_ids, 0.5)
    many, few = exact(table.counts), exact(table.counts[:few_rows])
    for metric in metrics:
        np.testing.assert_allclose(many[metric][:few_rows, :few_rows], few[metric], atol=1e-12)


def test_faith_pd_is_standardized(tree_file):
    # The values are 3.5 and 4; the mean is 2, and the standard deviation 4.
    scaled = replace(exact_on(tree_file, THREE_TIPS, ["faith_pd"]), faith_pd_scale=(2.0, 4.0))
    assert scaled(table_of([[1, 1, 0], [0, 0, 4]]).counts)["faith_pd"].tolist() == [[0.375], [0.5]]


def test_metrics_that_need_no_tree_read_no_file():
    metrics = ["bray_curtis", "robust_aitchison"]
    exact = BatchDistances.from_tree(metrics, Path("missing.nwk"), ["A", "B"], 0.5)
    found = exact(table_of([[1, 1], [0, 4]]).counts)
    assert list(found) == metrics
    np.testing.assert_allclose(found["bray_curtis"], [[0, 4 / 6], [4 / 6, 0]])


def test_two_rows_on_branches_of_length_0_alone_have_no_unweighted_distance(tree_file):
    write_newick(tree_file, tree_of("((flat:0,too:0):0,(b:1,c:1):1);"))
    metrics = ["unweighted", "weighted_normalized", "weighted_unnormalized"]
    exact = BatchDistances.from_tree(metrics, tree_file, ["flat", "too", "b", "c"], 0.5)
    found = exact(table_of([[3, 0, 0, 0], [0, 2, 0, 0]]).counts)
    unweighted = found["unweighted"]
    assert np.isnan(unweighted[0, 1])
    assert unweighted.diagonal().tolist() == [0.0, 0.0]
    assert not found["weighted_normalized"].any()
    assert not found["weighted_unnormalized"].any()
