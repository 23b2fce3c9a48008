import os
import runpy
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from stage_calls import as_outputs

from aam.config.sections.execution import Runtime
from aam.config.settings.training import PretrainSettings
from aam.distributed import launch
from aam.distributed.processes import World
from aam.stages import pretrain
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.util.atomic import read_json
from aam.util.digests import provenance
from aam.util.errors import InputError
from aam.util.run_options import RunOptions

PRETRAINING = ("model", "scores", "history", "embeddings", "asvs", "pairs")
SAID = '{"message": {"message": "InputError: a.biom: odd"}}'
"""What torch writes of a process that raised, but for its traceback."""
SMALL_STAGE = Path(__file__).with_name("launched.py")
FAKE_SRUN = """#!/bin/sh
echo "$@" > {said}
while [ "$1" != {python} ]; do shift; done
SLURM_PROCID=1 "$@" &
SLURM_PROCID=0 "$@" && wait $!
"""


@pytest.fixture
def run(study, tmp_path):
    """Return the function that pretrains in fp32 by some run options, and gives the outputs."""

    def pretraining(folder: Path = tmp_path, **options) -> dict[str, Path]:
        settings = study.pretrain_slice()
        # Muon multiplies in bf16, which CPUs round differently.
        settings["pretraining"] |= {"epochs": 6, "validations": 2, "optimizer": "adamw"}
        settings["optimization"] |= {"precision": "fp32"}
        outputs = {name: folder / name for name in PRETRAINING}
        runtime = RunOptions(work=folder / "work", **options)
        pretrain.pretrain_encoder(
            inputs=PretrainInputs.model_validate(study.pretraining_inputs),
            settings=PretrainSettings.model_validate(settings),
            runtime=runtime,
            **as_outputs(outputs),
            provenance=provenance(settings, study.pretraining_inputs),
        )
        return outputs

    return pretraining


@pytest.fixture
def two_nodes(tmp_path_factory, monkeypatch) -> Path:
    """Stand in for the `srun` of a job of two nodes; return the file with its arguments."""
    folder = tmp_path_factory.mktemp("slurm")
    script = folder / "srun"
    script.write_text(FAKE_SRUN.format(python=sys.executable, said=str(folder / "said")))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURMD_NODENAME", "127.0.0.1")
    return folder / "said"


@pytest.fixture
def start(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SMALL_STAGE.parent), prepend=os.pathsep)
    monkeypatch.syspath_prepend(SMALL_STAGE.parent)
    return runpy.run_path(str(SMALL_STAGE))["start"]


def curves(history: Path) -> pd.Series:
    """Return the losses and scores by step; gradients of a growing run lie further apart."""
    table = pd.read_parquet(history).set_index(["step", "split", "name"])["value"]
    return table.drop("system", level="split").drop("gradient_norm", level="name")


def kill_one(work: Path) -> None:
    """Kill the second process of a training when there is a checkpoint."""
    while not list(work.rglob("step-*")):
        time.sleep(0.01)
    found = psutil.Process().children(recursive=True)
    own = [process for process in found if "spawn_main" in " ".join(process.cmdline())]
    max(own, key=lambda process: process.pid).kill()


def test_a_killed_process_ends_all_and_two_nodes_go_on_and_end_as_one_process_would(
    run, two_nodes, tmp_path, tmp_path_factory
):
    before = psutil.Process().children(recursive=True)
    killer = threading.Thread(target=kill_one, args=(tmp_path / "work",))
    killer.start()
    with pytest.raises(RuntimeError, match=r"process 1 ended with SIGKILL\nThe 2 processes"):
        run(devices=2, checkpoint_every_s=0.0)
    killer.join()
    assert set(psutil.Process().children(recursive=True)) <= set(before)
    assert [path.name for path in tmp_path.iterdir()] == ["work"]
    log = tmp_path_factory.mktemp("log") / "pretrain.log"
    several = run(nodes=2, threads=2, log_dir=log.with_suffix(""))
    assert "resuming after step" in log.read_text()
    assert "--nodes 2 --ntasks 2 --ntasks-per-node 1" in two_nodes.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(PRETRAINING)
    one = run(tmp_path_factory.mktemp("one"))
    expected, found = curves(one["history"]), curves(several["history"])
    assert found.index.equals(expected.index)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    found, expected = (
        np.stack(pd.read_parquet(run["embeddings"])["embedding"]) for run in (several, one)
    )
    np.testing.assert_allclose(found, expected, atol=1e-2)
    metrics, alone = read_json(several["scores"]), read_json(one["scores"])
    assert metrics["device"] == "2 x cpu, 2 threads (ddp)"
    assert metrics["unifrac_pearson"] == pytest.approx(alone["unifrac_pearson"], abs=1e-3)


@pytest.mark.parametrize(
    ("does", "kind", "said"),
    [
        ("raise", InputError, r"^a.biom: got this\nand that$"),
        ("break", RuntimeError, r"(?s)Traceback.*KeyError: 'odd'\nThe 2 processes"),
    ],
)
def test_what_a_process_raises_ends_the_stage(start, tmp_path, does, kind, said):
    with pytest.raises(kind, match=said):
        start(tmp_path, does)
    assert not list((tmp_path / "work").iterdir())


def test_a_process_ended_while_it_wrote_why_hides_nobody_elses_reason(tmp_path):
    for name, text in (("0", '{"message": {"mess'), ("1", ""), ("2", SAID)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "error.json").write_text(text)
    error = launch._error(tmp_path, World(devices=3), 1)
    assert isinstance(error, InputError)
    assert str(error) == "a.biom: odd"
    (tmp_path / "2" / "error.json").unlink()
    assert "exit code 1" in str(launch._error(tmp_path, World(devices=3), 1))


@pytest.mark.usefixtures("start")
def test_processes_end_with_the_one_that_started_them(tmp_path):
    """Those of pretraining, and those that train the models of a task."""
    with subprocess.Popen([sys.executable, SMALL_STAGE, tmp_path]) as stage:
        while len(numbers := [path.name for path in tmp_path.iterdir() if path.is_file()]) < 4:
            assert stage.poll() is None
            time.sleep(0.05)
        started = psutil.Process(stage.pid).children(recursive=True)
        assert {int(number) for number in numbers} <= {process.pid for process in started}
        stage.kill()
    assert not psutil.wait_procs(started, timeout=60)[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"devices": 2}, "runtime.devices: got 2, but this job was granted 1"),
        ({"devices": 1, "nodes": 2}, "runtime.nodes: got 2 outside of a SLURM job"),
    ],
)
def test_what_was_not_granted_is_said_before_anything_is_started(
    start, tmp_path, monkeypatch, options, said
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(InputError, match=said):
        start(tmp_path, "sleep", **options)


def test_the_job_is_asked_for_what_the_processes_need():
    assert Runtime().processes == 1
    assert Runtime(devices=4).allocation == {}
    several = Runtime(devices=4, nodes=2)
    assert several.processes == 8
    assert several.allocation == {"nodes": 2, "tasks": 2, "tasks_per_gpu": 0, "mpi": "srun"}
