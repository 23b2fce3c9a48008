import json
import time
from pathlib import Path

import pytest
import torch

from aam.config.sections.training import EarlyStoppingSettings
from aam.train.early_stopping import EarlyStopping
from aam.train.loop import TimeIsUp, Validation, batches
from aam.util.errors import InputError

STEPS = 10
HALF = Validation(score=lambda: {"half": 0.5})


def learned(progress) -> list[dict]:
    return [record for record in progress.history if record["split"] != "system"]


def losses_of(progress) -> list[float]:
    return [r["value"] for r in progress.history if (r["split"], r["name"]) == ("train", "loss")]


def scored(values: list[float], patience: int = 2) -> Validation:
    """Return a validation whose scores are given, followed by early stopping."""
    given = iter(values)
    stopping = EarlyStopping(EarlyStoppingSettings(patience=patience, min_delta=0.01))
    return Validation(
        score=lambda: {"score": next(given)}, times=STEPS, watched="score", stopping=stopping
    )


@pytest.mark.parametrize(
    ("optimizer", "dropout", "log_points"), [("muon", 0.3, 200), ("adamw", 0.0, 3)]
)
def test_an_interrupted_run_ends_as_one_that_never_was(
    train, interrupted, feed_with, tmp_path, monkeypatch, log_points, dropout, optimizer
):
    monkeypatch.setattr("aam.train.loop.LOG_POINTS", log_points)
    changes = {"dropout": dropout, "optimizer": optimizer, "validation": HALF}
    weights, progress = train(**changes)
    for last in (1, 4, 5, 9):
        interrupted(tmp_path, last, **changes)
    seen = []
    resumed_weights, resumed = train(tmp_path, feed_with(seen.append), **changes)
    assert resumed_weights == weights
    assert learned(resumed) == learned(progress)
    assert resumed.step == progress.step == STEPS
    assert seen == [9], "no step is repeated"
    again, _ = train(tmp_path, feed_with(seen.append), **changes)
    assert again == weights
    assert seen == [9], "nor is a finished run trained again"


def test_dropout_is_at_work_in_training(train):
    assert train(dropout=0.3)[0] != train()[0]


def test_the_time_limit_leaves_a_checkpoint_that_the_next_run_goes_on_from(train, tmp_path):
    expected, _ = train()
    now = {"runtime": {"deadline": time.time() - 1, "checkpoint_every_s": 1e9}}
    for step in range(1, STEPS):
        with pytest.raises(TimeIsUp, match=f"step {step} of {STEPS}.*run the same command again"):
            train(tmp_path, **now)
    weights, _ = train(tmp_path, **now)
    assert weights == expected
    assert issubclass(TimeIsUp, InputError)


def test_the_history_says_what_happened_at_each_step(train):
    _, progress = train(validation=HALF)
    by_name = {}
    for record in progress.history:
        by_name.setdefault((record["split"], record["name"]), []).append(record)
    assert {name for split, name in by_name if split == "train"} == {
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


def test_training_lowers_the_losses(train, new_feed):
    dataset = new_feed()
    object.__setattr__(dataset, "epochs", 30)
    _, progress = train(None, dataset, epochs=30)
    for name, part in (("unweighted_loss", 0.9), ("nucleotide_loss", 0.97)):
        values = [record["value"] for record in progress.history if record["name"] == name]
        assert sum(values[-20:]) < part * sum(values[:20]), name


def test_early_stopping_ends_the_run_with_its_best_weights(train, tmp_path):
    weights, progress = train(tmp_path / "a", validation=scored([0.1, 0.5, 0.505, 0.4]))
    assert progress.step == 4
    best, _ = train(tmp_path / "b", validation=scored([0.1, 0.2, 0.3, 0.3, 0.3]))
    assert weights == best, "both were best after the third step"


def test_a_run_interrupted_between_validations_stops_where_it_would_have(
    train, interrupted, tmp_path
):
    scores = [0.1, 0.5, 0.2, 0.3, 0.2, 0.1]
    expected, _ = train(tmp_path / "a", validation=scored(scores, patience=3))
    interrupted(tmp_path / "b", 3, validation=scored(scores, patience=3))
    weights, progress = train(tmp_path / "b", validation=scored(scores[3:], patience=3))
    assert progress.step == 5
    assert weights == expected


def test_running_out_of_memory_divides_the_batch_and_goes_on(train, new_model, monkeypatch, caplog):
    _, expected = train()
    kind, largest = type(new_model().encoder.asv), 16
    forward = kind.forward

    def short_of_memory(self, tokens_US, masked, backend):
        if torch.is_grad_enabled() and len(tokens_US) > largest:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        return forward(self, tokens_US, masked, backend)

    monkeypatch.setattr(kind, "forward", short_of_memory)
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
