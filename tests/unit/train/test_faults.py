"""Faults are provoked: what a run does about each, and that nothing of it is lost.

Batches, gradients and learning rates that are not finite are in `test_stability.py`.
"""

import gc
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from aam.config.sections.training import EarlyStoppingSettings
from aam.train import loop
from aam.train.checkpoint import BEST, BestNotSaved, Checkpoints, NotSaved
from aam.train.data.distances import load_matrices
from aam.train.early_stopping import EarlyStopping
from aam.train.loop import WORKERS_LOST, TimeIsUp, Validation, WorkerDied
from aam.train.monitoring import monitor
from aam.unifrac.store import write_distances
from aam.util.errors import InputError

STEPS = 10


class Disk:
    """Full is a disk where no file of this process may grow beyond a thousand bytes."""

    def __init__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, self.before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)

    def between(self, first: int, last: int = STEPS):
        """Return what fills it before one step and frees it before another."""
        return lambda step: self.fill() if step == first else step == last and self.free()


@pytest.fixture
def disk():
    """Return the disk; Python lets the signal that would end the process pass."""
    disk, handler = Disk(), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield disk
    disk.free()
    signal.signal(signal.SIGXFSZ, handler)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("background", [True, False])
def test_a_full_disk_stops_no_training_and_costs_no_checkpoint(
    train, feed_with, tmp_path, caplog, disk, background
):
    expected, _ = train()
    seen, changes = {}, disk.between(4, 7)

    def call(step):
        changes(step)
        if step == 6:
            seen["while full"] = [n for n in names(tmp_path) if not n.startswith(".partial")]

    with caplog.at_level(logging.WARNING):
        weights, progress = train(tmp_path, feed_with(call), background=background)
    assert weights == expected
    assert progress.step == STEPS
    # In the background the fourth may have been begun too late.
    assert seen["while full"][-1] in ["step-000000004.pt", "step-000000003.pt"][: 1 + background]
    assert len(seen["while full"]) == 2
    assert names(tmp_path) == ["step-000000009.pt", "step-000000010.pt"]
    assert caplog.text.count("could not be written") == 1
    assert "training goes on" in caplog.text


def test_a_run_that_ends_while_the_disk_is_full_goes_on_from_before(
    train, interrupted, tmp_path, disk
):
    expected, _ = train()
    interrupted(tmp_path, 8, disk.between(4), background=False)
    disk.free()
    assert Checkpoints(tmp_path, "a").load()["step"] == 4
    assert train(tmp_path)[0] == expected


def test_the_first_save_on_a_disk_with_room_is_written(interrupted, tmp_path, disk):
    """Though the failure of the one before is told at the same time."""
    changes = disk.between(4, 7)

    def call(step):
        if step in (4, 7):
            # The write of the step before is over, well or not.
            time.sleep(0.2)
        changes(step)

    interrupted(tmp_path, 8, call)
    assert Checkpoints(tmp_path, "a").load()["step"] == 8


def test_the_room_of_a_file_that_could_not_be_written_is_free_at_once(tmp_path, disk):
    """A traceback that is kept would keep the file open, which counts until it is closed."""
    checkpoints = Checkpoints(tmp_path, "a")
    disk.fill()
    gc.disable()
    try:
        checkpoints.save(1, {"x": torch.ones(10_000)})
        with pytest.raises(NotSaved):
            checkpoints.wait()
        held = [
            str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
        ]
    finally:
        gc.enable()
    assert not [path for path in held if "partial" in path]


def test_a_full_disk_at_the_time_limit_is_not_called_a_checkpoint(train, tmp_path, disk):
    now = {"deadline": time.time() - 1, "checkpoint_every_s": 1e9}
    disk.fill()
    with pytest.raises(TimeIsUp, match="no checkpoint could be written"):
        train(tmp_path, runtime=now)
    disk.free()
    with pytest.raises(TimeIsUp, match="the checkpoint is written"):
        train(tmp_path, runtime=now)


def test_best_weights_that_cannot_be_written_end_the_run_and_not_silently_with_others(
    train, feed_with, tmp_path, disk
):
    def scored(values):
        given = iter(values)
        stopping = EarlyStopping(EarlyStoppingSettings(patience=9, min_delta=0.0))
        return Validation(
            score=lambda: {"score": next(given)}, times=STEPS, watched="score", stopping=stopping
        )

    scores = [0.1, 0.2, 0.3, 0.9, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0]
    expected, _ = train(tmp_path / "whole", validation=scored(scores))
    with pytest.raises(BestNotSaved, match="make room on that disk") as raised:
        train(
            tmp_path / "a",
            feed_with(disk.between(3)),
            validation=scored(scores),
            background=False,
        )
    disk.free()
    assert isinstance(raised.value, InputError)
    left = Checkpoints(tmp_path / "a", "a").load()["step"]
    assert left == 3
    assert train(tmp_path / "a", validation=scored(scores[left:]))[0] == expected


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "garbage": lambda data: b"\x80\x04 not a checkpoint" * 100,
    "zeros at its end": lambda data: data[:-2000] + bytes(2000),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_of_a_checkpoint_that_cannot_be_read_the_one_before_is_taken(tmp_path, caplog, damage):
    checkpoints = Checkpoints(tmp_path, "a", background=False)
    for step in (5, 6):
        checkpoints.save(step, {"x": torch.arange(5000.0)})
    newest = tmp_path / "a" / "step-000000006.pt"
    newest.write_bytes(DAMAGE[damage](newest.read_bytes()))
    with caplog.at_level(logging.INFO):
        assert checkpoints.load()["step"] == 5
    assert caplog.text.count("cannot be read") == 1
    assert "resuming after step 5" in caplog.text
    assert "damaged-step-000000006.pt" in names(tmp_path)


