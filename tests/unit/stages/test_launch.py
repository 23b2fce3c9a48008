"""Pretraining in several processes, started and ended by the stage."""

import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
import torch

from aam.config.sections.execution import Runtime
from aam.runtime.run_options import RunOptions
from aam.stages import pretrain
from aam.util.atomic import read_json
from aam.util.errors import InputError

PRETRAINING = ("model", "metrics", "history", "embeddings", "asvs", "pairs")
SMALL_STAGE = Path(__file__).with_name("launched.py")
FAKE_SRUN = """#!{python}
import os, subprocess, sys
nodes = int(sys.argv[sys.argv.index("--nodes") + 1])
command = sys.argv[sys.argv.index({python!r}):]
with open({said!r}, "w") as said:
    print(*sys.argv[1:], file=said)
tasks = [
    subprocess.Popen(command, env={{**os.environ, "SLURM_PROCID": str(node)}})
    for node in range(nodes)
]
sys.exit(max(abs(task.wait()) for task in tasks))
"""


@pytest.fixture
def run(study, tmp_path):
    """Return the function that pretrains in fp32 by some run options, and gives the outputs."""

    def pretraining(folder: Path = tmp_path, epochs: int = 2, **options) -> dict[str, Path]:
        cfg = study.pretrain_slice()
        cfg["pretraining"] |= {"precision": "fp32", "epochs": epochs, "validations": 2}
        outputs = {name: folder / name for name in PRETRAINING}
        runtime = RunOptions(work=folder / "work", **options)
        pretrain.run(cfg, inputs=study.pretraining_inputs, outputs=outputs, runtime=runtime)
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
    """Return the function that starts the small stage in two processes."""
    monkeypatch.setenv("PYTHONPATH", str(SMALL_STAGE.parent), prepend=os.pathsep)
    spec = importlib.util.spec_from_file_location("launched", SMALL_STAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.start


def curves(history: Path) -> pd.Series:
    table = pd.read_parquet(history)
    return table[table["split"] != "system"].set_index(["step", "split", "name"])["value"]


def embeddings(path: Path) -> np.ndarray:
    return np.stack(pq.read_table(path).column("embedding").to_pylist())


def test_two_nodes_go_on_from_one_process_and_end_as_it_would(
    run, study, two_nodes, tmp_path, tmp_path_factory
):
    with pytest.raises(InputError, match=r"time limit came at step 1 of 6"):
        run(deadline=time.time())
    assert [p.name for p in (tmp_path / "work").rglob("step-*")] == ["step-000000001.pt"]
    several = run(nodes=2, threads=2)
    assert "--nodes 2 --ntasks 2 --ntasks-per-node 1" in two_nodes.read_text()
    assert not (tmp_path / "work").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(PRETRAINING)
    one = run(tmp_path_factory.mktemp("one"))
    expected, found = curves(one["history"]), curves(several["history"])
    assert found.index.equals(expected.index)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        embeddings(several["embeddings"]), embeddings(one["embeddings"]), atol=1e-2
    )
    metrics, alone = read_json(several["metrics"]), read_json(one["metrics"])
    assert metrics["device"] == "2 x cpu, 2 threads (ddp)"
    assert metrics["unifrac_pearson"] == pytest.approx(alone["unifrac_pearson"], abs=1e-4)


def test_a_killed_process_ends_all_and_the_next_run_goes_on(run, tmp_path, caplog):
    def kill_one() -> None:
        while not list((tmp_path / "work").rglob("step-*")):
            time.sleep(0.01)
        found = psutil.Process().children(recursive=True)
        own = [process for process in found if "spawn_main" in " ".join(process.cmdline())]
        max(own, key=lambda process: process.pid).kill()

    before = psutil.Process().children(recursive=True)
    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.raises(RuntimeError, match=r"process 1 ended with SIGKILL\nThe 2 processes"):
        run(epochs=30, devices=2, checkpoint_every_s=0.0)
    killer.join()
    assert set(psutil.Process().children(recursive=True)) <= set(before)
    assert [path.name for path in tmp_path.iterdir()] == ["work"]
    with caplog.at_level("INFO"):
        outputs = run(epochs=30)
    assert "resuming after step" in caplog.text
    losses = curves(outputs["history"]).xs("loss", level="name")
    assert losses.index.get_level_values("step").tolist() == list(range(1, 30 * 3 + 1))


@pytest.mark.parametrize(
    ("does", "kind", "said"),
    [
        ("raise", InputError, r"^table.biom: got this\nand that$"),
        ("break", RuntimeError, r"(?s)Traceback.*KeyError: 'odd'\nThe 2 processes"),
    ],
)
def test_what_a_process_raises_ends_the_stage(start, tmp_path, does, kind, said):
    with pytest.raises(kind, match=said):
        start(tmp_path, does)
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("what", ["stage", "models"])
@pytest.mark.usefixtures("start")
def test_processes_end_with_the_one_that_started_them(tmp_path, what):
    """Those of pretraining, and those that train the models of a task."""
    with subprocess.Popen([sys.executable, SMALL_STAGE, tmp_path, what]) as stage:
        while len(numbers := [path.name for path in tmp_path.iterdir() if path.is_file()]) < 2:
            assert stage.poll() is None
            time.sleep(0.05)
        started = psutil.Process(stage.pid).children(recursive=True)
        assert {int(number) for number in numbers} <= {process.pid for process in started}
        stage.kill()
    assert not psutil.wait_procs(started, timeout=60)[1]


def test_fewer_accelerators_than_processes_are_said_before_anything_is_started(run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match=r"runtime.devices: got 2, but this job was granted 1"):
        run(devices=2)


def test_several_nodes_outside_of_a_job_are_refused(run, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(InputError, match=r"runtime.nodes: got 2 outside of a SLURM job"):
        run(nodes=2)


def test_the_job_is_asked_for_what_the_processes_need():
    assert Runtime().processes == 1
    assert Runtime(devices=4).allocation == {}
    several = Runtime(devices=4, nodes=2)
    assert several.processes == 8
    assert several.allocation == {"nodes": 2, "tasks": 2, "tasks_per_gpu": 0, "mpi": "srun"}
