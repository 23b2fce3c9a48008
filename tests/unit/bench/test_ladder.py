import numpy as np
import pandas as pd
import pytest

from aam.bench import ladder
from aam.bench.case import run_case
from aam.bench.ladder import climb, rungs
from aam.config import slices
from aam.config.tree import load
from aam.data.samples import write_samples
from aam.data.tokens import write_tokens
from aam.stages import benchmark_speed
from aam.stages.entry import RunContext
from aam.unifrac.store import write_distances, write_faith_pd


@pytest.fixture(scope="module")
def files(tiny, tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("bench")
    paths = {name: folder / name for name in ("tokens", "samples")}
    tokens = tiny.tokens
    write_tokens(paths["tokens"], tokens.feature_ids, tokens.tokens, tokens.lengths, {})
    write_samples(paths["samples"], tiny.store, {})
    ids, distances = tiny.store.sample_ids, [folder / "unweighted", folder / "faith_pd"]
    write_distances(distances[0], ids, tiny.distances[0], {})
    write_faith_pd(distances[1], ids, np.arange(20.0), {})
    return {**paths, "distances": distances}


def settings(**pretraining) -> dict:
    config = load(
        {
            "datasets": {"d": {"table": "t.biom"}},
            "unifrac": {"metrics": ["unweighted", "faith_pd"]},
            "models": {
                "small": {
                    "width": 16,
                    "heads": 2,
                    "asv_layers": 1,
                    "sample_layers": 1,
                    "patch_bp": 5,
                }
            },
            "pretraining": {"batch_size": 4, **pretraining},
            "benchmark": {"batch_sizes": [4, 8], "steps": 3, "repeats": 2, "naive_asvs": 40},
        }
    )
    return slices.benchmark(config, "d", "small")


def losses(files, naive_asvs, **pretraining) -> dict:
    cfg = settings(precision="fp32", **pretraining)
    spec = {"cfg": cfg, "naive_asvs": naive_asvs, "steps": 3, "seconds": 60, "threads": 1}
    return run_case({**spec, "inputs": files})


def test_the_naive_and_the_optimized_run_learn_the_same(files):
    naive, optimized = (losses(files, asvs, nucleotide_weight=0) for asvs in (40, None))
    assert len(naive["losses"]) == len(optimized["losses"]) == 4
    np.testing.assert_allclose(naive["losses"], optimized["losses"], rtol=1e-3)
    assert len(set(naive["losses"])) == 4
    assert naive["parameters"] == optimized["parameters"]
    for result in (naive, optimized):
        assert len(result["step_s"]) == 3
        assert min(result["step_s"]) > 0
        assert result["peak_memory_mb"] > 0


def test_no_step_is_begun_after_the_time_is_up(files):
    cfg = settings(precision="fp32")
    spec = {"cfg": cfg, "naive_asvs": None, "steps": 50, "seconds": 1e-9, "threads": 1}
    assert len(run_case({**spec, "inputs": files})["step_s"]) == 1


def test_rungs_change_one_thing_at_a_time_from_naive_to_configured():
    cfg = settings()
    steps = [rung for rung in rungs(cfg) if rung.batch_size == 4]
    naive, last = steps[0], steps[-1]
    assert (naive.naive_asvs, naive.patch_bp, naive.precision, naive.level) == (
        40,
        1,
        "fp32",
        "basic",
    )
    assert (last.naive_asvs, last.patch_bp) == (None, 5)
    assert (last.precision, last.level) == (cfg["pretraining"]["precision"], "advanced")
    for one, other in zip(steps[:-1], steps[1:], strict=True):
        names = ("naive_asvs", "patch_bp", "precision", "level")
        assert sum(getattr(one, name) != getattr(other, name) for name in names) == 1
    assert {rung.batch_size for rung in rungs(cfg)} == {4, 8}


def measured(rung, cfg, inputs, threads) -> dict:
    """Stand in for a measurement: naive steps take 1 s, others 0.1 s per 4 samples."""
    step_s = 1.0 if rung.naive_asvs else 0.025 * rung.batch_size
    count = 2 if rung.naive_asvs else 4
    return {
        "step_s": [step_s * factor for factor in (1.0, 1.2, 0.8, 1.0)[:count]],
        "sizes": [rung.batch_size] * count,
        "losses": [5.0 - step - rung.patch_bp / 100 for step in range(count)],
        "peak_memory_mb": 100.0 * rung.batch_size,
        "parameters": 1234,
        "device": "none",
    }


def test_the_table_compares_samples_per_second_and_losses_at_one_step(monkeypatch):
    monkeypatch.setattr(ladder, "_run_apart", measured)
    table = climb(settings(), {}, 1)
    assert list(table.columns) == [
        "name",
        "batch_size",
        "step_ms_median",
        "step_ms_iqr",
        "samples_per_s",
        "peak_memory_mb",
        "speedup",
        "loss_after_steps",
        "loss_step",
        "timed_steps",
        "parameters",
    ]
    naive, optimized = table.iloc[0], table[table["batch_size"] == 8].iloc[-1]
    assert naive["name"] == "naive"
    assert naive["step_ms_median"] == pytest.approx(1100)
    assert naive["samples_per_s"] == pytest.approx(4 / 1.1)
    assert naive["speedup"] == 1
    assert naive["timed_steps"] == 4
    assert optimized["step_ms_median"] == pytest.approx(200)
    assert optimized["speedup"] == pytest.approx(8 / 0.2 / (4 / 1.1))
    same = table[table["batch_size"] == 4]
    assert set(same["loss_step"]) == {2}
    assert same["loss_after_steps"].tolist() == pytest.approx([3.99] * (len(same) - 1) + [3.95])
    assert set(table[table["batch_size"] == 8]["loss_step"]) == {4}


def test_a_rung_that_cannot_run_leaves_the_others_their_figures(monkeypatch, files, tmp_path):
    monkeypatch.setattr(
        ladder, "_run_apart", lambda rung, *rest: None if rung.naive_asvs else measured(rung, *rest)
    )
    outputs = {name: tmp_path / name for name in ("table", "text")}
    benchmark_speed.run(settings(), inputs=files, outputs=outputs, runtime=RunContext())
    table = pd.read_csv(outputs["table"], sep="\t")
    assert table["step_ms_median"].isna().tolist() == [True] + [False] * (len(table) - 1)
    assert "| naive | 4 | could not run |" in outputs["text"].read_text()


def test_too_few_naive_asvs_are_a_rung_that_cannot_run(files):
    cfg = {**settings(), "naive_asvs": 1}
    assert ladder._run_apart(rungs(cfg)[0], cfg, files, 1) is None


def test_repeats_are_interleaved(monkeypatch):
    order = []
    monkeypatch.setattr(
        ladder, "_run_apart", lambda rung, *rest: order.append(rung) or measured(rung, *rest)
    )
    climb(settings(), {}, 1)
    assert order == rungs(settings()) * 2


def test_a_rung_runs_in_a_process_of_its_own(files):
    cfg = {**settings(), "steps": 2}
    result = ladder._run_apart(rungs(cfg)[-1], cfg, files, 1)
    assert len(result["step_s"]) == 2
    assert len(result["losses"]) == 3


def test_the_stage_writes_a_table_and_a_page(monkeypatch, files, tmp_path):
    monkeypatch.setattr(ladder, "_run_apart", measured)
    outputs = {name: tmp_path / name for name in ("table", "text")}
    benchmark_speed.run(settings(), inputs=files, outputs=outputs, runtime=RunContext())
    table = pd.read_csv(outputs["table"], sep="\t")
    assert len(table) == len(rungs(settings()))
    text = outputs["text"].read_text()
    assert "| naive | 4 | 1100 (" in text
    assert text.count("\n| ") == len(table) + 1
    for fact in ("processor", "torch", "threads: 1", "aam.settings"):
        assert fact in text
