"""The precision `auto` from pretraining to the models of a task."""

import logging
from dataclasses import replace

import pytest

from aam.config.sections.execution import Optimization
from aam.distributed import devices as devices_module
from aam.model.store import load_config
from aam.train import precision
from aam.train.memory.meter import StepMeasurement, measure_step
from aam.util.atomic import read_json


@pytest.fixture
def auto(study, monkeypatch):
    """Return the study with `precision: auto`, on a machine that is faster in bf16."""

    def measured(model, batch, devices):
        measure_step(model, batch, devices)
        return StepMeasurement(0.5 if devices.precision == "bf16" else 1.0, 0.0)

    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: True)
    monkeypatch.setattr(precision, "measure_step", measured)
    optimization = Optimization(precision="auto")
    return replace(study, config=study.config.model_copy(update={"optimization": optimization}))


def times_measured(caplog) -> int:
    return sum(text.startswith("a step takes") for text in caplog.messages)


def test_an_encoder_is_trained_in_the_faster_precision_and_its_models_follow(
    auto, caplog, tmp_path
):
    caplog.set_level(logging.INFO)
    given = Optimization(precision="bf16")
    fixed = replace(auto, config=auto.config.model_copy(update={"optimization": given}))
    expected = fixed.pretrain(tmp_path / "given")
    assert times_measured(caplog) == 0
    chosen = auto.pretrain(tmp_path / "auto")
    assert times_measured(caplog) == 1
    weights = [outputs["model"] / "model.safetensors" for outputs in (chosen, expected)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    metrics = read_json(chosen["scores"])
    assert metrics["optimization"]["precision"] == "bf16"
    assert metrics["precision_step_s"]["bf16"] == 0.5
    assert load_config(chosen["model"])["optimization"]["precision"] == "bf16"

    models = auto.finetune(tmp_path / "age", "age", model=chosen["model"])["model"]
    assert times_measured(caplog) == 1, "nothing is measured for a task"
    assert precisions(models) == {"bf16"}


def precisions(models) -> set[str]:
    return {
        load_config(path.parent)["optimization"]["precision"]
        for path in models.glob("*/config.json")
    }


def test_without_an_encoder_the_first_model_of_a_task_decides_for_all(auto, caplog, tmp_path):
    caplog.set_level(logging.INFO)
    models = auto.finetune(tmp_path / "scratch", "scratch")["model"]
    assert times_measured(caplog) == 1
    assert len(list(models.glob("*/config.json"))) == 2
    assert precisions(models) == {"bf16"}
