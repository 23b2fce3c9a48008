"""A SLURM of one node, and a tiny study that its jobs carry out while training is disturbed twice.

Steps of training are slowed down in the copy of the package that the jobs run, so that what happens
does not depend on the machine: the first attempt at pretraining is cancelled when it has a
checkpoint, the second one reaches its time limit, the third one ends.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkouts import TINY, Checkout, copy_of_the_workflow

HERE = Path(__file__).resolve().parent
START = HERE / "start.sh"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")
RUN_TIMEOUT_S = 900
SITE = "profiles/site"
MINUTES = 4
"""Time limit of pretraining; it leaves three minutes earlier."""
WATCH = "aam/train/watch.py"
"""The module that training tells of every step; it does not belong to the digests of code."""
NOTED = '"""Note a step."""\n'
SLOW = f"""\
        import time

        if done == 2 and self._reporter.name == "pretraining":
            time.sleep({60 * (MINUTES - 3) + 2})
"""
STUDY = {
    **TINY,
    "models": {"base": TINY["models"]["base"]},
    "tasks": {"environment": TINY["tasks"]["environment"]},
    # Four steps.
    "pretraining": {**TINY["pretraining"], "epochs": 2},
}


@dataclass(frozen=True)
class Job:
    """What SLURM knows of a job of Snakemake."""

    number: int
    partition: str
    state: str
    rule: str


@dataclass(frozen=True)
class Cluster:
    """A running SLURM."""

    folder: Path
    environment: dict[str, str]

    def jobs(self) -> list[Job]:
        """Return Snakemake's jobs so far, the oldest first."""
        lines = self._ask("squeue", "--noheader", "--states=all", "--format=%i|%P|%T|%k")
        jobs = []
        for number, partition, state, comment in (line.split("|") for line in lines):
            if comment.startswith("rule_"):
                name = comment.removeprefix("rule_").partition("_wildcards_")[0]
                jobs.append(Job(int(number), partition, state, name))
        return sorted(jobs, key=lambda job: job.number)

    def gpus(self) -> dict[int, str]:
        """Return the value of CUDA_VISIBLE_DEVICES in the tasks of every job."""
        lines = (self.folder / "log" / "tasks").read_text(encoding="utf-8").splitlines()
        return {int(number): gpus for number, _, gpus in (line.split(" ", 2) for line in lines)}

    def asked(self, job: Job) -> dict[str, str]:
        """Return what was asked of SLURM for a job."""
        (line,) = self._ask("scontrol", "show", "--oneliner", "job", str(job.number))
        return dict(item.split("=", 1) for item in line.split() if "=" in item)

    def cancel(self, job: Job) -> None:
        """End a job as a user or a full cluster does."""
        self._ask("scancel", str(job.number))

    def _ask(self, *command: str) -> list[str]:
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.splitlines()


def _free_port() -> int:
    """Return a port that is free like the one above it."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            try:
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a SLURM that was started for these tests."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    if missing := [program for program in PROGRAMS if shutil.which(program, path=path) is None]:
        reason = f"not installed: {', '.join(missing)} (tests/slurm/start.sh install)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm") / "node"
    environment = {**os.environ, "SLURM_TEST_PORT": str(_free_port())}

    def start_sh(command: str) -> str:
        done = subprocess.run(
            [START, command, folder], env=environment, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    start_sh("start")
    try:
        yield Cluster(folder, dict(line.split("=", 1) for line in start_sh("env").splitlines()))
    finally:
        start_sh("stop")


@dataclass(frozen=True)
class SlurmStudy(Checkout):
    """A copy of the workflow with the study of these tests, carried out on this machine."""

    study: Mapping[str, Any] = field(default_factory=lambda: STUDY)
    longest_s: float | None = RUN_TIMEOUT_S

    def slow_down(self) -> None:
        """Make the second step of pretraining last beyond the moment when it has to leave."""
        self._edit(NOTED, NOTED + SLOW)

    def restore_speed(self) -> None:
        """Take back `slow_down`."""
        self._edit(NOTED + SLOW, NOTED)

    def _edit(self, old: str, new: str) -> None:
        path = self.root / WATCH
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")


@dataclass(frozen=True)
class ThroughSlurm:
    """A study that SLURM jobs have carried out."""

    study: SlurmStudy
    cluster: Cluster
    jobs: list[Job]

    def attempts(self, rule: str) -> list[Job]:
        """Return the jobs of a rule in their order."""
        return [job for job in self.jobs if job.rule == rule]

    def log(self, job: Job) -> str:
        """Return what a job printed."""
        folder = self.study.root / ".snakemake" / "slurm_logs"
        (path,) = folder.rglob(f"{job.number}.log")
        return path.read_text(encoding="utf-8")

    def local(self) -> SlurmStudy:
        """Return the same folder for runs on this machine."""
        return SlurmStudy(self.study.root)


@pytest.fixture(scope="session")
def workflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the workflow that all others are made of: the code may change meanwhile."""
    return copy_of_the_workflow(tmp_path_factory.mktemp("workflow") / "copy").root


@pytest.fixture(scope="session")
def undisturbed(
    cluster: Cluster, workflow: Path, tmp_path_factory: pytest.TempPathFactory
) -> SlurmStudy:
    """Return the study as this machine carries it out, where there is a SLURM to compare with."""
    study = SlurmStudy(shutil.copytree(workflow, tmp_path_factory.mktemp("local") / "study"))
    done = study.run()
    assert done.returncode == 0, done.stdout[-4000:]
    return study


@pytest.fixture(scope="session")
def through_slurm(
    cluster: Cluster, workflow: Path, tmp_path_factory: pytest.TempPathFactory
) -> ThroughSlurm:
    """Return the study as SLURM jobs carry it out, two attempts at pretraining being cut off."""
    root = shutil.copytree(workflow, tmp_path_factory.mktemp("slurm") / "study")
    study = SlurmStudy(root, how=("--workflow-profile", SITE), environment=cluster.environment)
    _write_site_profile(root)
    study.slow_down()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(study.run, runtime={"checkpoint_every_s": 0.01})
        work = root / "results" / "demo" / "pretrain" / "base" / "work"
        _wait_until(lambda: run.done() or any(work.rglob("step-*.pt")))
        if not run.done():
            (job,) = (job for job in cluster.jobs() if job.rule == "pretrain")
            cluster.cancel(job)
        done = run.result()
    assert done.returncode == 0, done.stdout[-6000:]
    return ThroughSlurm(study, cluster, cluster.jobs())


def _write_site_profile(root: Path) -> None:
    """Copy profiles/slurm as a user does: partitions are named, and numbers are made small."""
    profile = yaml.safe_load((root / "profiles" / "slurm" / "profile.yaml").read_text())
    profile["slurm-init-seconds-before-status-checks"] = 8
    profile["slurm-keep-successful-logs"] = True
    profile["max-threads"] = 2
    profile["default-resources"]["slurm_partition"] = "cpu"
    wanted = profile["set-resources"]
    for rule in ("pretrain", "finetune", "explain", "predict", "benchmark_speed"):
        wanted[rule]["slurm_partition"] = "gpu"
    wanted["pretrain"]["runtime"] = MINUTES
    # The other two ways to ask for a GPU.
    wanted["explain"]["gpu_model"] = "fake"
    wanted["predict"] |= {"gpu": 0, "gres": "gpu:fake:1"}
    (root / SITE).mkdir()
    (root / SITE / "profile.yaml").write_text(yaml.safe_dump(profile, sort_keys=False))


def _wait_until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.2)
