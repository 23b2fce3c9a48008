import json
import logging
import time
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import safetensors.torch
import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import EarlyStoppingSettings
from aam.model.build import set_dropout
from aam.model.encoder import AsvEncoder
from aam.runtime.run_options import RunOptions
from aam.train.checkpoint import KEPT, Checkpoints
from aam.train.data.dataset import BatchDataset
from aam.train.early_stopping import EarlyStopping
from aam.train.loop import TimeIsUp, Validation, batches, fit
from aam.train.micro_batches import MicroBatches
from aam.train.options import step_options
from aam.util.errors import InputError

STEPS = 10


class Interrupted(Exception):
    """Stands for whatever ends a process."""


def breaking_at(dataset: BatchDataset, broken_step: int) -> BatchDataset:
    @dataclass(frozen=True, eq=False)
    class Breaking(BatchDataset):
        def __getitem__(self, step):
            if step == broken_step:
                raise Interrupted
            return super().__getitem__(step)

    return Breaking(**{f.name: getattr(dataset, f.name) for f in fields(dataset)})


HALF = Validation(score=lambda: {"half": 0.5})


def learned(progress) -> list[dict]:
    return [record for record in progress.history if record["split"] != "system"]


@pytest.fixture
def train(devices, quick, new_model, new_feed):
    """Return the function that trains a new model and gives its bytes and its progress."""

    def run(
        folder=None,
        *,
        dataset=None,
        dropout=0.0,
        optimizer="adamw",
        learning_rate=3e-3,
        fingerprint="a",
        validation=HALF,
        **runtime,
    ):
        model = new_model()
        set_dropout(model, dropout)
        torch.manual_seed(int(time.time_ns() % 1000))
        progress = fit(
            model,
            dataset or new_feed(),
            quick.model_copy(update={"optimizer": optimizer, "learning_rate": learning_rate}),
            devices=devices,
            options=step_options(Optimization()),
            checkpoints=Checkpoints(folder, fingerprint),
            name="test",
            runtime=RunOptions(**{"checkpoint_every_s": 0.0, **runtime}),
            validation=validation,
        )
        return safetensors.torch.save(model.state_dict()), progress

    return run


