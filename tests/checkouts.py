"""Copies of the workflow in which a tiny study is carried out."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.warm import Warm

REPOSITORY = Path(__file__).resolve().parents[1]
PARTS = (
    *("Snakefile", "aam", "benchmarks", "config", "profiles"),
    *("snakemake_logger_plugin_aam", "workflow"),
)
TABLE = re.compile(r"^(\w+) +(\d+)$", re.MULTILINE)
MODEL = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1}
TASK = {"dataset": "demo", "folds": {"k": 2, "groups": "host"}}
TINY: dict[str, Any] = {
    "datasets": {"demo": {"simulate": {"samples": 36, "features": 60, "length_bp": 40}}},
    "rarefaction": {"depth": 200, "views": 2},
    "tokens": {"max_length_bp": 40},
    "models": {"base": MODEL, "other": {**MODEL, "patch_bp": 8}},
    "pretraining": {"epochs": 1, "batch_size": 16, "subsampled": 0},
    "finetuning": {"recipe": "full", "epochs": 1, "batch_size": 16},
    "optimization": {"precision": "fp32"},
    "tasks": {
        "environment": {**TASK, "column": "environment", "kind": "regression"},
        "site": {
            **{**TASK, "column": "site", "kind": "classification"},
            "finetuning": {"start": "scratch"},
        },
    },
    "predictions": {"newcomers": {"tasks": ["environment"]}},
    "benchmark": {
        "batch_sizes": [4],
        "alone_batch_size": None,
        "seconds": 0.1,
        "repeats": 1,
        "naive_asvs": 64,
    },
    # A core each: jobs run side by side.
    "runtime": {"threads": 1, "workers": 0},
}


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `change` laid over it."""
    result = dict(base)
    for key, value in change.items():
        nested = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if nested else value
    return result


@dataclass(frozen=True)
class Checkout:
    """A copy of the workflow, and how to run Snakemake in it; the package is the one beside it."""

    root: Path
    study: Mapping[str, Any] = field(default_factory=lambda: TINY)
    """Configuration of what is carried out."""
    how: tuple[str, ...] = ("--cores", "2")
    """Arguments that say by what it is carried out."""
    environment: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "snakemake")
    longest_s: float | None = None
    """Seconds after which a run is taken to hang."""
    warm: Warm | None = None
    """The process whose forks carry commands out; None: Python starts for each."""

    def started(self, *arguments: str, **process: Any) -> subprocess.Popen[str]:
        """Start Snakemake; errors go where the output goes."""
        return subprocess.Popen(
            [sys.executable, *self.program, "--nocolor", *arguments],
            cwd=self.root,
            env=os.environ | self._variables,
            stderr=subprocess.STDOUT,
            text=True,
            **process,
        )

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end; both streams end up in `stdout`."""
        if self.warm is not None:
            return self._forked(self.warm, "snakemake", "--nocolor", *arguments)
        with self.started(*arguments, stdout=subprocess.PIPE) as process:
            try:
                output, _ = process.communicate(timeout=self.longest_s)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def aam(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `aam` with the package of the checkout; both streams end up in `stdout`."""
        if self.warm is not None:
            return self._forked(self.warm, "aam", *arguments)
        return subprocess.run(
            [sys.executable, "-m", "aam", *arguments],
            cwd=self.root,
            env=os.environ | self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def configured(self, **change: Any) -> list[str]:
        """Write the study's configuration, and return the arguments of its runs."""
        path = self.root / "study.yaml"
        text = yaml.safe_dump(merged(self.study, change), sort_keys=False)
        path.write_text(text, encoding="utf-8")
        return [*self.how, "--configfile", str(path)]

    def run(self, *targets: str, **change: Any) -> subprocess.CompletedProcess[str]:
        """Carry out the study, with some settings changed."""
        return self.snakemake(*self.configured(**change), "--", *targets)

    def planned(self, **change: Any) -> Counter[str]:
        """Return how many jobs of each rule a dry run would start, targets left out."""
        output = self.dry_run(*self.configured(**change))
        jobs = Counter({n: int(c) for n, c in TABLE.findall(output.partition("Job stats:")[2])})
        del jobs["total"], jobs["all"]
        return jobs

    def messages(self, **change: Any) -> set[str]:
        """Return the messages of the jobs that a dry run would start."""
        output = self.dry_run(*self.configured(**change))
        return set(re.findall(r"^Job \d+: (.*)$", output, re.MULTILINE))

    def dry_run(self, *arguments: str, fails: bool = False) -> str:
        """Return what a dry run prints."""
        done = self.snakemake("--dry-run", *arguments)
        assert bool(done.returncode) == fails, done.stdout[-4000:]
        return done.stdout

    def _forked(self, warm: Warm, *command: str) -> subprocess.CompletedProcess[str]:
        log = self.root / "output.txt"
        status = warm.run(self.root, *command, log=log, **self._variables)
        text = log.read_text(encoding="utf-8")
        return subprocess.CompletedProcess(command, status, text)

    @property
    def _variables(self) -> dict[str, str]:
        # Python compiles the copy once, not at each of its starts.
        return {"PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1", **self.environment}


def copy_of_the_workflow(root: Path, **attributes: Any) -> Checkout:
    """Copy what a clone has and a run needs; `attributes` are those of the checkout."""
    root.mkdir(parents=True)
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, root / part)
    return Checkout(root, **attributes)
