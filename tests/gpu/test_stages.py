"""Whole stages on an accelerator: what they write is what a CPU writes of the same models."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from stage_calls import call
from study_fixtures import EXPLAINED

import aam
from aam.distributed.devices import Devices
from aam.stages.explain import explain_task
from aam.tasks.finetune.recipes import RECIPES
from aam.util.atomic import read_json

NEAR = {"rtol": 1e-3, "atol": 1e-3}
"""Embeddings and predictions are computed in fp32 wherever a model was trained."""
TASKS = {
    "frozen": ("site", {}),
    "from scratch": ("scratch", {}),
    "ordered classes, covariates in attention": ("ordered", {}),
    "quantiles of two columns, partial": ("pair", {}),
    "recipe kernel": ("kernel", {}),
    "recipe partial": ("age", {**RECIPES["partial"], "epochs": 2}),
    "recipe full": ("age", {**RECIPES["full"], "epochs": 2}),
    "all recipes": ("age", {"recipe": "auto"}),
}
COVARIATES = ("ordered", "pair")
on_cuda_alone = pytest.mark.parametrize("device", ["cuda"], indirect=True)


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", dtype={"sample-id": str})


def same_frames(one: pd.DataFrame, other: pd.DataFrame) -> None:
    assert list(one) == list(other)
    for column in one:
        if pd.api.types.is_numeric_dtype(one[column]):
            np.testing.assert_allclose(one[column], other[column], err_msg=column, **NEAR)


@on_cuda_alone
def test_pretraining_uses_the_device_and_embeds_as_a_cpu_does(
    pretrained_here, device, on_cpu, study, sequences
):
    metrics = read_json(pretrained_here["scores"])
    assert not metrics["device"].startswith("cpu")
    assert np.isfinite(metrics["unifrac_pearson"])
    assert metrics["steps"] == 6
    written = pd.read_parquet(pretrained_here["embeddings"]).set_index("sample_id")["embedding"]
    encoder = aam.encoder(pretrained_here["model"])
    here = encoder.embed(study.tiny.views[0], sequences, threads=1)
    with on_cpu():
        there = aam.encoder(pretrained_here["model"]).embed(
            study.tiny.views[0], sequences, threads=1
        )
    assert len(written) == len(here) == 20
    np.testing.assert_allclose(here, there, **NEAR)
    np.testing.assert_allclose(np.stack(written.loc[here.index].tolist()), there, **NEAR)


@on_cuda_alone
@pytest.mark.parametrize("name", TASKS)
def test_every_way_to_finetune_predicts_as_a_cpu_does(
    name, finetuned_here, device, on_cpu, study, sequences, host
):
    """Of `auto` all recipes are trained and mixed."""
    task, settings = TASKS[name]
    outputs = finetuned_here(task, **settings)
    numbers = read(outputs["predictions"])["predicted"]
    assert numbers.notna().all()
    if name == "all recipes":
        assert set(read(outputs["recipes"])["recipe"]) >= set(RECIPES)
    covariates = host if task in COVARIATES else None

    def predict() -> pd.DataFrame:
        model = aam.load(outputs["model"])
        return model.predict(study.tiny.table, sequences, covariates, threads=1)

    here = predict()
    with on_cpu():
        there = predict()
    assert len(here) == 20
    same_frames(here, there)


@on_cuda_alone
@pytest.mark.parametrize("task", ["site", "ordered", "kernel"])
def test_explaining_gives_what_it_does_on_a_cpu(
    task, finetuned_here, device, on_cpu, study, sequences, tmp_path
):
    model = finetuned_here(task)["model"]

    def importance(folder: Path) -> tuple[pd.DataFrame, dict]:
        outputs = {name: folder / name for name in EXPLAINED}
        settings = {"explained": 3, "checked": 1, "removed": 24, "seed": 0}
        inputs = {**study.task_inputs(task), "model": model, "sequences": sequences}
        inputs |= study.name_clade(tmp_path, task)
        call(explain_task, settings, inputs, outputs)
        return pd.read_csv(outputs["importance"], sep="\t"), read_json(outputs["check"])

    here, check = importance(tmp_path / "here")
    with on_cpu():
        there, _ = importance(tmp_path / "there")
    assert check["completeness"]["gap_max"] < 1e-2
    by_asv = [table.set_index("feature-id").sort_index() for table in (here, there)]
    same_frames(*by_asv)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_with_workers_in_every_precision_ends_and_learns(
    precision, workers, device, train, new_feed
):
    """Through the loop, with its guard, its scaler, its monitor and its checkpoints."""
    _, progress = train(
        devices=Devices(precision, 1),
        precision=precision,
        runtime={"workers": workers},
        dataset=new_feed(),
    )
    losses = [r["value"] for r in progress.history if (r["split"], r["name"]) == ("train", "loss")]
    assert progress.step == 10
    assert np.isfinite(losses).all()
    if device.type == "cuda":
        assert progress.facts["optimization"]["precision"] == precision


def test_a_run_that_chooses_its_precision_is_that_of_the_precision(device, train, new_feed):
    _, progress = train(devices=Devices("auto", 1), precision="auto", dataset=new_feed())
    chosen = progress.facts["optimization"]["precision"]
    assert chosen in Devices("auto", 1).candidates
    _, given = train(devices=Devices(chosen, 1), precision=chosen, dataset=new_feed())
    curves = [
        [r["value"] for r in run.history if (r["split"], r["name"]) == ("train", "loss")]
        for run in (progress, given)
    ]
    np.testing.assert_allclose(*curves, rtol=1e-3)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two accelerators")
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@on_cuda_alone
def test_two_processes_train_through_nccl(strategy, device, study, tmp_path):
    outputs = study.pretrain(tmp_path, devices=2, strategy=strategy)
    metrics = read_json(outputs["scores"])
    assert metrics["device"].startswith("2 x ")
    assert np.isfinite(metrics["unifrac_pearson"])
