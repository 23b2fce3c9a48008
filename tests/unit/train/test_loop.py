import json
import time
from pathlib import Path

import pytest
import torch

from aam.train.loop import TimeIsUp
from aam.train.progress import EarlyStopping, Validation
from aam.util.errors import InputError

STEPS = 10
HALF = Validation(lambda: {"half": 0.5}, 8, "half", EarlyStopping(None))
GOLDEN = Path(__file__).parents[2] / "golden" / "losses.json"


def values_of(progress, name: str, split: str = "train") -> list[float]:
    return [r["value"] for r in progress.history if (r["split"], r["name"]) == (split, name)]


@pytest.mark.parametrize(
    ("optimizer", "dropout", "log_points"), [("muon", 0.3, 200), ("adamw", 0.0, 3)]
)
def test_an_interrupted_run_ends_as_one_that_never_was(
    train, interrupt, feed_with, tmp_path, monkeypatch, log_points, dropout, optimizer
):
    monkeypatch.setattr("aam.train.loop.LOG_POINTS", log_points)
    changes = {"dropout": dropout, "optimizer": optimizer, "validation": HALF}
    weights, progress = train(**changes)
    for last in (1, 5, 9):
        interrupt(tmp_path, last, **changes)
    seen = []
    resumed_weights, resumed = train(tmp_path, feed_with(seen.append), **changes)
    assert resumed_weights == weights
    learned = ([r for r in p.history if r["split"] != "system"] for p in (progress, resumed))
    assert next(learned) == next(learned)
    assert resumed.step == progress.step == STEPS
    assert seen == [9], "no step is repeated"
    again, _ = train(tmp_path, feed_with(seen.append), **changes)
    assert again == weights
    assert seen == [9], "nor is a finished run trained again"


def test_the_time_limit_leaves_a_checkpoint_that_the_next_run_goes_on_from(train, whole, tmp_path):
    now = {"runtime": {"deadline": time.time() - 1, "checkpoint_every_s": 1e9}}
    for step in range(1, STEPS):
        with pytest.raises(TimeIsUp, match=f"step {step} of {STEPS}.*run the same command again"):
            train(tmp_path, **now)
    assert train(tmp_path, **now)[0] == whole
    assert issubclass(TimeIsUp, InputError)


def test_the_losses_of_a_run_are_those_recorded_and_its_history_is_complete(train):
    """A change that is not meant to change the arithmetic leaves `tests/golden` as it is."""
    # A high rate would make the last bit of a gradient decide.
    _, progress = train(dropout=0.1, learning_rate=1e-5, validation=HALF)
    losses = values_of(progress, "loss")
    assert losses == pytest.approx(json.loads(GOLDEN.read_text()), rel=1e-4)
    parts = zip(
        values_of(progress, "unweighted_loss"), values_of(progress, "nucleotide_loss"), strict=True
    )
    assert losses == pytest.approx([sum(pair) for pair in parts], rel=1e-5)
    records = [r for r in progress.history if r["name"] == "loss"]
    assert [(r["step"], r["epoch"]) for r in records] == [(s, s / 5) for s in range(1, STEPS + 1)]
    names = {r["name"] for r in progress.history if r["split"] == "train"} - {"loss"}
    assert names == {"unweighted_loss", "nucleotide_loss", "gradient_norm", "learning_rate"}
    assert values_of(progress, "half", "validation") == [0.5] * 8
    assert values_of(train(learning_rate=1e-5)[1], "loss") != losses, "dropout is at work"


def test_training_lowers_the_losses(train, new_feed):
    _, progress = train(None, new_feed(epochs=20), epochs=20)
    for name, part in (("unweighted_loss", 0.9), ("nucleotide_loss", 0.98)):
        values = values_of(progress, name)
        assert sum(values[-20:]) < part * sum(values[:20]), name


def test_running_out_of_memory_makes_smaller_micro_batches_and_the_same_losses(
    train, new_model, monkeypatch, caplog
):
    _, expected = train()
    kind, largest = type(new_model().encoder.asv), 16
    forward = kind.forward

    def short_of_memory(self, tokens_US, masked, backend):
        # 64 PB: a real failure, as of an allocation that is too large.
        torch.empty(2**56 if len(tokens_US) > largest else 0)
        return forward(self, tokens_US, masked, backend)

    monkeypatch.setattr(kind, "forward", short_of_memory)
    _, progress = train()
    assert progress.step == STEPS
    assert "out of memory: from now on micro-batches of at most" in caplog.text
    assert progress.parts["memory"].micro_batches.asvs <= largest
    assert values_of(progress, "loss") == pytest.approx(values_of(expected, "loss"), rel=1e-4)


def test_early_stopping_ends_the_run_with_its_best_weights(
    train, interrupt, new_validation, tmp_path
):
    """Also one that was interrupted between two validations."""
    scores = [0.1, 0.5, 0.505, 0.4]
    weights, progress = train(tmp_path / "a", validation=new_validation(scores))
    assert progress.step == 4
    best, _ = train(tmp_path / "b", validation=new_validation([0.1, 0.2, 0.3, 0.3, 0.3]))
    assert weights == best, "both were best after the third step"
    interrupt(tmp_path / "c", 3, validation=new_validation(scores))
    again, resumed = train(tmp_path / "c", validation=new_validation(scores[3:]))
    assert (again, resumed.step) == (weights, 4)
