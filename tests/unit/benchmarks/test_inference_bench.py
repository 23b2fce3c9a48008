import json
import time
from pathlib import Path

import numpy as np
import pytest

from aam.data.samples import SampleStore, write_samples
from aam.data.tokens import TokenStore, write_tokens
from benchmarks import inference
from benchmarks.inference import (
    AnonymousMemory,
    Setup,
    draw_study,
    embedding_times,
    run_apart,
    validation_memory,
    write_study,
)

MODEL = {
    "encoder": "transformer",
    "width": 16,
    "heads": 2,
    "asv_layers": 1,
    "sample_layers": 1,
    "patch_bp": 5,
    "ffn_ratio": 2,
}


@pytest.fixture(scope="module")
def setup(mixed_lengths, tmp_path_factory) -> Setup:
    folder, tokens = tmp_path_factory.mktemp("study"), mixed_lengths.tokens
    write_tokens(folder / "tokens", tokens.feature_ids, tokens.tokens, tokens.lengths, {})
    write_samples(folder / "samples", mixed_lengths.store, {})
    return Setup(folder / "tokens", folder / "samples", MODEL, "fp32", 1, seed=3)


@pytest.fixture
def in_this_process(monkeypatch) -> list[tuple[str, dict]]:
    """Measure without new processes; collect what was asked for, as it would have been written."""
    asked = []

    def measure(what, spec):
        asked.append((what, json.loads(json.dumps(spec))))
        return getattr(inference, what)({**asked[-1][1], "started_s": time.time()})

    monkeypatch.setattr(inference, "run_apart", measure)
    return asked


def sequences_of(tokens: TokenStore) -> list[bytes]:
    rows = zip(tokens.tokens, tokens.lengths, strict=True)
    return [letters[:length].tobytes() for letters, length in rows]


def samples_of(tokens: TokenStore, store: SampleStore) -> list[dict[bytes, int]]:
    names, bounds = sequences_of(tokens), zip(store.offsets[:-1], store.offsets[1:], strict=True)
    return [
        {names[store.asvs[k]]: int(store.counts[k]) for k in range(start, end)}
        for start, end in bounds
    ]


def test_a_smaller_study_is_some_of_the_samples(mixed_lengths):
    tokens, store = draw_study(mixed_lengths.tokens, mixed_lengths.store, 7, seed=0)
    given = samples_of(mixed_lengths.tokens, mixed_lengths.store)
    found = samples_of(tokens, store)
    assert len(found) == 7
    places = [given.index(sample) for sample in found]
    assert len(set(places)) == 7
    assert set(range(len(tokens.lengths))) == set(store.asvs.tolist())


def test_a_larger_study_has_variants_of_the_asvs_and_grows_slower_in_them(mixed_lengths):
    tokens, store = draw_study(mixed_lengths.tokens, mixed_lengths.store, 640, seed=0)
    assert len(store.sample_ids) == 640
    assert len(tokens.lengths) == round(30 * 32**0.6)
    assert len(set(sequences_of(tokens))) > 0.95 * len(tokens.lengths)
    given = mixed_lengths.tokens
    for letters, length in zip(tokens.tokens, tokens.lengths, strict=True):
        alike = given.tokens[given.lengths == length]
        assert (alike != letters).sum(axis=1).min() <= inference.SUBSTITUTIONS
    richness = set(np.diff(mixed_lengths.store.offsets).tolist())
    assert set(np.diff(store.offsets).tolist()) <= richness
    for row in range(640):
        asvs = store.asvs[store.offsets[row] : store.offsets[row + 1]]
        assert (np.diff(asvs) > 0).all()


def test_a_study_is_that_of_its_seed(mixed_lengths):
    first, again, other = (
        draw_study(mixed_lengths.tokens, mixed_lengths.store, 50, seed) for seed in (0, 0, 1)
    )
    for found, same in ((again, True), (other, False)):
        assert (first[1].asvs.tolist() == found[1].asvs.tolist()) == same
        assert (sequences_of(first[0]) == sequences_of(found[0])) == same


def test_embedding_is_timed_with_an_empty_and_a_filled_cache_in_turn(setup, in_this_process):
    rows = embedding_times(setup, numbers=(8, 30), repeats=2)
    assert [(row["samples"], row["cache"], row["repeats"]) for row in rows] == [
        (8, "empty", 2),
        (8, "filled", 2),
        (30, "empty", 2),
        (30, "filled", 2),
    ]
    whether = [(spec["cache"] is not None, spec["fill"] is not None) for _, spec in in_this_process]
    timed = [(False, False), (True, False)] * 2
    assert whether == ([(False, True)] + timed) * 2
    for row in rows:
        assert min(row[name] for name in ("wall_s", *inference.STEPS)) >= 0
        assert row["wall_s"] > row["samples_s"] > 0
        assert row["ms_per_sample"] == pytest.approx(1e3 * row["wall_s"] / row["samples"])


def test_a_filled_cache_leaves_no_asv_to_compute_and_gives_the_same_file(
    setup, in_this_process, caplog, monkeypatch
):
    caplog.set_level("INFO")
    files, measure = [], inference.run_apart

    def keep(what, spec):
        found = measure(what, spec)
        files.append(np.fromfile(Path(spec["folder"], "embeddings"), np.float32).reshape(-1, 16))
        return found

    monkeypatch.setattr(inference, "run_apart", keep)
    embedding_times(setup, numbers=(12,), repeats=1)
    assert "30 of 30 ASV embeddings read, 0 to compute" in caplog.text
    assert [len(file) for file in files] == [12] * 3
    for file in files[1:]:
        np.testing.assert_array_equal(file, files[0])


def test_validation_is_measured_against_the_held_out_samples(setup, in_this_process, monkeypatch):
    monkeypatch.setattr(inference, "SAMPLES", 5)
    rows = validation_memory(setup, numbers=(4, 25))
    assert [row["held_out"] for row in rows] == [4, 25]
    for row in rows:
        assert row["grown_mb"] == pytest.approx(row["peak_mb"] - row["start_mb"])
        assert row["start_mb"] > 10


def test_anonymous_memory_is_that_of_the_block(tmp_path):
    mapped = np.memmap(tmp_path / "file", np.uint8, "w+", shape=(64 << 20,))
    with AnonymousMemory(every_s=0.001) as nothing:
        mapped[::4096].sum()
    with AnonymousMemory(every_s=0.001) as memory:
        held = np.ones(64 << 20, np.uint8)
        for _ in range(20):
            held.sum()
    assert nothing.peak_mb - nothing.start_mb < 16
    assert 60 < memory.peak_mb - memory.start_mb < 100


def test_a_measurement_runs_in_a_process_of_its_own(setup, tmp_path):
    write_study(setup, 1030, tmp_path)
    with (tmp_path / "distances").open("wb") as handle:
        handle.truncate(4 * 1030**2)
    spec = {"model": MODEL, "folder": str(tmp_path), "seed": 0, "precision": "fp32", "threads": 1}
    found = run_apart("score", spec)
    assert found["peak_mb"] >= found["start_mb"] > 10
