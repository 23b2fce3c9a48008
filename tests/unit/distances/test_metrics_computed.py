import importlib
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from unifrac_cases import (
    ENGINES,
    SPARSE_METRICS,
    WITH_ENGINES,
    WITH_TREE,
    compute,
    needs_package,
    needs_ssu,
    random_case,
    table_of,
    tree_of,
)

from aam.config.metrics import METRICS
from aam.data.table import FeatureTable
from aam.data.trees import branch_fractions, read_tree
from aam.distances import engines
from aam.distances.engines import ScikitBio, Sparse
from aam.distances.formulas import FORMULAS
from aam.distances.packages import NOT_INSTALLED, Ssu, UnifracPackage, import_fault
from aam.distances.products import COMPUTED, Products
from aam.util.errors import InputError

EACH = pytest.mark.parametrize("engine", ENGINES)
EVERY = [
    *(pytest.param(UnifracPackage(), metric, marks=needs_package) for metric in WITH_ENGINES),
    *(pytest.param(Ssu(), metric, marks=needs_ssu) for metric in WITH_ENGINES),
    *((ScikitBio(), metric) for metric in WITH_TREE),
    *((Products(), metric) for metric in COMPUTED),
    *((Sparse(), metric) for metric in SPARSE_METRICS),
]

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
hand_table = partial(table_of, features="ABCD")


def test_distances_without_a_tree_are_those_of_reads_and_of_log_ratios():
    counts = table_of([[1, 2, 0, 4], [0, 3, 3, 0]])
    assert compute(Sparse(), counts, None, "bray_curtis")[0, 1] == (1 + 1 + 3 + 4) / 13
    # log-ratios: -log 2, 0, absent, log 2 and absent, 0, 0, absent
    expected = np.sqrt(2) * np.log(2)
    assert compute(Sparse(), counts, None, "robust_aitchison")[0, 1] == pytest.approx(expected)


@EACH
def test_odd_names_and_many_reads_change_no_distance(engine):
    names = ["A b", "B_c", "C'x", "D;(,[é"]
    tree = tree_of(HAND_TREE)
    for tip, name in zip(tree.tips(), names, strict=True):
        tip.name = name
    table = FeatureTable(["s 1", "0002", "'"], names, csr_array(np.array(HAND_COUNTS) * 2**34))
    for metric, expected in HAND.items():
        found = compute(engine, table, tree, metric)
        assert np.allclose(found[np.triu_indices(3, 1)], expected, atol=1e-7)
    assert compute(engine, table, tree, "faith_pd").tolist() == [3.5, 3.75, 4.25]
    assert [tip.name for tip in tree.tips()] == names


@pytest.mark.parametrize(("engine", "metric"), EVERY)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_every_engine_follows_the_definition_whatever_the_order(engine, metric, seed, alpha):
    table, tree = random_case(seed)
    found = compute(engine, table, tree, metric, alpha)
    definition, samples = FORMULAS[metric].definition, len(table.sample_ids)
    tolerance = 1e-7 if isinstance(engine, ScikitBio | Sparse) else 1e-6
    if METRICS[metric].phylogenetic:
        fractions, lengths = branch_fractions(table, tree)
        given = METRICS[metric].parameters_in({"alpha": alpha})
        definition = partial(definition, length_E=lengths, **given)
        rows = fractions.toarray()
    else:
        rows = table.counts.toarray().astype(np.float64)
    rng = np.random.default_rng(seed)
    order, columns = (rng.permutation(length) for length in table.counts.shape)
    names = [table.feature_ids[column] for column in columns]
    shuffled = table_of(table.counts.toarray()[np.ix_(order, columns)], names)
    again = compute(engine, shuffled, tree, metric, alpha)
    assert np.allclose(again, found[np.ix_(*[order] * found.ndim)], atol=tolerance)
    if METRICS[metric].per_sample:
        assert np.allclose(found, definition(rows), atol=tolerance)
        return
    first, second = np.triu_indices(samples, 1)
    assert np.allclose(found[first, second], definition(rows[first], rows[second]), atol=tolerance)
    assert np.array_equal(found, found.T)
    assert not np.diagonal(found).any()


