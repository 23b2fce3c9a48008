import logging
import time
from dataclasses import dataclass, fields

import pytest
import safetensors.torch
import torch

from aam.model.build import set_dropout
from aam.train.checkpoint import KEPT, Checkpoints
from aam.train.feed import Feed
from aam.train.loop import Pace, TimeIsUp, fit
from aam.util.errors import InputError

STEPS = 10


class Interrupted(Exception):
    """Stands for whatever ends a process."""


def breaking_at(feed: Feed, broken_step: int) -> Feed:
    @dataclass(frozen=True, eq=False)
    class Breaking(Feed):
        def __getitem__(self, step):
            if step == broken_step:
                raise Interrupted
            return super().__getitem__(step)

    return Breaking(**{f.name: getattr(feed, f.name) for f in fields(feed)})


@pytest.fixture
def train(devices, quick, new_model, new_feed):
    """Return the function that trains a new model and gives its bytes and its progress."""

    def run(folder=None, *, feed=None, dropout=0.0, fused=True, fingerprint="a", **pace):
        model = new_model()
        set_dropout(model, dropout)
        torch.manual_seed(int(time.time_ns() % 1000))
        progress = fit(
            model,
            feed or new_feed(),
            quick,
            devices=devices,
            fused=fused,
            checkpoints=Checkpoints(folder, fingerprint),
            pace=Pace("test", **{"checkpoint_every_s": 0.0, **pace}),
            validate=lambda: {"half": 0.5},
        )
        return safetensors.torch.save(model.state_dict()), progress

    return run


@pytest.mark.parametrize("log_points", [200, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("fused", [True, False])
def test_an_interrupted_run_ends_as_one_that_never_was(
    train, new_feed, tmp_path, monkeypatch, log_points, dropout, fused
):
    monkeypatch.setattr("aam.train.loop.LOG_POINTS", log_points)
    settings = {"dropout": dropout, "fused": fused}
    weights, progress = train(**settings)
    for broken in (1, 4, 5, 9):
        with pytest.raises(Interrupted):
            train(tmp_path, feed=breaking_at(new_feed(), broken), **settings)
    resumed_weights, resumed = train(tmp_path, **settings)
    assert resumed_weights == weights
    assert resumed.history == progress.history
    assert resumed.step == progress.step == STEPS


def test_dropout_is_at_work_in_training(train):
    assert train(dropout=0.3)[0] != train()[0]


def test_a_resumed_run_does_not_repeat_steps(train, new_feed, tmp_path):
    with pytest.raises(Interrupted):
        train(tmp_path, feed=breaking_at(new_feed(), 6))
    seen = []

    @dataclass(frozen=True, eq=False)
    class Spy(Feed):
        def __getitem__(self, step):
            seen.append(step)
            return super().__getitem__(step)

    train(tmp_path, feed=new_feed(Spy))
    assert seen == [6, 7, 8, 9]


def test_a_checkpoint_of_other_settings_is_set_aside_and_said_so(train, new_feed, tmp_path, caplog):
    expected, _ = train()
    with pytest.raises(Interrupted):
        train(tmp_path, feed=breaking_at(new_feed(), 6), fingerprint="other")
    with caplog.at_level(logging.INFO):
        weights, progress = train(tmp_path)
    assert "starting anew" in caplog.text
    assert weights == expected
    assert len([r for r in progress.history if r["name"] == "loss"]) == STEPS


def test_a_finished_run_is_not_trained_again(train, new_feed, tmp_path):
    weights, _ = train(tmp_path)
    again, progress = train(tmp_path, feed=breaking_at(new_feed(), 0))
    assert again == weights
    assert progress.step == STEPS


def test_two_checkpoints_are_kept(train, tmp_path):
    train(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["step-000000009.pt", "step-000000010.pt"]
    assert len(names) == KEPT
    Checkpoints(tmp_path, "a").clear()
    assert not tmp_path.exists()


def test_a_half_written_checkpoint_is_never_picked_up(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, "a")
    checkpoints.save(1, {"x": torch.ones(3)})

    def half(state, path):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="no space"):
        checkpoints.save(2, {"x": torch.zeros(3)})
    state = checkpoints.load()
    assert state is not None
    assert state["step"] == 1
    assert torch.equal(state["x"], torch.ones(3))


def test_checkpoints_hold_no_pickled_code(train, tmp_path):
    train(tmp_path)
    for path in tmp_path.iterdir():
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
        train(feed=broken)


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
    settings = quick.model_copy(update={"epochs": 40})
    feed = new_feed()
    object.__setattr__(feed, "epochs", 40)
    progress = fit(
        new_model(),
        feed,
        settings,
        devices=devices,
        fused=True,
        checkpoints=Checkpoints(None, ""),
        pace=Pace("test"),
    )
    for name, share in (("unweighted_loss", 0.9), ("nucleotide_loss", 0.96)):
        values = [record["value"] for record in progress.history if record["name"] == name]
        assert sum(values[-20:]) < share * sum(values[:20]), name
