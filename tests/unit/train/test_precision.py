"""The precision that is chosen by measured steps, and the run after it."""

import logging
import time

import pytest
import torch

from aam.distributed import devices as devices_module
from aam.distributed.devices import Devices, hardware_name, has_tf32
from aam.train import precision
from aam.train.loop import TimeIsUp
from aam.train.memory.meter import StepMeasurement, measure_step
from aam.train.memory.micro_batches import MicroBatches
from aam.train.precision import PrecisionChoice, choose_faster, precision_of_encoder
from aam.util.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")

BF16_FASTER = {"fp32": 1.0, "bf16": 0.5, "tf32": 1.0}
BF16_SLOWER = {"fp32": 0.5, "bf16": 1.0, "tf32": 0.5}
EXACT = "tf32" if has_tf32(torch.device("cuda" if torch.cuda.is_available() else "cpu")) else "fp32"


@pytest.fixture(autouse=True)
def fast_bf16(monkeypatch):
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: True)


@pytest.fixture
def set_step_times(monkeypatch):
    """Return the function that sets the seconds that real steps are said to take, by precision."""
    steps = []

    def set_seconds(seconds):
        def measure(model, batch, devices):
            steps.append(devices.precision)
            measure_step(model, batch, devices)
            return StepMeasurement(seconds[devices.precision], 0.0)

        monkeypatch.setattr(precision, "measure_step", measure)
        return steps

    return set_seconds


def learned_records(progress):
    return [record for record in progress.history if record["split"] != "system"]


@pytest.mark.parametrize(
    ("seconds", "chosen"), [(BF16_FASTER, "bf16"), (BF16_SLOWER, EXACT)], ids=["bf16", "exact"]
)
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_a_run_ends_with_the_bytes_of_one_that_was_given_the_precision(
    train, set_step_times, caplog, seconds, chosen, optimizer
):
    steps = set_step_times(seconds)
    caplog.set_level(logging.INFO)
    changes = {"dropout": 0.3, "optimizer": optimizer}
    weights, progress = train(devices=Devices("auto", 1), precision="auto", **changes)
    assert set(steps) == {EXACT, "bf16"}, "real steps are timed in both"
    given_weights, given = train(devices=Devices(chosen, 1), precision=chosen, **changes)
    assert weights == given_weights
    assert learned_records(progress) == learned_records(given)
    assert progress.facts["optimization"]["precision"] == chosen
    assert progress.facts["optimization"]["lacking"] == []
    assert progress.facts["precision_step_s"] == {name: seconds[name] for name in (EXACT, "bf16")}
    assert "precision_step_s" not in given.facts
    (said,) = [text for text in caplog.messages if text.startswith("a step takes")]
    times = f"{seconds[EXACT]:.3g} s in {EXACT} and {seconds['bf16']:.3g} s in bf16"
    assert said == f"a step takes {times}: training in {chosen}"


def test_a_run_that_goes_on_takes_the_choice_of_its_checkpoint(train, set_step_times, tmp_path):
    given, _ = train(devices=Devices("bf16", 1), precision="bf16", dropout=0.3)
    auto = {"precision": "auto", "dropout": 0.3}
    steps = set_step_times(BF16_FASTER)
    with pytest.raises(TimeIsUp):
        train(tmp_path, devices=Devices("auto", 1), runtime={"deadline": time.time() - 1}, **auto)
    set_step_times(BF16_SLOWER)
    steps.clear()
    weights, progress = train(tmp_path, devices=Devices("auto", 1), **auto)
    assert weights == given
    assert steps == [], "nothing is measured again"
    assert progress.facts["precision_step_s"]["bf16"] == BF16_FASTER["bf16"]


def test_a_precision_that_is_given_is_not_measured(train, set_step_times):
    steps = set_step_times(BF16_FASTER)
    _, progress = train(devices=Devices("fp32", 1), precision="fp32")
    assert steps == []
    assert progress.facts["optimization"]["precision"] == "fp32"


@pytest.mark.parametrize(
    ("bf16", "chosen"), [(0.5, "bf16"), (0.89, "bf16"), (0.91, "fp32"), (1.0, "fp32"), (2, "fp32")]
)
def test_where_both_are_nearly_as_fast_the_more_exact_one_is_taken(bf16, chosen):
    assert choose_faster({"fp32": 1.0, "bf16": bf16}) == chosen


@pytest.mark.skipif(torch.cuda.is_available(), reason="an accelerator has bf16")
def test_a_cpu_without_fast_bf16_has_no_choice_and_says_nothing(
    train, set_step_times, monkeypatch, caplog
):
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: False)
    steps = set_step_times(BF16_FASTER)
    _, progress = train(devices=Devices("auto", 1), precision="auto")
    assert steps == []
    assert progress.facts["optimization"]["precision"] == "fp32"
    assert progress.facts["optimization"]["lacking"] == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_precision_that_does_not_fit_into_the_memory_is_not_taken(
    train, set_step_times, monkeypatch
):
    """Even if the other one is slower."""

    def fit(model, dataset, devices, **limits):
        if devices.precision != "bf16":
            raise InputError("too little memory")
        return MicroBatches()

    set_step_times(BF16_SLOWER)
    monkeypatch.setattr(precision, "fit_to_memory", fit)
    _, progress = train(devices=Devices("auto", 1), precision="auto")
    assert progress.facts["optimization"]["precision"] == "bf16"


def test_a_choice_that_this_machine_cannot_carry_out_is_made_again(caplog):
    devices = Devices("auto", 1)
    PrecisionChoice(devices).restore({"precision": "fp8", "seconds": {}})
    assert not devices.is_chosen
    assert "trained in fp8 so far, which this machine lacks" in caplog.text


def test_models_that_follow_take_the_precision_of_the_first(train, set_step_times):
    """Also of one that an earlier run has finished."""
    devices = Devices("auto", 1)
    steps = set_step_times(BF16_FASTER)
    _, first = train(devices=devices, precision="auto")
    steps.clear()
    train(devices=devices, precision="auto")
    assert steps == []
    following = Devices("auto", 1)
    PrecisionChoice(following).adopt(None)
    assert not following.is_chosen
    PrecisionChoice(following).adopt(first.facts["optimization"])
    assert (following.is_chosen, following.precision) == (True, "bf16")


def test_an_encoder_decides_for_its_models_on_the_hardware_that_it_was_trained_on():
    there = {"precision": "bf16", "hardware": "another"}
    assert precision_of_encoder({**there, "hardware": hardware_name()}) == "bf16"
    assert precision_of_encoder(there) == "auto"
    assert precision_of_encoder({}) == "auto"
