"""The one training loop, shared by pretraining and fine-tuning."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from aam.config.sections.training import Training
from aam.model.batch import Batch
from aam.train.checkpoint import Checkpoints
from aam.train.devices import Devices
from aam.train.feed import Feed
from aam.train.optimizer import adamw
from aam.train.schedule import warmup_cosine
from aam.train.telemetry import Reporter
from aam.util.errors import InputError
from aam.util.seeds import seed_of

LOG_POINTS = 200
"""Points of the training curves that a run records."""
VALIDATIONS = 8
"""Validations of a run, the last after its last step."""

Record = dict[str, Any]
Validate = Callable[[], dict[str, float]]


@dataclass(frozen=True)
class Pace:
    """Means of a run that do not change its result.

    Attributes
    ----------
    name
        What is trained, for progress lines.
    workers
        Processes that assemble batches for an accelerator; a CPU assembles its own.
    log_every_s, checkpoint_every_s
        Seconds between progress lines and between checkpoints.
    deadline
        Instant of `time.monotonic` to leave by, with a checkpoint; None: none.
    """

    name: str
    workers: int = 0
    log_every_s: float = 10.0
    checkpoint_every_s: float = 60.0
    deadline: float | None = None


@dataclass
class Progress:
    """State of the loop: all that a resumed run needs beside model and optimizer."""

    step: int = 0
    elapsed_s: float = 0.0
    history: list[Record] = field(default_factory=list)


class TimeIsUp(InputError):
    """The time limit came before the end; the checkpoint lets the next run go on."""


def fit(
    model: nn.Module,
    feed: Feed,
    settings: Training,
    *,
    devices: Devices,
    fused: bool,
    checkpoints: Checkpoints,
    pace: Pace,
    validate: Validate | None = None,
) -> Progress:
    """Train `model`, whose forward returns named losses of a batch, `loss` being minimized.

    The run goes on from the newest checkpoint of the same fingerprint. Everything random is a
    function of seed and step, so an interrupted run ends with the same weights.

    Returns
    -------
    Progress
        With the history: one record per log point.

    Raises
    ------
    RuntimeError
        When a loss is not finite.
    TimeIsUp
        When the deadline comes before the last step; a checkpoint was written.
    """
    optimizer = adamw(
        model,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=fused,
    )
    wrapped, optimizer = devices.setup(model, optimizer)
    progress, sums = _resume(model, optimizer, checkpoints)
    total = len(feed)
    log_every, validate_at = max(1, total // LOG_POINTS), _validation_steps(total)
    reporter = Reporter(pace.name, progress.step, total, pace.log_every_s)
    t_start = t_saved = time.monotonic()
    elapsed_before_s = progress.elapsed_s
    wrapped.train()
    for batch in _batches(feed, progress.step, devices, pace.workers):
        rate = settings.learning_rate * warmup_cosine(progress.step, total, settings.warmup)
        losses, norm = train_step(wrapped, optimizer, batch, rate, settings, progress.step, devices)
        sums.add({**losses, "gradient_norm": norm})
        progress.step += 1
        reporter.step(progress.step)
        if progress.step % log_every == 0 or progress.step == total:
            values = sums.mean_and_reset(progress.step)
            _record(progress, feed, "train", {**values, "learning_rate": rate})
        if validate is not None and progress.step in validate_at:
            values = validate()
            _record(progress, feed, "validation", values)
            reporter.values(progress.step, values)
        now = time.monotonic()
        progress.elapsed_s = elapsed_before_s + now - t_start
        late = pace.deadline is not None and now > pace.deadline and progress.step < total
        if late or now - t_saved >= pace.checkpoint_every_s:
            _save(model, optimizer, checkpoints, progress, sums)
            t_saved = time.monotonic()
        if late:
            raise TimeIsUp(
                f"{pace.name}: the time limit came at step {progress.step} of {total}; "
                "the checkpoint is written. Hint: run the same command again"
            )
    reporter.close()
    return progress


def train_step(
    model: nn.Module,
    optimizer: Any,
    batch: Batch,
    rate: float,
    settings: Training,
    step: int,
    devices: Devices,
) -> tuple[dict[str, Tensor], Tensor]:
    """Do one update; nothing here waits for the device."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    torch.manual_seed(seed_of("dropout", settings.seed, step))
    losses = model(batch)
    devices.backward(losses["loss"])
    norm = nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {name: value.detach() for name, value in losses.items()}, norm.detach()


def _batches(feed: Feed, first: int, devices: Devices, workers: int) -> Iterator[Batch]:
    on_accelerator = devices.device.type != "cpu"
    loader = DataLoader(
        feed,
        batch_size=None,
        sampler=range(first, len(feed)),
        num_workers=workers if on_accelerator else 0,
        pin_memory=on_accelerator,
    )
    for batch in loader:
        yield batch.to(devices.device)


class _Sums:
    """Sums of device values, read when logging only."""

    def __init__(self) -> None:
        self.values: dict[str, Tensor] = {}
        self.steps = 0

    def add(self, values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            self.values[name] = self.values[name] + value if name in self.values else value
        self.steps += 1

    def mean_and_reset(self, step: int) -> dict[str, float]:
        means = {name: float(value) / self.steps for name, value in self.values.items()}
        self.values, self.steps = {}, 0
        bad = [
            name for name, value in means.items() if value != value or abs(value) == float("inf")
        ]
        if bad:
            raise RuntimeError(
                f"{', '.join(bad)} not finite before step {step}: try precision fp32 or a lower "
                "learning_rate"
            )
        return means


def _validation_steps(total: int) -> set[int]:
    return {round(total * part / VALIDATIONS) for part in range(1, VALIDATIONS + 1)}


def _record(progress: Progress, feed: Feed, split: str, values: dict[str, float]) -> None:
    epoch = progress.step / feed.steps_per_epoch
    for name, value in values.items():
        progress.history.append(
            {"step": progress.step, "epoch": epoch, "split": split, "name": name, "value": value}
        )


def _save(
    model: nn.Module, optimizer: Any, checkpoints: Checkpoints, progress: Progress, sums: _Sums
) -> None:
    checkpoints.save(
        progress.step,
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "elapsed_s": progress.elapsed_s,
            "history": progress.history,
            "sums": sums.values,
            "summed_steps": sums.steps,
        },
    )


def _resume(model: nn.Module, optimizer: Any, checkpoints: Checkpoints) -> tuple[Progress, _Sums]:
    state = checkpoints.load()
    if state is None:
        return Progress(), _Sums()
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    sums = _Sums()
    sums.values, sums.steps = state["sums"], state["summed_steps"]
    return Progress(state["step"], state["elapsed_s"], state["history"]), sums