@pytest.mark.parametrize(("engine", "metric"), EVERY)
def test_few_samples_and_one_feature(engine, metric):
    tree = tree_of(HAND_TREE)
    full = compute(engine, hand_table(HAND_COUNTS), tree, metric)
    for samples in (1, 2):
        few = compute(engine, hand_table(HAND_COUNTS[:samples]), tree, metric)
        assert np.array_equal(few, full[(slice(samples),) * full.ndim])
    if not METRICS[metric].per_sample:
        alone = compute(engine, table_of([[4], [4]], "A"), tree.shear(["A"], prune=False), metric)
        assert not alone.any()
        twins = compute(engine, hand_table([[1, 2, 3, 0], [1, 2, 3, 0]]), tree, metric)
        assert np.allclose(twins, 0, atol=1e-12)


@pytest.mark.parametrize("metric", SPARSE_METRICS)
def test_rows_do_not_depend_on_the_block_they_are_asked_for_in(metric):
    with Sparse().compute(random_case(3, 9)[0], None, metric, {}) as matrix:
        blocks = [matrix[start : start + 4] for start in range(0, 9, 4)]
        assert [len(block) for block in blocks] == [4, 4, 1]
        assert np.array_equal(np.concatenate(blocks), matrix[:])


@needs_ssu
def test_a_failure_of_ssu_says_why_and_leaves_no_files(tmp_path):
    engine = Ssu(scratch=tmp_path / "scratch")
    case = hand_table(HAND_COUNTS), tree_of(HAND_TREE)
    compute(engine, *case, "unweighted")
    failing = engine.compute_stripes(*case, "no_such", {}, 0, 1)
    with pytest.raises(RuntimeError, match="ssu ended with code 1; it said: .*method"), failing:
        pass
    assert list(engine.scratch.iterdir()) == []


def test_tree_is_read_with_the_features_alone_and_no_root_length(tmp_path):
    (tmp_path / "t.nwk").write_text("(((A_a:1,X:2):1,B:2):.5,(C:1,D:3):.25):7;")
    tree = read_tree(tmp_path / "t.nwk", ["C", "A_a"])
    assert {tip.name for tip in tree.tips()} == {"A_a", "C"}
    assert tree.length is None
    table = table_of([[1, 1], [0, 1]], ["C", "A_a"])
    assert compute(ScikitBio(), table, tree, "faith_pd").tolist() == [3.75, 2.5]


FAST = ("unifrac", "ssu")


def set_installed(monkeypatch, names, fault=NOT_INSTALLED):
    """Make these fast engines those that are installed."""
    monkeypatch.setattr(engines, "has_ssu", lambda: "ssu" in names)
    monkeypatch.setattr(engines, "import_fault", lambda: None if "unifrac" in names else fault)


def chosen(setting, samples=100, metric="generalized"):
    pair = engines.choose_engine(setting, samples=samples, metric=metric)
    return tuple(engine and engine.name for engine in pair)


@pytest.mark.parametrize(
    ("setting", "installed", "names"),
    [
        ("auto", FAST, ("unifrac", "scikit-bio")),
        ("auto", ["unifrac"], ("unifrac", "scikit-bio")),
        ("auto", ["ssu"], ("ssu", "scikit-bio")),
        ("auto", [], ("scikit-bio", None)),
        ("unifrac", FAST, ("unifrac", "scikit-bio")),
        ("ssu", FAST, ("ssu", "scikit-bio")),
        ("scikit-bio", FAST, ("scikit-bio", "unifrac")),
        ("scikit-bio", ["ssu"], ("scikit-bio", "ssu")),
        ("scikit-bio", [], ("scikit-bio", None)),
    ],
)
def test_choice_of_engines(monkeypatch, caplog, setting, installed, names):
    set_installed(monkeypatch, installed)
    assert chosen(setting) == names
    # Without a fast engine one warning says what to install; unless that was the wish.
    warned = setting == "auto" and not installed
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warned
    assert ("apt install unifrac-tools" in caplog.text) == warned


