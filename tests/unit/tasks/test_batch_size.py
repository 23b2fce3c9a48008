"""The batch size `auto`: what it may be, and that a run with it is one with that size."""

import logging
import time

import pytest

from aam.config.sections.training import Pretraining
from aam.config.settings.training import PretrainSettings
from aam.distributed.devices import Devices
from aam.model.store import load_config
from aam.tasks.pretrain import batch_size
from aam.tasks.pretrain.batch_size import KEY, possible_sizes, settle_batch_size
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.train.checkpoint import DECIDED, Checkpoints
from aam.train.progress import TimeIsUp
from aam.util.atomic import read_json
from aam.util.errors import InputError
from aam.util.run_options import RunOptions

AUTO = {"batch_size": "auto", "epochs": 8, "learning_rate": 1e-3}
WEIGHTS = "model.safetensors"


@pytest.mark.parametrize(
    ("samples", "epochs", "is_on_cpu", "expected"),
    [
        (180, None, True, [64]),
        (2000, None, True, [64]),
        (2200, None, True, [64, 128]),
        (5000, None, True, [64, 128, 256]),
        (100_000, None, True, [64, 128, 256]),
        (100_000, None, False, [64 * 2**doubling for doubling in range(7)]),
        (2283, 20, True, [64, 128]),
        (100_000, 0, False, [64]),
        (100, 1000, False, [64]),
    ],
)
def test_batches_grow_while_a_run_keeps_its_steps_and_its_passes(
    samples, epochs, is_on_cpu, expected
):
    training = Pretraining(batch_size="auto", epochs=epochs)
    assert possible_sizes(training, samples, is_on_cpu=is_on_cpu) == expected


@pytest.mark.parametrize(("size", "rate"), [(64, 1e-3), (128, 2e-3), (256, 4e-3), (1024, 4e-3)])
def test_the_rate_grows_with_the_batch_as_far_as_that_was_measured(size, rate):
    settled = Pretraining(**AUTO).with_batches_of(size)
    assert (settled.batch_size, settled.learning_rate) == (size, rate)


@pytest.fixture
def small_steps(monkeypatch):
    """Let batches of the 16 training samples grow from 4: to 8, and, in 8 epochs, not to 16."""
    monkeypatch.setattr(Pretraining, "first_batch_size", 4)
    monkeypatch.setattr(Pretraining, "least_steps", 16)


def test_a_run_with_auto_is_one_with_the_size_that_it_finds(study, small_steps, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    found = study.pretrain(tmp_path / "auto", AUTO)
    rate = 2e-3
    given = study.pretrain(tmp_path / "given", {**AUTO, "batch_size": 8, "learning_rate": rate})
    assert (found["model"] / WEIGHTS).read_bytes() == (given["model"] / WEIGHTS).read_bytes()
    for kind in ("settings", "architecture"):
        assert load_config(found["model"])[kind] == load_config(given["model"])[kind]
    scores, expected = (read_json(outputs["scores"]) for outputs in (found, given))
    assert scores["batch_size"] == 8
    for name in ("steps", "unweighted_pearson", "nucleotide_accuracy"):
        assert scores[name] == expected[name]
    lines = [text for text in caplog.messages if text.startswith("batch_size auto")]
    assert lines == [
        "batch_size auto: 8 samples a step at a learning rate of 0.002 (4 at 0.001)",
    ]


def test_a_run_that_goes_on_keeps_its_size_whatever_the_memory_is_now(
    study, small_steps, tmp_path, monkeypatch, caplog
):
    expected = study.pretrain(tmp_path / "whole", AUTO)
    for _ in range(2):
        with pytest.raises(TimeIsUp):
            study.pretrain(tmp_path / "cut", AUTO, deadline=time.time())
        # From here on it is as on another machine, which would choose otherwise.
        monkeypatch.setattr(batch_size, "largest_batch_size", lambda *_, **__: 4)
    caplog.set_level(logging.INFO)
    outputs = study.pretrain(tmp_path / "cut", AUTO)
    assert "8 samples a step at a learning rate of 0.002 (4 at 0.001), as this run was" in (
        caplog.text
    )
    assert (outputs["model"] / WEIGHTS).read_bytes() == (expected["model"] / WEIGHTS).read_bytes()
    other = study.pretrain(tmp_path / "other", AUTO)
    assert read_json(other["scores"])["batch_size"] == 4
    assert (other["model"] / WEIGHTS).read_bytes() != (expected["model"] / WEIGHTS).read_bytes()


@pytest.fixture
def settle(study, one_thread, tmp_path):
    """Return a function that settles the size of a run with some settings."""

    def run(**changes) -> tuple[PretrainSettings, Checkpoints]:
        checkpoints = Checkpoints(tmp_path, "a")
        settings = PretrainSettings.model_validate(study.pretrain_slice(**AUTO, **changes))
        inputs = PretrainInputs.model_validate(study.pretraining_inputs)
        devices = Devices("fp32", 1)
        settled = settle_batch_size(settings, inputs, devices, checkpoints, RunOptions())
        return settled, checkpoints

    return run


def test_a_small_study_stays_at_the_first_size_and_reads_nothing_more(
    settle, monkeypatch, caplog, tmp_path
):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(batch_size, "prepare", pytest.fail)
    settled, checkpoints = settle()
    assert (settled.pretraining.batch_size, settled.pretraining.learning_rate) == (64, 1e-3)
    assert "larger batches would leave the run fewer than 200 steps" in caplog.text
    assert checkpoints.decided() == {KEY: 64}


def test_a_damaged_decision_is_told_and_not_made_again(settle, tmp_path):
    settle()
    (file,) = tmp_path.rglob(DECIDED)
    file.write_text("{")
    with pytest.raises(InputError, match=r"decided\.json.*damaged.*delete .*starts at step 1"):
        settle()


def test_a_decision_that_cannot_be_kept_ends_the_run(settle, tmp_path):
    (tmp_path / "a").write_text("a file where the folder should be")
    with pytest.raises(InputError, match="no room or no right to write it"):
        settle()
