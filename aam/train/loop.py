"""The one training loop, shared by pretraining and fine-tuning."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from aam.config.sections.training import Training
from aam.model.batch import Batch
from aam.model.encoder import Recompute
from aam.train.checkpoint import Checkpoints
from aam.train.compilation import compile_blocks
from aam.train.devices import Devices
from aam.train.distributed import Shares, refuse_pieces, without_splitting
from aam.train.feed import Feed
from aam.train.optimizer import make_optimizer, set_rate
from aam.train.options import StepOptions
from aam.train.pieces import Plan
from aam.train.probe import fit_to_memory, with_splitting
from aam.train.progress import Progress
from aam.train.schedule import warmup_cosine
from aam.train.stopping import EarlyStopping
from aam.train.watch import Notes, Watch, watching
from aam.util.errors import InputError
from aam.util.seeds import seed_of

LOG_POINTS = 200
"""Points of the training curves that a run records."""
STEPS_BETWEEN_LOOKS = 10
"""Least steps of an accelerator between two points of the curves."""
PREFETCHED = 4
"""Batches that each worker holds ready for an accelerator."""


@dataclass(frozen=True)
class Pace:
    """Means of a run that do not change its result.

    Attributes
    ----------
    name
        What is trained, for progress lines.
    workers
        Processes that assemble batches for an accelerator; a CPU assembles its own.
    checkpoint_every_s
        Seconds between checkpoints.
    deadline
        Instant of `time.monotonic` to leave by, with a checkpoint; None: none.
    max_memory_gb
        Memory that a step may take; None: what is free.
    notes
        What is written about the run.
    """

    name: str
    workers: int = 0
    checkpoint_every_s: float = 60.0
    deadline: float | None = None
    max_memory_gb: float | None = None
    notes: Notes = Notes()


@dataclass(frozen=True)
class Validation:
    """What is scored in the course of a run.

    Attributes
    ----------
    score
        Returns named values of the model as it is.
    times
        How often, the last time after the last step.
    watched
        Name of the value that early stopping follows, the higher the better.
    stopping
        Settings of early stopping, by `EarlyStopping`.
    """

    score: Callable[[], dict[str, float]]
    times: int = 8
    watched: str | None = None
    stopping: EarlyStopping | None = None

    def steps(self, total: int) -> set[int]:
        """Return the steps after which the model is scored."""
        return {max(1, round(total * part / self.times)) for part in range(1, self.times + 1)}


class TimeIsUp(InputError):
    """The time limit came before the end; the checkpoint lets the next run go on."""


def fit(
    model: nn.Module,
    feed: Feed,
    settings: Training,
    *,
    devices: Devices,
    options: StepOptions,
    checkpoints: Checkpoints,
    pace: Pace,
    validation: Validation | None = None,
    layer_decay: float = 1.0,
) -> Progress:
    """Train `model`, whose forward returns named losses of a batch, `loss` being minimized.

    The run goes on from the newest checkpoint of the same fingerprint. Everything random is a
    function of seed and step, so an interrupted run ends with the same weights. With early
    stopping the model ends with the weights that were best when validated.

    Returns
    -------
    Progress
        With the history: one record per value and log point.

    Raises
    ------
    RuntimeError
        When a loss is not finite.
    TimeIsUp
        When the deadline comes before the last step; a checkpoint was written.
    InputError
        When the smallest piece of a batch does not fit into the memory.
    """
    wrapped = devices.setup_model(model)
    compile_blocks(wrapped.module, options.compile, devices.device)
    optimizer = devices.setup_optimizer(
        make_optimizer(
            wrapped.module,
            settings.optimizer,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=options.fused_optimizer,
            layer_decay=layer_decay,
        )
    )
    stopping = validation.stopping if validation is not None else None
    progress = Progress(stopping or EarlyStopping(None))
    progress.resume(checkpoints, wrapped.module, optimizer, devices)
    run = _Run(wrapped, model, optimizer, feed, settings, devices, checkpoints, pace, progress)
    wrapped.train()
    run.plan_pieces(options.recompute)
    try:
        run.go(validation)
    finally:
        checkpoints.wait()
    # The best weights are written now, whichever process reads them.
    devices.barrier()
    devices.finish(model, wrapped)
    if stopping is not None and (best := checkpoints.load_best()) is not None:
        model.load_state_dict(best["model"])
    return progress


@dataclass(frozen=True)
class _Run:
    """What the steps of one run share."""

    wrapped: Any
    model: nn.Module
    optimizer: Any
    feed: Feed
    settings: Training
    devices: Devices
    checkpoints: Checkpoints
    pace: Pace
    progress: Progress

    def plan_pieces(self, recompute: Recompute) -> None:
        """Choose the pieces of a batch by real steps, unless a checkpoint has them."""
        plan = self.progress.plan
        if self.devices.processes > 1:
            refuse_pieces(self.pace.max_memory_gb)
            plan = Plan(recompute=recompute)
        elif plan is None or plan.limit_gb != self.pace.max_memory_gb:
            limit_gb = self.pace.max_memory_gb
            plan = fit_to_memory(
                self.wrapped, self.feed, self.devices, limit_gb, recompute=recompute
            )
        self.progress.plan = plan
        plan.apply(self.wrapped.module)

    def go(self, validation: Validation | None) -> None:
        """Do the steps that are left."""
        progress, total = self.progress, len(self.feed)
        log_every = max(self._least_steps_between_looks(), total // LOG_POINTS)
        validate_at = validation.steps(total) if validation is not None else set()
        left = sum(step > progress.step for step in validate_at)
        t_start = t_saved = time.monotonic()
        elapsed_before_s = progress.elapsed_s
        with watching(
            self.pace.name,
            self.pace.notes,
            self.devices.device,
            done=progress.step,
            total=total,
            validations=left,
        ) as watch:
            assert progress.plan is not None
            if progress.step < total and progress.plan.seconds_per_step is not None:
                watch.expect(progress.plan.seconds_per_step)
            if progress.stopping.should_stop:
                return
            on_cpu = self.devices.device.type == "cpu"
            workers = 0 if on_cpu else self.pace.workers
            loader = batches(self._steps(), progress.step, workers=workers, pin=not on_cpu)
            for batch in watch.batches(loader):
                rate = self._step(batch)
                watch.step(progress.step, batch.size)
                if progress.step % log_every == 0 or progress.step == total:
                    self._log(watch, rate)
                if validation is not None and progress.step in validate_at:
                    self._validate(watch, validation)
                now = time.monotonic()
                progress.elapsed_s = elapsed_before_s + now - t_start
                stop = progress.stopping.should_stop or progress.step == total
                late, due = self.devices.decided(
                    self._is_late(now), now - t_saved >= self.pace.checkpoint_every_s
                )
                late = late and not stop
                if late or due:
                    with watch.aside():
                        progress.save(
                            self.checkpoints, self.wrapped.module, self.optimizer, self.devices
                        )
                    t_saved = time.monotonic()
                if late:
                    self._leave(total)
                if stop:
                    break
            progress.summary = watch.summary()

    def _steps(self) -> Feed | Shares:
        """Return what this process works of every step's batch."""
        if self.devices.processes == 1:
            return self.feed
        return Shares(self.feed, self.devices.rank, self.devices.processes)

    def _step(self, batch: Batch) -> float:
        progress = self.progress
        share = warmup_cosine(progress.step, len(self.feed), self.settings.warmup)
        rate = self.settings.learning_rate * share

        def step(piecewise: Batch) -> tuple[dict[str, Tensor], Tensor]:
            moved = piecewise.to(self.devices.device)
            return train_step(
                self.wrapped,
                self.optimizer,
                moved,
                rate,
                self.settings,
                progress.step,
                self.devices,
            )

        assert progress.plan is not None
        if self.devices.processes > 1:
            losses, norm = without_splitting(step, batch)
        else:
            (losses, norm), progress.plan = with_splitting(
                step, batch, progress.plan, self.model, self.optimizer
            )
        progress.sums.add({**losses, "gradient_norm": norm})
        progress.step += 1
        return rate

    def _log(self, watch: Watch, rate: float) -> None:
        progress, epoch = self.progress, self.progress.step / self.feed.steps_per_epoch
        values = {**progress.sums.mean_and_reset(progress.step), "learning_rate": rate}
        progress.record(epoch, "train", values)
        watch.values(progress.step, "train", values)
        progress.record(epoch, "system", watch.system(progress.step))

    def _validate(self, watch: Watch, validation: Validation) -> None:
        progress = self.progress
        with watch.aside():
            with self.devices.whole(self.model, self.wrapped):
                values = self.devices.agreed(validation.score())
                is_best = validation.watched is not None and progress.stopping.update(
                    values[validation.watched]
                )
                if is_best:
                    self.checkpoints.save_best(progress.step, {"model": self.model.state_dict()})
            progress.record(progress.step / self.feed.steps_per_epoch, "validation", values)
            watch.values(progress.step, "validation", values)

    def _least_steps_between_looks(self) -> int:
        """Return how often losses may be read: an accelerator is waited for when they are."""
        return 1 if self.devices.device.type == "cpu" else STEPS_BETWEEN_LOOKS

    def _is_late(self, now: float) -> bool:
        return self.pace.deadline is not None and now > self.pace.deadline

    def _leave(self, total: int) -> None:
        # The first process that ends takes the others with it.
        self.checkpoints.wait()
        self.devices.barrier()
        raise TimeIsUp(
            f"{self.pace.name}: the time limit came at step {self.progress.step} of {total}; "
            "the checkpoint is written. Hint: run the same command again"
        )


def train_step(
    model: nn.Module,
    optimizer: Any,
    batch: Batch,
    rate: float,
    settings: Training,
    step: int,
    devices: Devices,
) -> tuple[dict[str, Tensor], Tensor]:
    """Do one update; nothing here waits for the device, but in fp16 the check of the scale."""
    set_rate(optimizer, rate)
    torch.manual_seed(seed_of("dropout", settings.seed, step))
    losses = model(batch)
    devices.backward(losses["loss"])
    norm = devices.clip(model, optimizer, settings.gradient_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {name: value.detach() for name, value in losses.items()}, norm.detach()


def batches(feed: Feed | Shares, first: int, *, workers: int, pin: bool) -> Iterator[Batch]:
    """Yield the batches of a feed from a step on, assembled ahead by so many processes."""
    yield from DataLoader(
        feed,
        batch_size=None,
        sampler=range(first, len(feed)),
        num_workers=workers,
        prefetch_factor=PREFETCHED if workers else None,
        pin_memory=pin,
    )
