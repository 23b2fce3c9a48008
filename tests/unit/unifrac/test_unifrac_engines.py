import logging
from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from skbio import TreeNode

from aam.data.table import FeatureTable
from aam.data.trees import branches
from aam.simulate.birth_death import birth_death_tree
from aam.unifrac import engines, formulas
from aam.unifrac.scikit_bio import ScikitBio
from aam.unifrac.ssu import Ssu
from aam.util.errors import InputError

METRICS = ["unweighted", "weighted_normalized", "weighted_unnormalized", "generalized"]
needs_ssu = pytest.mark.skipif(
    not engines.installed(), reason="ssu and faithpd are not installed (apt: unifrac-tools)"
)
BOTH = pytest.mark.parametrize("engine", [pytest.param(Ssu(), marks=needs_ssu), ScikitBio()])


def table_of(counts, features=None) -> FeatureTable:
    rows = csr_array(np.asarray(counts, dtype=np.int64))
    names = features or "ABCDEFGH"[: rows.shape[1]]
    return FeatureTable([f"{n:03d}" for n in range(rows.shape[0])], list(names), rows)


def tree_of(text: str) -> TreeNode:
    return TreeNode.read(StringIO(text), convert_underscores=False)


def compute(engine, table, tree, metric, alpha=0.5):
    with engine.distances(table, tree, metric, alpha) as matrix:
        return np.asarray(matrix[:], dtype=np.float64)


def random_case(seed: int) -> tuple[FeatureTable, TreeNode]:
    rng = np.random.default_rng(seed)
    features, samples = int(rng.integers(2, 30)), int(rng.integers(2, 9))
    tree = birth_death_tree(features, rng)
    for number, tip in enumerate(tree.tips()):
        tip.name = f"t{number}"
    counts = rng.poisson(rng.gamma(0.3, 8.0, size=(samples, features)))
    counts[:, 0] += counts.sum(axis=1) == 0
    present = np.flatnonzero(counts.any(axis=0))
    names = [f"t{number}" for number in present]
    return table_of(counts[:, present], names), branches.sheared(tree, names)


def permuted(table: FeatureTable, rows, columns) -> FeatureTable:
    counts = csr_array(table.counts[rows][:, columns])
    counts.sort_indices()
    samples = [table.sample_ids[row] for row in rows]
    return FeatureTable(samples, [table.feature_ids[column] for column in columns], counts)


# branch: A 1, B 2, above A and B 0.5, C 1, D 3, above C and D 0.25
HAND_TREE = "((A:1,B:2):.5,(C:1,D:3):.25);"
HAND_COUNTS = [[1, 2, 0, 0], [0, 3, 1, 0], [0, 0, 4, 4]]
HAND = {
    "unweighted": [2.25 / 4.75, 1.0, (2 + 0.5 + 3) / 6.75],
    "weighted_unnormalized": [
        1 / 3 + 2 / 12 + 0.5 / 4 + 1 / 4 + 0.25 / 4,
        1 / 3 + 4 / 3 + 0.5 + 1 / 2 + 3 / 2 + 0.25,
        6 / 4 + 1.5 / 4 + 1 / 4 + 3 / 2 + 0.25 * 3 / 4,
    ],
}


@BOTH
@pytest.mark.parametrize("metric", HAND)
def test_small_tree_by_hand(engine, metric):
    found = compute(engine, table_of(HAND_COUNTS), tree_of(HAND_TREE), metric)
    assert np.allclose(found[np.triu_indices(3, 1)], HAND[metric], atol=1e-7)
    assert np.array_equal(found, found.T)


@BOTH
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_generalized_by_hand(engine, alpha):
    table, tree = table_of([[1, 1], [3, 1]]), tree_of("(A:1,B:2);")
    total, difference = np.array([5 / 4, 3 / 4]), np.array([1 / 4, 1 / 4])
    weight = np.array([1, 2]) * total**alpha
    expected = (weight * difference / total).sum() / weight.sum()
    assert np.isclose(compute(engine, table, tree, "generalized", alpha)[0, 1], expected, atol=1e-7)


@BOTH
def test_faith_pd_by_hand(engine):
    values = engine.faith_pd(table_of(HAND_COUNTS), tree_of(HAND_TREE))
    assert values.tolist() == [3.5, 3.75, 4.25]


@BOTH
@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("metric", METRICS)
def test_tiny_tables(engine, samples, metric):
    full = compute(engine, table_of(HAND_COUNTS), tree_of(HAND_TREE), metric)
    few = compute(engine, table_of(HAND_COUNTS[:samples]), tree_of(HAND_TREE), metric)
    assert np.array_equal(few, full[:samples, :samples])


@BOTH
@pytest.mark.parametrize("metric", METRICS)
def test_one_feature_and_equal_samples_are_at_distance_0(engine, metric):
    tree = tree_of("((A:1,B:2):1,C:1);")
    assert not compute(engine, table_of([[4], [2]]), branches.sheared(tree, ["A"]), metric).any()
    twins = compute(engine, table_of([[1, 2, 3], [2, 4, 6]]), tree, metric)
    assert np.allclose(twins, 0, atol=1e-12)


@BOTH
def test_odd_names_and_many_reads(engine):
    names = ["A b", "B_c", "C'x", "D;(,[é"]
    tree = tree_of(HAND_TREE)
    for tip, name in zip(tree.tips(), names, strict=True):
        tip.name = name
    scaled = np.array(HAND_COUNTS) * 2**34
    table = FeatureTable(["s 1", "0002", "'"], names, csr_array(scaled))
    found = compute(engine, table, tree, "weighted_unnormalized")
    assert np.allclose(found[np.triu_indices(3, 1)], HAND["weighted_unnormalized"], atol=1e-6)
    assert engine.faith_pd(table, tree).tolist() == [3.5, 3.75, 4.25]
    assert [tip.name for tip in tree.tips()] == names