@pytest.mark.parametrize("log_points", [200, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_an_interrupted_run_ends_as_one_that_never_was(
    train, new_feed, tmp_path, monkeypatch, log_points, dropout, optimizer
):
    monkeypatch.setattr("aam.train.loop.LOG_POINTS", log_points)
    settings = {"dropout": dropout, "optimizer": optimizer}
    weights, progress = train(**settings)
    for broken in (1, 4, 5, 9):
        with pytest.raises(Interrupted):
            train(tmp_path, dataset=breaking_at(new_feed(), broken), **settings)
    resumed_weights, resumed = train(tmp_path, **settings)
    assert resumed_weights == weights
    assert learned(resumed) == learned(progress)
    assert resumed.step == progress.step == STEPS


def test_dropout_is_at_work_in_training(train):
    assert train(dropout=0.3)[0] != train()[0]


def test_a_resumed_run_does_not_repeat_steps(train, new_feed, tmp_path):
    with pytest.raises(Interrupted):
        train(tmp_path, dataset=breaking_at(new_feed(), 6))
    seen = []

    @dataclass(frozen=True, eq=False)
    class Spy(BatchDataset):
        def __getitem__(self, step):
            seen.append(step)
            return super().__getitem__(step)

    train(tmp_path, dataset=new_feed(Spy))
    assert seen == [6, 7, 8, 9]


def test_a_checkpoint_of_other_settings_is_set_aside_and_said_so(train, new_feed, tmp_path, caplog):
    expected, _ = train()
    with pytest.raises(Interrupted):
        train(tmp_path, dataset=breaking_at(new_feed(), 6), fingerprint="other")
    with caplog.at_level(logging.INFO):
        weights, progress = train(tmp_path)
    assert "starting anew" in caplog.text
    assert weights == expected
    assert len([r for r in progress.history if r["name"] == "loss"]) == STEPS


def test_a_finished_run_is_not_trained_again(train, new_feed, tmp_path):
    weights, _ = train(tmp_path)
    again, progress = train(tmp_path, dataset=breaking_at(new_feed(), 0))
    assert again == weights
    assert progress.step == STEPS


def test_two_checkpoints_are_kept(train, tmp_path):
    train(tmp_path)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.pt"))
    assert names == ["a/step-000000009.pt", "a/step-000000010.pt"]
    assert len(names) == KEPT
    Checkpoints(tmp_path, "a").clear()
    assert not tmp_path.exists()


def test_checkpoints_hold_no_pickled_code(train, tmp_path):
    train(tmp_path)
    paths = list(tmp_path.rglob("*.pt"))
    assert len(paths) == KEPT
    for path in paths:
        assert torch.load(path, weights_only=True)["fingerprint"] == "a"


def test_the_time_limit_leaves_a_checkpoint_that_the_next_run_goes_on_from(train, tmp_path):
    expected, _ = train()
    for step in range(1, STEPS):
        with pytest.raises(TimeIsUp, match=f"step {step} of {STEPS}.*run the same command again"):
            train(tmp_path, deadline=time.monotonic() - 1, checkpoint_every_s=1e9)
    weights, _ = train(tmp_path, deadline=time.monotonic() - 1)
    assert weights == expected
    assert issubclass(TimeIsUp, InputError)


def test_a_loss_that_is_not_finite_ends_the_run_with_a_hint(train, new_feed, tiny):
    broken = new_feed()
    object.__setattr__(broken, "distances", {"unweighted": tiny.distances * float("nan")})
    with pytest.raises(RuntimeError, match=r"unweighted_loss.*try precision fp32 or a lower"):
        train(dataset=broken)


def test_the_history_says_what_happened_at_each_step(train):
    _, progress = train()
    by_name = {}
    for record in progress.history:
        by_name.setdefault((record["split"], record["name"]), []).append(record)
    train_names = {name for split, name in by_name if split == "train"}
    assert train_names == {
        "loss",
        "unweighted_loss",
        "nucleotide_loss",
        "gradient_norm",
        "learning_rate",
    }
    losses = by_name["train", "loss"]
    assert [record["step"] for record in losses] == list(range(1, STEPS + 1))
    assert [record["epoch"] for record in losses] == [step / 5 for step in range(1, STEPS + 1)]
    parts = zip(
        by_name["train", "unweighted_loss"], by_name["train", "nucleotide_loss"], strict=True
    )
    sums = [a["value"] + b["value"] for a, b in parts]
    assert [record["value"] for record in losses] == pytest.approx(sums, rel=1e-5)
    validated = [record["step"] for record in by_name["validation", "half"]]
    assert validated[-1] == STEPS
    assert len(validated) == 8


def test_training_lowers_the_losses(devices, quick, new_model, new_feed):
    settings = quick.model_copy(update={"epochs": 40, "optimizer": "adamw"})
    dataset = new_feed()
    object.__setattr__(dataset, "epochs", 40)
    progress = fit(
        new_model(),
        dataset,
        settings,
        devices=devices,
        options=step_options(Optimization()),
        checkpoints=Checkpoints(None, ""),
        name="test",
        runtime=RunOptions(),
    )
    for name, share in (("unweighted_loss", 0.9), ("nucleotide_loss", 0.96)):
        values = [record["value"] for record in progress.history if record["name"] == name]
        assert sum(values[-20:]) < share * sum(values[:20]), name


def losses_of(progress) -> list[float]:
    return [r["value"] for r in progress.history if (r["split"], r["name"]) == ("train", "loss")]


def scored(values: list[float], patience: int = 2) -> Validation:
    """Return a validation whose scores are given, followed by early stopping."""
    given = iter(values)
    stopping = EarlyStopping(EarlyStoppingSettings(patience=patience, min_delta=0.01))
    return Validation(
        score=lambda: {"score": next(given)}, times=STEPS, watched="score", stopping=stopping
    )


def test_early_stopping_ends_the_run_with_its_best_weights(train, tmp_path, new_feed):
    weights, progress = train(tmp_path / "a", validation=scored([0.1, 0.5, 0.505, 0.4]))
    assert progress.step == 4
    best, _ = train(tmp_path / "b", validation=scored([0.1, 0.2, 0.3, 0.3, 0.3], patience=2))
    assert weights == best, "both were best after the third step"


def test_a_run_interrupted_between_validations_stops_where_it_would_have(train, tmp_path, new_feed):
    scores = [0.1, 0.5, 0.2, 0.3, 0.2, 0.1]
    expected, _ = train(tmp_path / "a", validation=scored(scores, patience=3))
    with pytest.raises(Interrupted):
        train(
            tmp_path / "b",
            dataset=breaking_at(new_feed(), 3),
            validation=scored(scores, patience=3),
        )
    weights, progress = train(tmp_path / "b", validation=scored(scores[3:], patience=3))
    assert progress.step == 5
    assert weights == expected


def test_running_out_of_memory_splits_the_batch_and_goes_on(train, monkeypatch, caplog):
    _, expected = train()
    forward, largest = AsvEncoder.forward, 16

    def short_of_memory(self, tokens_US, masked, backend):
        if torch.is_grad_enabled() and len(tokens_US) > largest:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        return forward(self, tokens_US, masked, backend)

    monkeypatch.setattr("aam.train.step_memory.fit_to_memory", lambda *_, **named: MicroBatches())
    monkeypatch.setattr(AsvEncoder, "forward", short_of_memory)
    _, progress = train()
    assert progress.step == STEPS
    assert "out of memory: from now on micro-batches of at most" in caplog.text
    assert progress.parts["memory"].micro_batches.asvs <= largest
    assert losses_of(progress) == pytest.approx(losses_of(expected), rel=1e-3)


def test_the_losses_of_a_run_are_those_recorded(train):
    """A change that is not meant to change the arithmetic leaves `tests/golden` as it is."""
    golden = Path(__file__).parents[2] / "golden" / "losses.json"
    # A high rate would make the last bit of a gradient decide.
    _, progress = train(dropout=0.1, learning_rate=1e-5)
    assert losses_of(progress) == pytest.approx(json.loads(golden.read_text()), rel=1e-4)


def test_batches_assembled_by_other_processes_are_the_same_in_the_same_order(new_feed):
    dataset = new_feed()
    here = list(batches(dataset, 3, workers=0, pin=False))
    there = list(batches(dataset, 3, workers=2, pin=False))
    assert len(here) == len(there) == STEPS - 3
    for one, other in zip(here, there, strict=True):
        assert torch.equal(one.distances["unweighted"], other.distances["unweighted"])
        for a, b in zip(one.asvs, other.asvs, strict=True):
            assert torch.equal(a.tokens_US, b.tokens_US)
