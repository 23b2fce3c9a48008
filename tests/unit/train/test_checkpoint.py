import logging
import multiprocessing
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils._pytree import tree_flatten

from aam.train.checkpoint import BEST, KEPT, Checkpoints
from aam.util.digests import write_manifest
from aam.util.errors import InputError

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def is_same(one, other) -> bool:
    """Whether two values that are no collections are equal, and of the same type."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


@st.composite
def tensors(draw) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    values = torch.randint(0, 100, shape, generator=torch.Generator().manual_seed(1))
    values = values.to(draw(st.sampled_from(DTYPES))).to(draw(st.sampled_from(DEVICES)))
    return values.transpose(0, -1)[::2] if values.ndim > 1 and draw(st.booleans()) else values


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
states = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        tensors() | plain,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(max_examples=15, deadline=None)
@given(sequence=st.lists(states, min_size=1, max_size=3))
def test_both_ways_give_files_that_load_to_the_same_state(tmp_path_factory, sequence):
    """So do states that change their shape from save to save."""
    folder = tmp_path_factory.mktemp("both")
    ways = [Checkpoints(folder / str(way), "a", background=way) for way in (False, True)]
    for step, state in enumerate(sequence):
        for checkpoints in ways:
            checkpoints.save(step, state)
        (reference, shape), (loaded, other) = (tree_flatten(each.load()) for each in ways)
        assert shape == other == tree_flatten({"fingerprint": "a", "step": step, **state})[1]
        assert all(map(is_same, reference, loaded))


def test_a_shard_that_was_changed_is_not_read(tmp_path, caplog):
    folder = tmp_path / "a" / "step-000000001.sharded"
    folder.mkdir(parents=True)
    (folder / "shard-00002.safetensors").write_bytes(b"\1\2")
    write_manifest(folder)
    checkpoints = Checkpoints(tmp_path, "a")
    checkpoints.set_damaged_aside()
    assert folder.is_dir()
    (folder / "shard-00002.safetensors").write_bytes(b"\1\3")
    checkpoints.set_damaged_aside()
    assert files(tmp_path)[0].startswith("a/damaged-step-000000001.sharded")
    assert "shard-00002" in caplog.text


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_written_are_the_values_at_the_moment_of_the_call(tmp_path, monkeypatch, device):
    """The call returns before the file is there, and `wait` after."""
    opened, save = threading.Event(), torch.save
    monkeypatch.setattr(torch, "save", lambda *args: opened.wait(30) and save(*args))
    checkpoints = Checkpoints(tmp_path, "a")
    weights, ones = torch.arange(100_000.0, device=device), torch.ones(3, 4, device=device)
    state = {"weights": weights, "nested": [{"moment": ones[:, 1:3]}], "history": [{"step": 1}]}
    checkpoints.save(1, state)
    assert files(tmp_path) == []
    weights.mul_(-1)
    ones.zero_()
    state["nested"].append(2)
    state["history"][0]["step"] = 9
    state["history"].append({"step": 2})
    del state["weights"]
    opened.set()
    checkpoints.wait()
    assert files(tmp_path) == ["a/step-000000001.pt"]
    assert not [thread for thread in threading.enumerate() if "checkpoint" in thread.name]
    loaded = checkpoints.load()
    assert torch.equal(loaded["weights"], torch.arange(100_000.0))
    assert torch.equal(loaded["nested"][0]["moment"], torch.ones(3, 2))
    assert (len(loaded["nested"]), loaded["history"]) == (1, [{"step": 1}])


def test_a_save_waits_for_the_write_before_it(tmp_path, monkeypatch):
    """The copies share their memory: a write that still reads it must not see the next state."""
    save, written = torch.save, []

    def slow(state, path):
        time.sleep(0.02)
        save(state, path)
        written.append((state["step"], float(state["x"].sum())))

    monkeypatch.setattr(torch, "save", slow)
    checkpoints = Checkpoints(tmp_path, "a")
    for step in (1, 2, 3):
        checkpoints.save(step, {"x": torch.full((4,), step)})
        checkpoints.save_best(step, {"x": torch.full((4,), 10 * step)})
    checkpoints.wait()
    assert written == [(1, 4), (1, 40), (2, 8), (2, 80), (3, 12), (3, 120)]


@pytest.mark.parametrize("call", ["save", "save_best", "wait"])
def test_a_write_that_failed_is_told_at_the_next_call_and_once(tmp_path, monkeypatch, call):
    killed = tmp_path / "a" / ".partial-1-step-000000003.pt"
    killed.parent.mkdir()
    killed.write_bytes(b"half, by a process that was killed")
    checkpoints, save = Checkpoints(tmp_path, "a"), torch.save
    assert checkpoints.load() is None
    checkpoints.save(1, {"x": torch.ones(3)})
    checkpoints.wait()

    def half(state, path):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", half)
    checkpoints.save(2, {"x": torch.zeros(3)})
    with pytest.raises(OSError, match="no space"):
        checkpoints.wait() if call == "wait" else getattr(checkpoints, call)(3, {})
    assert files(tmp_path) == ["a/step-000000001.pt"]
    monkeypatch.setattr(torch, "save", save)
    assert torch.equal(checkpoints.load()["x"], torch.ones(3))
    checkpoints.save(4, {})
    assert checkpoints.load()["step"] == 4


@pytest.mark.parametrize("value", [np.float64(1), np.zeros(2), {1, 2}, nn.Linear(1, 1)])
def test_what_could_not_be_loaded_is_refused_by_name(tmp_path, value):
    checkpoints = Checkpoints(tmp_path, "a")
    with pytest.raises(TypeError, match=r"history\.1\.value, a "):
        checkpoints.save(1, {"history": [{}, {"value": value}]})
    checkpoints.wait()
    assert files(tmp_path) == []


def test_a_process_that_ends_completes_its_write(tmp_path, monkeypatch):
    save = torch.save
    monkeypatch.setattr(torch, "save", lambda *args: time.sleep(0.2) or save(*args))

    def ends():
        Checkpoints(tmp_path, "a").save(7, {"x": torch.ones(3)})
        sys.exit(3)

    process = multiprocessing.get_context("fork").Process(target=ends)
    process.start()
    process.join()
    assert process.exitcode == 3
    assert torch.equal(Checkpoints(tmp_path, "a").load()["x"], torch.ones(3))


def test_settings_that_are_changed_back_find_their_run(tmp_path, caplog):
    """And of runs with other settings the one written last is kept."""
    caplog.set_level(logging.INFO)
    (tmp_path / "finished").mkdir()
    (tmp_path / "finished" / "model.safetensors").touch()
    runs = [Checkpoints(tmp_path, 64 * digit, background=False) for digit in "123"]
    assert runs[0].load() is None
    assert caplog.text == ""
    runs[0].save(0, {})
    assert runs[1].load() is None
    assert f"the checkpoints in {tmp_path} are of other settings" in caplog.text
    assert "starting at step 1" in caplog.text
    caplog.clear()
    time.sleep(0.01)
    runs[1].save(1, {})
    state = runs[0].load()
    assert (state["step"], state["fingerprint"]) == (0, 64 * "1")
    assert "resuming after step 0" in caplog.text
    assert "starting at step 1" not in caplog.text
    for step, run in ((2, 0), (3, 2)):
        time.sleep(0.01)
        runs[run].save(step, {})
    left = [f"{12 * '1'}/step-000000000.pt", f"{12 * '1'}/step-000000002.pt"]
    assert files(tmp_path) == [*left, f"{12 * '3'}/step-000000003.pt", "finished/model.safetensors"]
    runs[2].clear()
    assert not tmp_path.exists()


def test_the_best_is_kept_beside_the_newest(tmp_path):
    checkpoints = Checkpoints(tmp_path, "a")
    assert checkpoints.load_best() is None
    for step in range(1, 6):
        checkpoints.save(step, {"x": torch.tensor(step)})
        if step in (1, 2):
            checkpoints.save_best(step, {"x": torch.tensor(10 * step)})
    best = checkpoints.load_best()
    assert (best["step"], int(best["x"])) == (2, 20)
    assert checkpoints.load()["step"] == 5
    assert len(files(tmp_path)) == KEPT + 1
    assert f"a/{BEST}" in files(tmp_path)
    assert Checkpoints(tmp_path, "b").load_best() is None


def test_a_flipped_bit_never_loads_other_values(tmp_path):
    x = torch.arange(50, dtype=torch.float32)
    rng = np.random.default_rng(0)
    content = b""
    for number in range(40):
        checkpoints = Checkpoints(tmp_path / str(number), "a", background=False)
        checkpoints.save(1, {"x": x})
        checkpoints.save(2, {"x": x + 1})
        path = tmp_path / str(number) / "a" / "step-000000002.pt"
        content = path.read_bytes()
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        state = checkpoints.load()
        assert state is not None
        assert torch.equal(state["x"], x + state["step"] - 1)
    damaged = bytearray(content)
    damaged[content.index((x + 1).numpy().tobytes())] ^= 1
    path.write_bytes(damaged)
    assert checkpoints.load()["step"] == 1
    checkpoints.save_best(3, {"x": x})
    best = path.with_name(BEST)
    best.write_bytes(best.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"best.pt: got a damaged file .* Hint: delete it"):
        checkpoints.load_best()
