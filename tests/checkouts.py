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

REPOSITORY = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "aam", "config", "environment.yml", "profiles", "workflow")
TABLE = re.compile(r"^(\w+) +(\d+)$", re.MULTILINE)
TINY: dict[str, Any] = {
    "datasets": {
        "demo": {
            "simulate": {
                "samples": 36,
                "features": 60,
                "length_bp": 40,
                "hosts": 12,
                "newcomers": 6,
            }
        }
    },
    "rarefaction": {"depth": 200, "views": 2},
    "tokens": {"max_length_bp": 40},
    "models": {
        "base": {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1},
        "other": {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "patch_bp": 8},
    },
    "pretraining": {"epochs": 1, "batch_size": 16, "precision": "fp32"},
    "finetuning": {"epochs": 1, "batch_size": 16, "precision": "fp32"},
    "tasks": {
        "environment": {
            "dataset": "demo",
            "column": "environment",
            "kind": "regression",
            "folds": {"k": 2, "groups": "host"},
        },
        "site": {
            "dataset": "demo",
            "column": "site",
            "kind": "classification",
            "folds": {"k": 2, "groups": "host", "stratified": True},
            "finetuning": {"start": "scratch"},
        },
    },
    "predictions": {"newcomers": {"simulated": "demo", "tasks": ["environment"]}},
    "benchmark": {"batch_sizes": [4], "steps": 2, "repeats": 1, "naive_asvs": 64},
    "runtime": {"workers": 0},
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
    """A copy of the workflow, and how to run Snakemake in it.

    Attributes
    ----------
    root
        The folder.
    study
        Configuration of what is carried out.
    how
        Arguments that name the means of a run.
    environment
        Variables beside those of this process.
    longest_s
        Seconds after which a run is taken to hang.
    """

    root: Path
    study: Mapping[str, Any] = field(default_factory=lambda: TINY)
    how: tuple[str, ...] = ("--cores", "2")
    environment: Mapping[str, str] = field(default_factory=dict)
    longest_s: float | None = None

    def started(self, *arguments: str, **process: Any) -> subprocess.Popen[str]:
        """Start Snakemake with this checkout's package; errors go where the output goes."""
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--nocolor", *arguments],
            cwd=self.root,
            env={
                **os.environ,
                "PYTHONPATH": str(self.root),
                "PYTHONDONTWRITEBYTECODE": "1",
                "OMP_NUM_THREADS": "1",
                **self.environment,
            },
            stderr=subprocess.STDOUT,
            text=True,
            **process,
        )

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end; both streams end up in `stdout`."""
        with self.started(*arguments, stdout=subprocess.PIPE) as process:
            try:
                output, _ = process.communicate(timeout=self.longest_s)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def configured(self, **change: Any) -> list[str]:
        """Write the study's configuration, and return the arguments that name it and the means."""
        path = self.root / "study.yaml"
        text = yaml.safe_dump(merged(self.study, change), sort_keys=False)
        path.write_text(text, encoding="utf-8")
        return [*self.how, "--configfile", str(path)]

    def run(self, *targets: str, **change: Any) -> subprocess.CompletedProcess[str]:
        """Carry out the tiny study, with some settings changed."""
        return self.snakemake(*self.configured(**change), "--", *targets)

    def planned(self, **change: Any) -> Counter[str]:
        """Return how many jobs of each rule a dry run would start, targets left out."""
        output = self.dry_run(**change)
        stats = output.partition("Job stats:")[2]
        jobs = Counter({name: int(count) for name, count in TABLE.findall(stats)})
        del jobs["total"], jobs["all"]
        return jobs

    def messages(self, **change: Any) -> set[str]:
        """Return the messages of the jobs that a dry run would start."""
        return set(re.findall(r"^Job \d+: (.*)$", self.dry_run(**change), re.MULTILINE))

    def dry_run(self, **change: Any) -> str:
        """Return what a dry run prints."""
        done = self.snakemake(*self.configured(**change), "--dry-run")
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout


def copy_of_the_workflow(root: Path, **means: Any) -> Checkout:
    """Copy what a clone has and a run needs; `means` are further attributes of the checkout."""
    root.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=ignored)
        else:
            shutil.copy2(source, root / part)
    return Checkout(root, **means)
