"""Which engine computes a metric, alone and for the jobs of a cluster, and what it returns."""

import math

import numpy as np
import pytest
from refusals import refused
from unifrac_cases import compute, random_case

from aam.config.metrics import METRICS
from aam.distances import engines
from aam.distances.engines import ScikitBio, Sparse, choose_engine, choose_engine_for_jobs
from aam.distances.packages import BYTES_PER_ENTRY, PROGRAMS, Ssu
from aam.distances.products import Products

MOST = math.isqrt(Ssu.memory_bytes // BYTES_PER_ENTRY)
"""Samples whose distances the package computes within the memory that `ssu` may take."""


def test_engines_get_the_threads_and_the_folder_that_are_given(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "has_ssu", lambda: True)
    monkeypatch.setattr(engines, "import_fault", lambda: None)
    given = {"samples": 100, "threads": 3, "scratch": tmp_path}
    for setting in ("auto", "unifrac", "ssu", "products"):
        engine, other = choose_engine(setting, metric="unweighted", **given)
        assert (engine.threads, engine.scratch) == (3, tmp_path)
        assert isinstance(other, ScikitBio)
    slow, fast = choose_engine("scikit-bio", metric="unweighted", **given)
    assert isinstance(slow, ScikitBio)
    assert (fast.threads, fast.scratch) == (3, tmp_path)


def test_a_metric_of_this_package_has_no_other_engine(monkeypatch):
    facts = METRICS["generalized"]
    monkeypatch.setitem(METRICS, "generalized", type(facts)("x", has_engines=False))
    engine, other = choose_engine("ssu", samples=5, metric="generalized")
    assert isinstance(engine, ScikitBio)
    assert other is None


@pytest.mark.parametrize(
    ("setting", "samples", "metric", "kind"),
    [
        ("auto", MOST, "unweighted", Ssu),
        ("auto", MOST + 1, "unweighted", Products),
        ("products", 5, "weighted_normalized", Products),
        ("products", 5, "generalized", Ssu),
        ("ssu", 20_000, "unweighted", Ssu),
    ],
)
def test_jobs_share_products_or_ssu(monkeypatch, tmp_path, setting, samples, metric, kind):
    monkeypatch.setattr(engines, "has_ssu", lambda: True)
    given = {"samples": samples, "metric": metric, "threads": 2, "scratch": tmp_path}
    engine = choose_engine_for_jobs(setting, **given)
    assert isinstance(engine, kind)
    assert (engine.threads, engine.scratch) == (2, tmp_path)


def test_jobs_that_need_ssu_are_refused_where_it_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "has_ssu", lambda: False)
    given = {"samples": 5, "metric": "generalized", "threads": 2, "scratch": tmp_path}
    for setting in ("auto", "products", "ssu"):
        message = (
            "unifrac.partitions: got a number of jobs of ssu",
            r"\(ssu and faithpd are not on",
        )
        with refused(*message):
            choose_engine_for_jobs(setting, **given)


@pytest.mark.parametrize("missing", [None, *PROGRAMS])
def test_ssu_needs_both_of_its_programs(monkeypatch, missing):
    monkeypatch.setattr(engines.shutil, "which", lambda name: None if name == missing else name)
    assert engines.has_ssu() == (missing is None)


@pytest.mark.parametrize("metric", METRICS)
def test_values_are_arrays_of_double_precision(metric):
    table, tree = random_case(2, 5)
    facts = METRICS[metric]
    engine = ScikitBio() if facts.phylogenetic else Sparse()
    given = facts.parameters_in({"alpha": 0.5})
    with engine.compute(table, tree, metric, given) as found:
        values = np.asarray(found[:])
    assert values.dtype == np.float64
    assert values.shape == ((5,) if facts.per_sample else (5, 5))


def test_weighted_unifrac_is_normalized_only_where_its_name_says_so():
    table, tree = random_case(2, 5)
    plain, normalized = (
        compute(ScikitBio(), table, tree, f"weighted_{name}")
        for name in ("unnormalized", "normalized")
    )
    assert normalized.max() <= 1
    assert not np.allclose(plain, normalized)