@pytest.mark.parametrize("setting", FAST)
def test_an_engine_that_is_asked_for_has_to_be_installed(monkeypatch, setting):
    set_installed(monkeypatch, set(FAST) - {setting}, "no libssu.so")
    why = {"unifrac": r"cannot be imported \(no libssu.so\)", "ssu": "not installed"}[setting]
    with pytest.raises(InputError, match=rf"unifrac.engine: .*{why}.*Hint: install it"):
        chosen(setting)


def test_large_matrices_are_left_to_the_engine_that_bounds_its_memory(monkeypatch):
    set_installed(monkeypatch, FAST)
    assert chosen("auto", 10922) == chosen("unifrac", 100_000) == ("unifrac", "scikit-bio")
    assert chosen("auto", 10923) == ("ssu", "scikit-bio")
    set_installed(monkeypatch, ["unifrac"])
    assert chosen("auto", 10923) == ("unifrac", "scikit-bio")


def test_products_are_for_large_studies_and_not_for_generalized_unifrac(monkeypatch):
    set_installed(monkeypatch, FAST)
    for metric in COMPUTED:
        assert chosen("auto", 10922, metric) == ("unifrac", "scikit-bio")
        assert chosen("auto", 10923, metric) == ("products", "scikit-bio")
        assert chosen("products", 5, metric) == ("products", "scikit-bio")
        assert chosen("ssu", 10923, metric) == ("ssu", "scikit-bio")
    for metric in WITH_ENGINES:
        if metric not in COMPUTED:
            assert chosen("auto", 10923, metric) == ("ssu", "scikit-bio")
            assert chosen("products", 5, metric) == chosen("auto", 5, metric)
    set_installed(monkeypatch, [])
    assert chosen("auto", 10923, "unweighted") == ("products", "scikit-bio")


def test_a_package_that_is_installed_but_broken_is_named(monkeypatch, caplog):
    set_installed(monkeypatch, ["ssu"], "no libssu.so")
    assert chosen("auto") == ("ssu", "scikit-bio")
    assert "unifrac is installed, but cannot be imported: no libssu.so" in caplog.text


BROKEN = {
    "none": ("", NOT_INSTALLED),
    "folder": ("mkdir", NOT_INSTALLED),
    "library": ("raise ImportError('libssu.so: no such file')", "libssu.so: no such file"),
    "module": ("import pkg_resources_of_old", "No module named 'pkg_resources_of_old'"),
    "numpy": ("raise ValueError('numpy.dtype size changed')", "numpy.dtype size changed"),
    "whole": ("unweighted = None", None),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_keeps_the_package_from_being_imported(monkeypatch, tmp_path, case):
    text, expected = BROKEN[case]
    if text:
        (tmp_path / "unifrac").mkdir()
    if text not in ("", "mkdir"):
        (tmp_path / "unifrac" / "__init__.py").write_text(text)
    elsewhere = [folder for folder in sys.path if not (Path(folder) / "unifrac").is_dir()]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *elsewhere])
    for name in [name for name in sys.modules if name.split(".")[0] == "unifrac"]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    assert import_fault() == expected
    sys.modules.pop("unifrac", None)


def test_the_package_is_loaded_where_it_computes_and_without_torch():
    """Other stages read distances, and need not wait for it."""
    code = (
        "import sys, aam.stages.unifrac_part, aam.distances.engines as engines\n"
        "assert 'unifrac' not in sys.modules\n"
        "engines.choose_engine('auto', samples=2, metric='unweighted')\n"
        "print('torch' in sys.modules, 'unifrac' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.stderr == ""
    assert printed.stdout.split() == ["False", str(import_fault() is None)]