def test_where_no_checkpoint_can_be_read_the_run_begins_anew(train, interrupted, tmp_path, caplog):
    expected, _ = train()
    interrupted(tmp_path, 6)
    for path in tmp_path.rglob("*.pt"):
        path.write_bytes(b"")
    assert train(tmp_path)[0] == expected
    assert caplog.text.count("cannot be read") == 2


def test_damaged_best_weights_are_told_of(train, tmp_path):
    checkpoints = Checkpoints(tmp_path, "a", background=False)
    checkpoints.save_best(1, {})
    (tmp_path / "a" / BEST).write_bytes(b"PK\x03\x04 half")
    with pytest.raises(InputError, match=r"best.pt: got a damaged file .* Hint: delete it"):
        checkpoints.load_best()


@pytest.fixture
def one_worker(monkeypatch) -> list[int]:
    """Let a CPU have a worker, and return the steps that loaders began with."""
    starts, here = [], loop.batches

    def with_worker(dataset, first, workers, pin, devices):
        starts.append(first)
        return here(dataset, first, workers=1, pin=False)

    monkeypatch.setattr(loop, "batches", with_worker)
    asked = _MultiProcessingDataLoaderIter._try_get_data
    monkeypatch.setattr(asked, "__defaults__", (0.2,))
    return starts


def test_a_worker_that_dies_is_replaced_and_nothing_changes(
    train, feed_with, tmp_path, caplog, one_worker
):
    expected, _ = train()
    parent, flag = os.getpid(), tmp_path / "died"

    def die_once(step):
        if step == 5 and os.getpid() != parent and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    before = signal.getsignal(signal.SIGCHLD)
    with caplog.at_level(logging.WARNING):
        weights, progress = train(tmp_path / "work", feed_with(die_once))
    assert weights == expected
    losses = [r["step"] for r in progress.history if r["name"] == "loss"]
    assert losses == list(range(1, STEPS + 1))
    assert flag.exists()
    assert caplog.text.count("DataLoader worker") == caplog.text.count("others are started") == 1
    # Torch's handler would raise in the middle of an update.
    assert signal.getsignal(signal.SIGCHLD) == before


def test_workers_that_always_die_end_the_run(train, feed_with, tmp_path, one_worker):
    parent = os.getpid()

    def die(step):
        if step == 3 and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    one_worker.clear()
    with pytest.raises(WorkerDied, match="DataLoader worker"):
        train(tmp_path, feed_with(die))
    assert len(one_worker) == 1 + WORKERS_LOST
    assert max(one_worker) <= 3


def test_too_little_memory_makes_smaller_micro_batches_and_the_same_losses(tmp_path):
    """Of address space, which is a limit of the process alone; see docs/stability.md for others."""
    script = Path(__file__).with_name("starved.py")
    command = [sys.executable, str(script), str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    ample, *_, short = json.loads(done.stdout)
    assert ample["said"] == []
    assert short["ended"] == ample["ended"] == "well"
    assert short["step"] == short["kept"] == 4
    assert "out of memory: from now on micro-batches of at most" in short["said"][0]
    assert short["losses"] == pytest.approx(ample["losses"], rel=1e-4)


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
        with monitor.Monitor(torch.device("cpu"), most_mb) as watched:
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
def test_distances_that_are_not_finite_are_refused_where_they_are_read(tmp_path, value):
    ids = [f"s{i}" for i in range(4)]
    path = tmp_path / "unweighted.parquet"
    write_distances(path, ids, np.zeros((4, 4), np.float32), {})
    load_matrices([path], ["unweighted"], 1, ids)
    table = pq.read_table(path)
    matrix = np.zeros((4, 4), np.float32)
    matrix[2, 1] = value
    column = pa.FixedSizeListArray.from_arrays(
        pa.array(matrix.ravel()), type=table.schema.field("distances").type
    )
    pq.write_table(table.set_column(1, table.schema.field("distances"), column), path)
    with pytest.raises(InputError, match=r"unweighted.parquet: got distances that are not finite"):
        load_matrices([path], ["unweighted"], 1, ids)
    with pytest.raises(InputError, match=r"samples 1 \(s2\)"):
        load_matrices([path], ["unweighted"], 1, ids)
