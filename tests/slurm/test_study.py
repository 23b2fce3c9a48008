"""The workflow through the SLURM executor: the same results, whatever happens to its jobs."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import artifacts
import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slurm]

GPU_RULES = {"pretrain", "finetune", "explain", "predict", "benchmark_speed"}
CPU_RULES = {
    *("simulate", "import_table", "import_tree", "import_metadata"),
    *("rarefy", "rarefaction_curve", "tokenize", "unifrac", "augment"),
    *("folds", "baselines", "score", "benchmark_accuracy"),
}


def test_every_artifact_is_that_of_a_local_run(undisturbed: Any, through_slurm: Any) -> None:
    results = [study.root / "results" for study in (undisturbed, through_slurm.study)]
    expected, found = map(artifacts.of, results)
    assert len(expected) > 40
    assert artifacts.differences(expected, found) == []


def test_every_rule_that_is_not_tiny_was_a_job_of_its_partition(through_slurm: Any) -> None:
    jobs = through_slurm.jobs
    assert {job.rule for job in jobs if job.partition == "gpu"} == GPU_RULES
    assert {job.rule for job in jobs if job.partition == "cpu"} == CPU_RULES


def test_rules_that_ask_for_a_gpu_have_one_and_others_none(through_slurm: Any) -> None:
    granted = through_slurm.cluster.gpus()
    for job in through_slurm.jobs:
        wanted = ("0", "1") if job.rule in GPU_RULES else ("",)
        assert granted[job.number] in wanted, job.rule


def test_a_cancelled_training_goes_on_from_its_checkpoint(through_slurm: Any) -> None:
    attempts = through_slurm.attempts("pretrain")
    assert [job.state for job in attempts] == ["CANCELLED", "FAILED", "COMPLETED"]
    first, second, _ = map(through_slurm.log, attempts)
    assert "resuming after step" not in first
    assert "resuming after step 1" in second


def test_a_training_leaves_before_its_time_limit_and_goes_on(through_slurm: Any) -> None:
    _, second, third = through_slurm.attempts("pretrain")
    assert through_slurm.cluster.asked(second)["TimeLimit"] == "00:04:00"
    assert "the time limit came at step 2 of 4" in through_slurm.log(second)
    assert "resuming after step 2" in through_slurm.log(third)


def test_memory_grows_with_every_attempt(through_slurm: Any) -> None:
    asked = map(through_slurm.cluster.asked, through_slurm.attempts("pretrain"))
    # SLURM shortens 64000M.
    assert [job["MinMemoryNode"] for job in asked] == ["32000M", "48000M", "62.50G"]


def test_two_devices_of_one_job_pretrain_together(through_slurm: Any, tmp_path: Path) -> None:
    study = replace(through_slurm.study, root=tmp_path / "study")
    shutil.copytree(through_slurm.study.root, study.root)
    study.restore_speed()
    folder = study.root / "results" / "demo"
    (folder / "pretrain" / "base" / "metrics.json").unlink()
    done = study.run("results/demo/pretrain/base/metrics.json", runtime={"devices": 2})
    assert done.returncode == 0, done.stdout[-4000:]
    *_, job = through_slurm.cluster.jobs()
    assert job.rule == "pretrain"
    assert through_slurm.cluster.gpus()[job.number] == "0,1"
    assert "starting 2 processes" in (folder / "logs" / "pretrain" / "base.log").read_text()


def test_nothing_is_stale_afterwards(through_slurm: Any) -> None:
    assert not through_slurm.study.planned()
    assert not through_slurm.local().planned()


@pytest.mark.parametrize(
    "change",
    [
        {"rarefaction": {"depth": 150}},
        {"unifrac": {"checked_pairs": 7}},
        {"models": {"base": {"width": 32}}},
        {"tasks": {"environment": {"finetuning": {"epochs": 2}}}},
        {"runtime": {"workers": 1}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_makes_the_same_jobs_stale(
    undisturbed: Any, through_slurm: Any, change: dict[str, Any]
) -> None:
    expected = undisturbed.planned(**change)
    assert bool(expected) == ("runtime" not in change)
    assert through_slurm.study.planned(**change) == expected


def test_code_that_changes_makes_the_same_jobs_stale(undisturbed: Any, through_slurm: Any) -> None:
    planned = []
    for study in (undisturbed, through_slurm.study):
        path = study.root / "aam" / "stages" / "baselines.py"
        text = path.read_text(encoding="utf-8")
        path.write_text(text + "\n\nFLAG = True\n", encoding="utf-8")
        planned.append(study.planned())
        path.write_text(text, encoding="utf-8")
    assert planned[0]["baselines"] == 1
    assert planned[0] == planned[1]
