from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file
from stage_calls import call
from study_fixtures import EXPLAINED

from aam.config.sections.execution import Optimization
from aam.config.sections.model import ModelSettings
from aam.config.sections.training import Pretraining
from aam.model.store import load_config
from aam.stages.explain import explain_task
from aam.stages.predict import predict_table
from aam.util.atomic import read_json

SMALL = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "ffn_ratio": 2}


@pytest.mark.parametrize(
    ("encoder", "masking", "checkpointing", "task"),
    [("bilstm", "block", False, "pair"), ("bdh", "patch", True, "age")],
)
def test_it_is_pretrained_fine_tuned_predicts_and_is_explained(
    study, tmp_path, encoder, masking, checkpointing, task
):
    """Fine-tuned in its upper part, and as a whole."""
    changes = {
        "models": {"small": ModelSettings(encoder=encoder, **SMALL)},
        "pretraining": Pretraining(epochs=2, batch_size=6, masking=masking, optimizer="muon"),
        "optimization": Optimization(checkpointing=checkpointing, precision="fp32"),
    }
    other = replace(study, config=study.config.model_copy(update=changes))
    first = other.pretrain(tmp_path / "first")
    again = other.pretrain(tmp_path / "again", checkpoint_every_s=0.0)
    assert load_config(first["model"])["architecture"]["encoder"] == encoder
    for name in ("embeddings", "asvs", "model/model.safetensors"):
        here, there = (outputs["model"].parent / name for outputs in (again, first))
        assert here.read_bytes() == there.read_bytes(), name
    metrics = read_json(first["scores"])
    assert np.isfinite(metrics["unifrac_pearson"])
    assert 0 < metrics["nucleotide_accuracy"] <= 1
    assert 0 < metrics["model_flop_utilisation"] < 1

    settings = {"optimizer": "muon"} if task == "age" else {}
    tuned = other.finetune(tmp_path / "tuned", task, settings, model=first["model"])
    models = first["model"], tuned["model"] / "fold0"
    before, after = (load_file(path / "model.safetensors") for path in models)
    layers = [name for name in before if name.startswith("encoder.asv.blocks.0.")]
    moved = {not np.array_equal(before[name], after[name]) for name in layers}
    assert moved == {task == "age"}

    predicted = tmp_path / "new.tsv"
    predict_table(
        model=tuned["model"],
        table=other.files["table.biom"],
        predictions_out=predicted,
        notes_out=predicted.with_suffix(".notes.tsv"),
    )
    found = pd.read_csv(predicted, sep="\t", dtype={"sample-id": str})
    assert found["sample-id"].tolist() == other.tiny.table.sample_ids
    assert found.drop(columns="in_training").notna().all(axis=None)
    settings = {"explained": 2, "checked": 1, "removed": 3, "seed": 0}
    outputs = {name: tmp_path / name for name in EXPLAINED}
    inputs = {**other.task_inputs(task), "model": tuned["model"]}
    inputs["sequences"] = other.files["sequences.fasta"]
    inputs |= other.name_clade(tmp_path, task)
    call(explain_task, settings, inputs, outputs)
    completeness = read_json(outputs["check"])["completeness"]
    assert completeness["gap_max"] < 1e-3