@BOTH
@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_order_of_rows_and_columns_does_not_matter(engine, metric, seed):
    table, tree = random_case(seed)
    rng = np.random.default_rng(seed)
    rows, columns = (rng.permutation(length) for length in table.counts.shape)
    expected = compute(engine, table, tree, metric)[np.ix_(rows, rows)]
    found = compute(engine, permuted(table, rows, columns), tree, metric)
    assert np.allclose(found, expected, atol=1e-7)


@needs_ssu
@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_engines_and_the_definition_agree(metric, seed, alpha):
    table, tree = random_case(seed)
    by_ssu = compute(Ssu(), table, tree, metric, alpha)
    by_scikit_bio = compute(ScikitBio(), table, tree, metric, alpha)
    assert np.allclose(by_ssu, by_scikit_bio, atol=1e-6)
    counts, lengths = branches.branch_counts(table, tree)
    totals = np.asarray(table.counts.sum(axis=1)).ravel()
    shares = formulas.shares(counts, totals).toarray()
    first, second = np.triu_indices(len(shares), 1)
    defined = formulas.pair_distances(shares[first], shares[second], lengths, metric, alpha)
    assert np.allclose(by_scikit_bio[first, second], defined, atol=1e-12)


@needs_ssu
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_engines_and_the_definition_agree_on_faith_pd(seed):
    table, tree = random_case(seed)
    by_scikit_bio = ScikitBio().faith_pd(table, tree)
    assert np.allclose(Ssu().faith_pd(table, tree), by_scikit_bio, atol=1e-6)
    defined = formulas.faith_pd(*branches.branch_counts(table, tree))
    assert np.allclose(by_scikit_bio, defined, atol=1e-12)


@needs_ssu
@pytest.mark.parametrize("metric", METRICS)
def test_threads_and_steps_change_no_bit(metric):
    rng = np.random.default_rng(5)
    tree = birth_death_tree(60, rng)
    for number, tip in enumerate(tree.tips()):
        tip.name = f"t{number}"
    table = table_of(1 + rng.poisson(0.5, size=(40, 60)), [f"t{n}" for n in range(60)])
    expected = compute(Ssu(), table, tree, metric)
    for engine in (Ssu(threads=2), Ssu(memory_bytes=9000), Ssu(threads=2, memory_bytes=1)):
        assert np.array_equal(compute(engine, table, tree, metric), expected)


def test_generalized_with_exponent_1_is_the_normalized_metric():
    table, tree = random_case(3)
    generalized = compute(ScikitBio(), table, tree, "generalized", 1.0)
    assert np.allclose(generalized, compute(ScikitBio(), table, tree, "weighted_normalized"))


@needs_ssu
def test_temporary_files_of_ssu_are_gone(tmp_path):
    scratch = tmp_path / "scratch"
    compute(Ssu(scratch=scratch), table_of(HAND_COUNTS), tree_of(HAND_TREE), "unweighted")
    assert list(scratch.iterdir()) == []


@needs_ssu
def test_a_failure_of_ssu_says_why():
    with pytest.raises(RuntimeError, match="ssu ended with code 1; it said: .*method"):
        compute(Ssu(), table_of(HAND_COUNTS), tree_of(HAND_TREE), "no_such")


def test_tree_is_read_with_the_features_alone_and_no_root_length(tmp_path):
    (tmp_path / "t.nwk").write_text("(((A_a:1,X:2):1,B:2):.5,(C:1,D:3):.25):7;")
    tree = branches.read_tree(tmp_path / "t.nwk", ["C", "A_a"])
    assert {tip.name for tip in tree.tips()} == {"A_a", "C"}
    assert tree.length is None
    table = table_of([[1, 1], [0, 1]], ["C", "A_a"])
    assert ScikitBio().faith_pd(table, tree).tolist() == [3.75, 2.5]


def test_branches_of_a_feature_are_those_up_to_the_root():
    membership, lengths = branches.branches(tree_of(HAND_TREE), ["D", "A"])
    above = [sorted(lengths[row > 0]) for row in membership.toarray()]
    assert above == [[0.25, 3.0], [0.5, 1.0]]
    assert lengths.sum() == 7.75


class TestChoice:
    def test_ssu_where_it_is_installed(self, monkeypatch):
        monkeypatch.setattr(engines, "installed", lambda: True)
        for setting in ("auto", "ssu"):
            engine, other = engines.choose(setting)
            assert (engine.name, other.name) == ("ssu", "scikit-bio")
        engine, other = engines.choose("scikit-bio")
        assert (engine.name, other.name) == ("scikit-bio", "ssu")

    def test_auto_without_ssu_warns_once_and_says_what_to_install(self, monkeypatch, caplog):
        monkeypatch.setenv("PATH", "")
        with caplog.at_level(logging.INFO):
            engine, other = engines.choose("auto")
        assert (engine.name, other) == ("scikit-bio", None)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "apt install unifrac-tools" in caplog.text
        assert "unifrac-binaries" in caplog.text

    def test_scikit_bio_without_ssu_is_no_reason_to_warn(self, monkeypatch, caplog):
        monkeypatch.setenv("PATH", "")
        assert engines.choose("scikit-bio")[0].name == "scikit-bio"
        assert not caplog.records

    def test_ssu_that_is_missing_is_the_users_problem(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        with pytest.raises(InputError, match=r"unifrac.engine: .*not installed.*Hint: install it"):
            engines.choose("ssu")
