import numpy as np
import pytest
from baseline_studies import random_tree

from aam.config import slices
from aam.config.configuration import load
from aam.config.settings.training import SpeedSettings
from aam.data.stores import write_samples, write_tokens
from aam.distances.store import write_distances, write_faith_pd
from benchmarks.speed.subprocess_runner import SubprocessRunner


@pytest.fixture(scope="session")
def files(tiny, tmp_path_factory) -> dict:
    """Return the files that training reads, in the places that the workflow gives them."""
    folder, tokens, ids = tmp_path_factory.mktemp("results"), tiny.tokens, tiny.store.sample_ids
    distances = [folder / "unifrac" / n / "view0.parquet" for n in ("unweighted", "faith_pd")]
    paths = {"tokens": folder / "tokens" / "asvs.arrow"}
    paths |= {"samples": folder / "views" / "samples.arrow", "distances": distances}
    for path in (paths["tokens"], paths["samples"], *distances):
        path.parent.mkdir(parents=True)
    write_tokens(paths["tokens"], tokens, {})
    write_samples(paths["samples"], tiny.store, {})
    write_distances(distances[0], ids, tiny.distances[0], {})
    write_faith_pd(distances[1], ids, np.arange(20.0), {})
    # Pretraining reads it for rows of fewer reads; steps are timed without.
    tree = folder / "inputs" / "tree.nwk"
    tree.parent.mkdir()
    tree.write_text(random_tree(tokens.feature_ids))
    return paths


def configuration(**sections) -> dict:
    """Return a configuration for those files, its sections added to or replaced."""
    model = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "patch_bp": 5}
    training = {"batch_size": 4, "optimizer": "adamw"}
    timed = {"batch_sizes": [4, 8], "repeats": 2, "naive_asvs": 40}
    return {
        "datasets": {"d": {"table": "t.biom"}},
        "unifrac": {"metrics": ["unweighted", "faith_pd"]},
        "models": {"small": model},
        "pretraining": {**training, **sections.pop("pretraining", {})},
        "benchmark": {**timed, **sections.pop("benchmark", {})},
        **sections,
    }


@pytest.fixture(scope="session")
def new_config():
    return configuration


@pytest.fixture(scope="session")
def speed_cfg():
    return lambda **sections: slices.benchmark(
        load(configuration(**sections)), "d", "small"
    ).plain()


@pytest.fixture(scope="session")
def speed_settings(speed_cfg):
    return lambda **sections: SpeedSettings.model_validate(speed_cfg(**sections))


def measured(asked) -> dict:
    """Stand in for a measurement: naive steps take 1 s, others 0.1 s per 4 samples."""
    if asked["kind"] == "device":
        return {
            **{"accelerator": False, "compiles": False, "bf16": True, "devices": 0},
            "about": {"device": "none"},
        }
    if asked["kind"] == "roofline":
        return {name: {"8 x 8 x 8": [4e9, 5e9, 9e9]} for name in [*asked["precisions"], "copy"]}
    if asked["kind"] == "graphs":
        own = {"step_s": [0.02] * 4, "peak_memory_mb": 90.0, "model_flop_utilisation": 0.1}
        modes = {mode: {**own, "losses": [4.0, 3.0]} for mode in ("kernels", "graphs")}
        return {**modes, "is_graph": True, "precision": "bf16", "shapes": 2, "batches": 4}
    size = asked["settings"]["pretraining"]["batch_size"]
    naive = asked["batch"].get("copies", False)
    step_s, count = (1.0, 2) if naive else (0.025 * size, 4)
    patch_bp = asked["settings"]["model"]["patch_bp"]
    return {
        "step_s": [step_s * factor for factor in (1.0, 1.2, 0.8, 1.0)[:count]],
        "loading_s": [0.1 * step_s] * count,
        "sizes": [size] * count,
        "distinct_asvs": [10 * size] * count,
        "flops": [int(2e8)] * count,
        "losses": [5.0 - step - patch_bp / 100 for step in range(count)],
        "recompilations": 0,
        "launches": 900,
        "peak_memory_mb": 100.0 * size,
        "parameters": 1234,
        "precision": asked["settings"]["optimization"]["precision"],
    }


@pytest.fixture
def stand_in():
    return measured


@pytest.fixture
def instead_of_processes(monkeypatch):
    """Return the function that has requests answered by another function, in this process."""

    def replace(measure) -> None:
        monkeypatch.setattr(SubprocessRunner, "__enter__", lambda self: measure)
        monkeypatch.setattr(SubprocessRunner, "__exit__", lambda self, *error: None)

    return replace
