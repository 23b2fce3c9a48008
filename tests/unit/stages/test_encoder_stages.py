"""Every ASV encoder goes through every stage that trains or uses a model."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from aam.config.sections.execution import Optimization
from aam.config.sections.model import ModelSettings
from aam.config.sections.training import Pretraining
from aam.model.store import load_config
from aam.runtime.run_options import RunOptions
from aam.stages import explain, predict
from aam.util.atomic import read_json

SMALL = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "ffn_ratio": 2}
ENCODERS = {"bilstm": ("block", False), "bdh": ("patch", True)}
"""Kind of masking, and whether the layers are computed twice."""


@pytest.fixture(scope="module", params=ENCODERS)
def other(study, request):
    """Return the study with another encoder."""
    masking, checkpointing = ENCODERS[request.param]
    training = {"epochs": 2, "batch_size": 6, "masking": masking, "optimizer": "muon"}
    changes = {
        "models": {"small": ModelSettings(encoder=request.param, **SMALL)},
        "pretraining": Pretraining(**training),
        "optimization": Optimization(checkpointing=checkpointing),
    }
    return replace(study, config=study.config.model_copy(update=changes))


@pytest.fixture(scope="module")
def first(other, tmp_path_factory):
    """Return the outputs of pretraining."""
    return other.pretrain(tmp_path_factory.mktemp("pretrained"))


def test_pretraining_is_reproducible_and_scored(other, first, tmp_path):
    again = other.pretrain(tmp_path, checkpoint_every_s=0.0)
    encoder = other.config.models["small"].encoder
    assert load_config(first["model"])["architecture"]["encoder"] == encoder
    for name in ("embeddings", "asvs", "model/model.safetensors"):
        here, there = (outputs["model"].parent / name for outputs in (again, first))
        assert here.read_bytes() == there.read_bytes(), name
    metrics = read_json(first["metrics"])
    assert np.isfinite(metrics["unifrac_pearson"])
    assert 0 < metrics["nucleotide_accuracy"] <= 1
    assert 0 < metrics["model_flop_utilisation"] < 1


@pytest.mark.parametrize("task", ["age", "site", "pair"])
def test_it_is_fine_tuned_predicts_and_is_explained(other, first, task, tmp_path):
    """Whole, frozen, and in its upper part."""
    cfg = other.finetune_slice(task)
    cfg["finetuning"] |= {"optimizer": "muon"} if task == "age" else {}
    tuned = replace_slice(other, cfg).finetune(tmp_path, task, model=first["model"])
    before, after = (
        load_file(path / "model.safetensors") for path in (first["model"], tuned["model"] / "fold0")
    )
    layers = [name for name in before if name.startswith("encoder.asv.blocks.0.")]
    assert layers
    moved = [not np.array_equal(before[name], after[name]) for name in layers]
    assert all(moved) if task == "age" else not any(moved)
    outputs = {"predictions": tmp_path / "new.tsv"}
    inputs = {"table": other.files["table.biom"], "model": tuned["model"]}
    predict.run({}, inputs=inputs, outputs=outputs, runtime=RunOptions())
    found = pd.read_csv(outputs["predictions"], sep="\t", dtype={"sample-id": str})
    assert found["sample-id"].tolist() == other.tiny.table.sample_ids
    assert found.notna().all(axis=None)
    if task == "age":
        explained = {name: tmp_path / name for name in ("importance", "check")}
        explain.run(
            {"samples": 2, "checked": 1, "seed": 0},
            inputs={**other.task_inputs(task), "model": tuned["model"]},
            outputs=explained,
            runtime=RunOptions(),
        )
        assert read_json(explained["check"])["completeness"]["gap_max"] < 1e-3


def replace_slice(study, cfg):
    """Return the study with these settings of fine-tuning."""

    class Changed(type(study)):
        def finetune_slice(self, task: str) -> dict:
            return cfg

    return Changed(study.config, study.files, study.tiny)
