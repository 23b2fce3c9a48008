"""Micro-batches in two processes, which choose the same and have the losses of one."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from aam.train.distributed.world import World

SCRIPT = Path(__file__).with_name("divided_together.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return where both processes have written what became of their runs."""
    path = tmp_path_factory.mktemp("divided")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(SCRIPT), str(path)], capture_output=True, text=True, timeout=180
    )
    assert done.returncode != 0, "the last run fails"
    assert (path / "fails-1.json").exists(), done.stderr[-4000:]
    return path


@pytest.fixture(scope="module")
def alone(one_thread) -> dict:
    """Return what one process tells of the same run, undivided."""
    spec = importlib.util.spec_from_file_location("divided_together", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.train(World())


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_processes_choose_the_same_micro_batches_and_learn_as_one(folder, alone, strategy):
    first, second = (
        json.loads((folder / f"{strategy}-{rank}.json").read_text()) for rank in (0, 1)
    )
    assert alone["micro_batches"] == "one micro-batch"
    assert "of at most 5 samples, each computed again" in first["micro_batches"]
    for name in ("micro_batches", "measured_mb", "estimated_mb"):
        assert first[name] == second[name], name
    assert 100 < first["measured_mb"] <= 145, "the largest of both counts"
    for run in (first, second):
        assert run["losses"] == pytest.approx(alone["losses"], rel=1e-5)


def test_a_process_that_runs_out_of_memory_ends_the_others_with_one_message(folder):
    ended = json.loads((folder / "fails-1.json").read_text())["ended"]
    assert "one process's shard of a batch (CUDA out of memory.)" in ended
    assert not (folder / "fails-0.json").exists()
