"""Micro-batches where memory is really short, and in two processes; faked ones: step memory."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("low_memory.py")


def run(*command: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, timeout=300
    )


def test_too_little_memory_makes_smaller_micro_batches_and_the_same_losses(tmp_path):
    """Of address space, which is a limit of the process alone; see docs/stability.md for others."""
    done = run(str(SCRIPT), str(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    ample, *_, short = json.loads((tmp_path / "starved.json").read_text())
    assert ample["said"] == []
    assert short["ended"] == ample["ended"] == "well"
    assert short["step"] == short["kept"] == 4
    assert "out of memory: from now on micro-batches of at most" in short["said"][0]
    assert short["losses"] == pytest.approx(ample["losses"], rel=1e-4)


def test_processes_choose_the_same_micro_batches_and_learn_as_one(tmp_path, one_thread):
    """And one that runs out of memory ends the others with one message."""
    done = run("-m", "torch.distributed.run", "--nproc-per-node", "2", str(SCRIPT), str(tmp_path))
    assert done.returncode != 0, "the last run fails"
    assert (tmp_path / "fails-1.json").exists(), done.stderr[-4000:]
    spec = importlib.util.spec_from_file_location("low_memory", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    alone = script.train()
    assert alone["micro_batches"] == "one micro-batch"
    for strategy in ("ddp", "fsdp"):
        runs = [json.loads((tmp_path / f"{strategy}-{rank}.json").read_text()) for rank in (0, 1)]
        for run_of_rank in runs:
            assert run_of_rank.pop("losses") == pytest.approx(alone["losses"], rel=1e-5)
        assert runs[0] == runs[1]
        assert "of at most 5 samples, each computed again" in runs[0]["micro_batches"]
        assert 100 < runs[0]["measured_mb"] <= 145, "the largest of both counts"
    ended = json.loads((tmp_path / "fails-1.json").read_text())["ended"]
    assert "one process's shard of a batch (CUDA out of memory.)" in ended
    assert not (tmp_path / "fails-0.json").exists()
