"""A SLURM of one node, and a tiny study that its jobs carry out while training is disturbed twice.

In the copy of the package that the jobs run, training waits at its second step while a file exists,
and the margin before a time limit can be all of it, so that the machine does not matter: the first
attempt at pretraining is cancelled at a checkpoint, the second at its time limit, the third ends.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkouts import TINY, Checkout, copy_of_the_workflow

from tests.warm import IMPORTED, NETWORKS, Warm

START = Path(__file__).resolve().parent / "start.sh"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")
SITE = "profiles/site"
MINUTES = 4
"""Time limit of pretraining."""
STEP = "        self.monitor.step(samples)\n"
"""The first line of what is noted of a step."""
WAIT = """\
        import pathlib
        import time

        while done == 2 and pathlib.Path("hold").exists():
            time.sleep(0.1)
"""
MARGIN = "MARGIN_S = 180.0"
WHOLE_LIMIT = f"MARGIN_S = {60 * MINUTES}.0"
STUDY = {
    **TINY,
    "rarefaction": {**TINY["rarefaction"], "views": 1},
    "models": {"base": TINY["models"]["base"]},
    "tasks": {"environment": TINY["tasks"]["environment"]},
    # Four steps.
    "pretraining": {**TINY["pretraining"], "epochs": 2},
}
ASKING_OFTEN = """
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

RemoteExecutor.next_seconds_between_status_checks = property(lambda self: 1, lambda self, s: None)
main()
"""
"""Snakemake that looks at its SLURM jobs every second, not ever more rarely."""


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

    def jobs(self, rule: str = "") -> list[Job]:
        """Return Snakemake's jobs so far, or those of a rule, the oldest first."""
        lines = self._ask("squeue", "--noheader", "--states=all", "--format=%i|%P|%T|%k")
        jobs = []
        for number, partition, state, comment in (line.split("|") for line in lines):
            if comment.startswith("rule_"):
                name = comment.removeprefix("rule_").partition("_wildcards_")[0]
                jobs.append(Job(int(number), partition, state, name))
        return sorted((j for j in jobs if rule in ("", j.rule)), key=lambda job: job.number)

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
    """A copy of the workflow with the study of these tests."""

    study: Mapping[str, Any] = field(default_factory=lambda: STUDY)
    longest_s: float | None = 1800

    def edit(self, module: str, old: str, new: str) -> None:
        """Replace a piece of a module of the copied package."""
        path = self.root / "aam" / module
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"the test expects {old!r} in {module}"
        path.write_text(text.replace(old, new), encoding="utf-8")


@dataclass(frozen=True)
class ThroughSlurm:
    """The study that SLURM jobs have carried out, and the one that this machine has."""

    study: SlurmStudy
    undisturbed: SlurmStudy
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


@pytest.fixture(scope="session")
def through_slurm(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThroughSlurm]:
    """Carry out the study here and by SLURM jobs, two attempts at pretraining being cut off."""
    folder = tmp_path_factory.mktemp("studies")
    undisturbed = SlurmStudy(copy_of_the_workflow(folder / "here").root)
    warm = Warm(*IMPORTED, *NETWORKS, root=undisturbed.root, is_edited=True)
    undisturbed = replace(undisturbed, warm=warm)
    study = SlurmStudy(
        shutil.copytree(undisturbed.root, folder / "slurm"),
        how=("--workflow-profile", SITE),
        environment=cluster.environment,
        program=("-c", ASKING_OFTEN),
    )
    _write_site_profile(study.root)
    study.edit("train/monitoring/watch.py", STEP, WAIT + STEP)
    (study.root / "hold").touch()
    with ThreadPoolExecutor(2) as pool:
        here = pool.submit(undisturbed.run)
        run = pool.submit(study.run, runtime={"checkpoint_every_s": 0.01})
        _disturb(study, cluster, run)
        for done in (run.result(), here.result()):
            assert done.returncode == 0, done.stdout[-6000:]
    # For dry runs alone: this one asks SLURM no more often than by default.
    planning = Warm("aam.cli", "snakemake.cli", root=study.root, is_edited=True)
    planned = replace(study, warm=planning)
    yield ThroughSlurm(planned, undisturbed, cluster, cluster.jobs())
    warm.close()
    planning.close()


def _disturb(study: SlurmStudy, cluster: Cluster, run: Future[Any]) -> None:
    """Cut off two attempts at pretraining, unless the run has ended before."""
    work = study.root / "results" / "demo" / "pretrain" / "base" / "work"
    if _wait_until(lambda: any(work.rglob("step-*.pt")), run):
        study.edit("stages/job.py", MARGIN, WHOLE_LIMIT)
        cluster.cancel(cluster.jobs("pretrain")[0])
        # On a busy machine it would go on before the signal comes.
        _wait_until(lambda: cluster.jobs("pretrain")[0].state == "CANCELLED", run)
        (study.root / "hold").unlink()
    # The third may have been submitted before the second is looked at.
    _wait_until(lambda: [job.state for job in cluster.jobs("pretrain")[1:2]] == ["FAILED"], run)
    study.edit("stages/job.py", WHOLE_LIMIT, MARGIN)


def _wait_until(true: Callable[[], bool], run: Future[Any]) -> bool:
    while not (run.done() or true()):
        time.sleep(0.1)
    return not run.done()


def _write_site_profile(root: Path) -> None:
    """Copy profiles/slurm as a user does: partitions are named, and numbers are made small."""
    profile = yaml.safe_load((root / "profiles" / "slurm" / "profile.yaml").read_text())
    profile["slurm-keep-successful-logs"] = True
    profile["max-threads"] = 2
    profile["default-resources"]["slurm_partition"] = "cpu"
    wanted = profile["set-resources"]
    for rule in ("pretrain", "finetune", "explain", "predict", "predict_networks"):
        wanted[rule]["slurm_partition"] = "gpu"
    wanted["pretrain"]["runtime"] = MINUTES
    # The other two ways to ask for a GPU.
    wanted["explain"]["gpu_model"] = "fake"
    wanted["predict"] |= {"gpu": 0, "gres": "gpu:fake:1"}
    (root / SITE).mkdir()
    (root / SITE / "profile.yaml").write_text(yaml.safe_dump(profile, sort_keys=False))
