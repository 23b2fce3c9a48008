"""A checkout of the workflow in which a tiny study has been carried out completely."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
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
    """A copy of the workflow, and how to run Snakemake in it."""

    root: Path

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake with this checkout's package; both streams end up in `stdout`."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.run(
            [sys.executable, "-m", "snakemake", "--nocolor", *arguments],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def configured(self, **change: Any) -> list[str]:
        """Write the tiny study's configuration, and return the arguments that name it."""
        path = self.root / "tiny.yaml"
        path.write_text(yaml.safe_dump(merged(TINY, change), sort_keys=False), encoding="utf-8")
        return ["--cores", "2", "--configfile", str(path)]

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


def copy_of_the_workflow(root: Path) -> Checkout:
    """Copy what a clone has and a run needs."""
    root.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=ignored)
        else:
            shutil.copy2(source, root / part)
    return Checkout(root)


@pytest.fixture(scope="session")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return a checkout in which every stage of the tiny study has run for real."""
    checkout = copy_of_the_workflow(tmp_path_factory.mktemp("workflow") / "checkout")
    done = checkout.run()
    assert done.returncode == 0, done.stdout[-4000:]
    return checkout


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """Return a checkout in which nothing has run."""
    return copy_of_the_workflow(tmp_path / "checkout")
