"""The workflow through the SLURM executor: the same results, whatever happens to its jobs."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import artifacts

pytestmark = [pytest.mark.workflow, pytest.mark.slurm]

GPU_RULES = {"pretrain", "finetune", "explain", "predict", "predict_networks"}
CPU_RULES = {
    *("simulate", "import_table", "import_tree", "import_metadata"),
    *("rarefy", "rarefaction_curve", "tokenize", "unifrac", "store_samples"),
    *("folds", "baselines", "clades", "score", "super_learner", "benchmark_accuracy"),
}


def test_every_artifact_is_that_of_a_local_run(through_slurm: Any) -> None:
    studies = (through_slurm.undisturbed, through_slurm.study)
    expected, found = (artifacts.digests(study.root / "results") for study in studies)
    assert len(expected) > 40
    assert artifacts.differences(expected, found) == []


def test_every_rule_that_is_not_tiny_was_a_job_of_its_partition(through_slurm: Any) -> None:
    jobs, granted = through_slurm.jobs, through_slurm.cluster.gpus()
    assert {job.rule for job in jobs if job.partition == "gpu"} == GPU_RULES
    assert {job.rule for job in jobs if job.partition == "cpu"} == CPU_RULES
    for job in jobs:
        assert granted[job.number] in (("0", "1") if job.rule in GPU_RULES else ("",)), job.rule


def test_a_training_goes_on_after_a_cancellation_and_a_time_limit(through_slurm: Any) -> None:
    attempts = through_slurm.attempts("pretrain")
    assert [job.state for job in attempts] == ["CANCELLED", "FAILED", "COMPLETED"]
    first, second, third = map(through_slurm.log, attempts)
    assert "resuming after step" not in first
    assert "resuming after step 1" in second
    left = re.search(r"the time limit came at step (\d) of 4", second)
    assert left is not None
    assert f"resuming after step {left[1]}" in third
    asked = [through_slurm.cluster.asked(job) for job in attempts]
    assert asked[1]["TimeLimit"] == "00:04:00"
    # SLURM shortens 64000M.
    assert [job["MinMemoryNode"] for job in asked] == ["32000M", "48000M", "62.50G"]


def test_two_devices_of_one_job_pretrain_together(through_slurm: Any, tmp_path: Path) -> None:
    study = replace(through_slurm.study, root=tmp_path / "study", warm=None)
    shutil.copytree(through_slurm.study.root, study.root)
    folder = study.root / "results" / "demo"
    (folder / "pretrain" / "base" / "scores.json").unlink()
    done = study.run("results/demo/pretrain/base/scores.json", runtime={"devices": 2})
    assert done.returncode == 0, done.stdout[-4000:]
    *_, job = through_slurm.cluster.jobs("pretrain")
    assert through_slurm.cluster.gpus()[job.number] == "0,1"
    assert "starting 2 processes" in (folder / "logs" / "pretrain" / "base.log").read_text()


@pytest.mark.parametrize(
    "change", [{}, {"rarefaction": {"depth": 150}}, {"runtime": {"workers": 1}}], ids=str
)
def test_what_is_stale_is_the_same(through_slurm: Any, change: dict[str, Any]) -> None:
    studies = (through_slurm.undisturbed, through_slurm.study)
    expected, found = (study.planned(**change) for study in studies)
    assert bool(expected) == ("rarefaction" in change)
    assert found == expected


def test_code_that_changes_makes_the_same_jobs_stale(through_slurm: Any) -> None:
    planned = []
    for study in (through_slurm.undisturbed, through_slurm.study):
        path = study.root / "aam" / "stages" / "baselines.py"
        text = path.read_text(encoding="utf-8")
        path.write_text(text + "\n\nFLAG = True\n", encoding="utf-8")
        planned.append(study.planned())
        path.write_text(text, encoding="utf-8")
    assert planned[0]["baselines"] == 1
    assert planned[0] == planned[1]
