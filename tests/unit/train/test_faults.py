"""Faults are provoked: what a run does about each, and that nothing of it is lost.

What is not finite is in `test_stability.py`, too little memory in `test_step_memory.py`.
"""

import gc
import logging
import os
import resource
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from aam.batches.distance_matrices import load_matrices
from aam.distances import store
from aam.train import loop
from aam.train.checkpoint import Checkpoints, NotSaved
from aam.train.loop import WORKERS_LOST, TimeIsUp, WorkerDied
from aam.train.monitoring import monitor
from aam.util.errors import InputError

STEPS = 10


@pytest.fixture
def fill():
    """Return the function that fills the disk: no file of this process may grow beyond 1000 bytes.

    `fill(False)` frees it. Python lets the signal that would end the process pass.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def change(is_full: bool = True) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000 if is_full else soft, hard))

    yield change
    change(False)
    signal.signal(signal.SIGXFSZ, handler)


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.stem[5:]) for path in folder.rglob("step-*.pt"))


@pytest.mark.parametrize("background", [True, False])
def test_a_full_disk_stops_no_training_and_costs_no_checkpoint(
    train, whole, feed_with, tmp_path, caplog, fill, background
):
    seen = {}

    def call(step):
        if step in (4, 7):
            # The write of the step before is over, well or not.
            time.sleep(0.2)
            fill(step == 4)
        seen[step] = steps_in(tmp_path)

    weights, _ = train(tmp_path, feed_with(call), background=background)
    assert weights == whole
    assert seen[6] == [3, 4]
    assert 8 in seen[9], "the first with room, though the failure before is told in the same call"
    assert steps_in(tmp_path) == [9, 10]
    assert caplog.text.count("could not be written") == 1
    assert "training goes on" in caplog.text


def test_a_run_that_ends_while_the_disk_is_full_goes_on_from_before(
    train, whole, interrupt, tmp_path, fill
):
    interrupt(tmp_path, 8, lambda step: step == 4 and fill(), background=False)
    late = {"deadline": time.time() - 1, "checkpoint_every_s": 1e9}
    with pytest.raises(TimeIsUp, match="no checkpoint could be written"):
        train(tmp_path, runtime=late)
    fill(False)
    with pytest.raises(TimeIsUp, match="step 5 of 10; the checkpoint is written"):
        train(tmp_path, runtime=late)
    assert train(tmp_path)[0] == whole


def test_the_room_of_a_file_that_could_not_be_written_is_free_at_once(tmp_path, fill):
    """A traceback that is kept would keep the file open, which counts until it is closed."""
    checkpoints = Checkpoints(tmp_path, "a")
    fill()
    gc.disable()
    try:
        checkpoints.save(1, {"x": torch.ones(10_000)})
        with pytest.raises(NotSaved):
            checkpoints.wait()
        links = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        held = [str(path.readlink()) for path in links]
    finally:
        gc.enable()
    assert not [path for path in held if "partial" in path]


def test_best_weights_that_cannot_be_written_end_the_run_and_not_silently_with_others(
    train, feed_with, tmp_path, fill, new_validation
):
    scores = [0.1, 0.2, 0.3, 0.9, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0]
    expected, _ = train(tmp_path / "whole", validation=new_validation(scores, patience=9))
    dataset = feed_with(lambda step: step == 3 and fill())
    validation = new_validation(scores, patience=9)
    with pytest.raises(InputError, match="make room on that disk"):
        train(tmp_path / "a", dataset, validation=validation, background=False)
    fill(False)
    assert steps_in(tmp_path / "a")[-1] == 3
    assert train(tmp_path / "a", validation=new_validation(scores[3:], patience=9))[0] == expected


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "garbage": lambda data: b"\x80\x04 not a checkpoint" * 100,
    "zeros at its end": lambda data: data[:-2000] + bytes(2000),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_of_a_checkpoint_that_cannot_be_read_the_one_before_is_taken(tmp_path, caplog, damage):
    caplog.set_level(logging.INFO)
    checkpoints = Checkpoints(tmp_path, "a", background=False)
    for step in (5, 6):
        checkpoints.save(step, {"x": torch.arange(5000.0)})
    newest = tmp_path / "a" / "step-000000006.pt"
    newest.write_bytes(DAMAGE[damage](newest.read_bytes()))
    assert checkpoints.load()["step"] == 5
    assert caplog.text.count("cannot be read") == 1
    assert "resuming after step 5" in caplog.text
    assert newest.with_name("damaged-step-000000006.pt").exists()


def test_where_no_checkpoint_can_be_read_the_run_begins_anew(
    train, whole, interrupt, tmp_path, caplog
):
    interrupt(tmp_path, 6)
    for path in tmp_path.rglob("*.pt"):
        path.write_bytes(b"")
    assert train(tmp_path)[0] == whole
    assert caplog.text.count("cannot be read") == 2


@pytest.fixture
def one_worker(whole, monkeypatch) -> list[int]:
    """Let a CPU have a worker, and return the steps that loaders began with."""
    starts, here = [], loop.load_batches

    def with_worker(dataset, first, workers, pin, devices):
        starts.append(first)
        return here(dataset, first, workers=1, pin=False)

    monkeypatch.setattr(loop, "load_batches", with_worker)
    asked = _MultiProcessingDataLoaderIter._try_get_data
    monkeypatch.setattr(asked, "__defaults__", (0.2,))
    return starts


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
def test_a_worker_that_dies_is_replaced_and_nothing_changes(
    train, whole, feed_with, tmp_path, caplog, one_worker, always
):
    parent, flag = os.getpid(), tmp_path / "died"

    def die(step):
        if step == 5 and os.getpid() != parent and (always or not flag.exists()):
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    before = signal.getsignal(signal.SIGCHLD)
    dataset = feed_with(die)
    if always:
        with pytest.raises(WorkerDied, match="DataLoader worker"):
            train(tmp_path, dataset)
        assert len(one_worker) == 1 + WORKERS_LOST
        assert max(one_worker) <= 5
        return
    weights, progress = train(tmp_path, dataset)
    assert flag.exists()
    assert weights == whole
    losses = [r["step"] for r in progress.history if r["name"] == "loss"]
    assert losses == list(range(1, STEPS + 1))
    assert caplog.text.count("DataLoader worker") == caplog.text.count("others are started") == 1
    # Torch's handler would raise in the middle of an update.
    assert signal.getsignal(signal.SIGCHLD) == before


def test_where_memory_is_nearly_full_what_can_be_freed_is(monkeypatch, caplog):
    """But not in each step: it takes a while."""
    freed, clock = [], SimpleNamespace(now=0.0)
    times = SimpleNamespace(perf_counter=lambda: clock.now, process_time=lambda: 0.0)
    monkeypatch.setattr(monitor, "time", times)
    monkeypatch.setattr(monitor, "SAMPLE_EVERY_S", 1e6)
    monkeypatch.setattr(monitor, "recover", lambda: freed.append(clock.now))
    taken_mb = psutil.Process().memory_info().rss / 2**20
    for most_mb, expected in ((2 * taken_mb, []), (1.1 * taken_mb, [0.0, 75.0])):
        clock.now = 0.0
        monkeypatch.setattr(monitor, "total_mb", lambda device, most_mb=most_mb: most_mb)
        with monitor.Monitor(torch.device("cpu"), threshold=0.8) as watched:
            for _ in range(5):
                watched._sample()
                watched.step(8)
                clock.now += 25
            values = watched.read_and_reset()
        assert values["memory_share"] == pytest.approx(taken_mb / most_mb, rel=0.1)
        assert freed == expected
        assert values.get("memory_reliefs", 0) == len(expected)
    assert caplog.text.count("of memory are taken") == 1


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_distances_that_are_not_finite_are_refused_where_they_are_read(
    tmp_path, monkeypatch, value
):
    monkeypatch.setattr(store, "_assert_distances", lambda *_: None)
    ids, matrix = [f"s{i}" for i in range(4)], np.zeros((4, 4), np.float32)
    matrix[2, 1] = value
    path = tmp_path / "unweighted.parquet"
    store.write_distances(path, ids, matrix, {})
    message = r"unweighted.parquet: got distances that are not finite, of sample 's2'"
    with pytest.raises(InputError, match=message):
        load_matrices([path], ["unweighted"], 1, ids)
