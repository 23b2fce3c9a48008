"""The one training loop, shared by pretraining and fine-tuning."""

import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aam.batches.dataset import BatchDataset
from aam.config.sections.training import Training
from aam.distributed.devices import Devices
from aam.model.batch import Batch
from aam.runtime.run_options import RunOptions
from aam.train.checkpoint import Checkpoints
from aam.train.compilation import CACHE
from aam.train.early_stopping import EarlyStopping, Validation
from aam.train.monitoring.watch import Watch, watching
from aam.train.nonfinite import NonFiniteGuard, Rollback
from aam.train.options import StepOptions, report, set_up
from aam.train.precision import PrecisionChoice
from aam.train.progress import Progress, Saver, TimeIsUp
from aam.train.step import WorkerDied, batches, learning_rate, train_step
from aam.train.step_memory import StepMemory

logger = logging.getLogger(__name__)
LOG_POINTS = 200
"""Points of the training curves that a run records."""
STEPS_BETWEEN_LOOKS = 10
"""Least steps of an accelerator between two points: it is waited for when losses are read."""
WORKERS_LOST = 3
"""Workers that may die in one start of a run; one more ends it."""


def fit(
    model: nn.Module,
    dataset: BatchDataset,
    settings: Training,
    *,
    devices: Devices,
    options: StepOptions,
    checkpoints: Checkpoints,
    runtime: RunOptions,
    name: str,
    validation: Validation | None = None,
) -> Progress:
    """Train a model, from the newest checkpoint of the same fingerprint where there is one.

    Everything random is a function of seed and step, so that a run that was interrupted ends with
    the same weights. With early stopping the model ends with the weights that were best when
    validated.

    Parameters
    ----------
    model
        Model whose forward pass returns named losses of a batch; `loss` is minimized. It is trained
        in place.
    dataset
        Batches of all steps.
    settings
        Learning rate, weight decay, warm-up and seed.
    devices
        Where the model is trained, and in which arithmetic.
    options
        Options of a step.
    checkpoints
        Where the state of the run is kept.
    runtime
        Deadline, limits of memory, workers, and what is logged. It never changes a result.
    name
        Name of the run in messages.
    validation
        What is scored during the run; None: nothing.

    Returns
    -------
    Progress
        History and report of the run.

    Raises
    ------
    InputError
        `options.nonfinite` allows no more losses or gradients that are not finite, the smallest
        micro-batches do not fit into the memory, the best weights cannot be written or read, or
        there is no checkpoint to go back to.
    TimeIsUp
        The deadline came before the last step. The checkpoint has been written, where that was
        possible.
    """
    dataset = dataset.for_device(devices.device)
    compile_cache = None if runtime.work is None else runtime.work / CACHE
    wrapped, optimizer, _ = set_up(model, settings, options, devices, compile_cache)
    stopping = EarlyStopping(None) if validation is None else validation.stopping
    guard = NonFiniteGuard(options, dataset, devices)
    memory = StepMemory(
        wrapped,
        optimizer,
        devices,
        limit_gb=runtime.max_memory_gb,
        recompute=options.recompute,
        threshold=runtime.memory_threshold,
    )
    precision = PrecisionChoice(devices)
    progress = Progress(stopping, {"guard": guard, "memory": memory, "precision": precision})
    saver = Saver(name, checkpoints, progress, wrapped.module, optimizer, devices)
    saver.resume()
    wrapped.train()
    precision.make(model, wrapped, dataset, memory)
    micro_batches = memory.prepare(dataset)
    run = _Run(
        saver=saver,
        memory=memory,
        guard=guard,
        model=model,
        dataset=dataset,
        settings=settings,
        options=options,
        runtime=runtime,
        validation=validation,
    )
    try:
        with torch.autograd.detect_anomaly() if options.anomaly else nullcontext():
            run.to_its_end()
    finally:
        saver.tried(checkpoints.wait)
    carried_out = report(wrapped.module, options, devices)
    # The best weights are written now, whichever process reads them.
    devices.barrier()
    devices.finish(model, wrapped)
    best = checkpoints.load_best()
    if best is not None:
        model.load_state_dict(best["model"])
    progress.report = {
        "optimization": carried_out,
        "stability": guard.report(),
        "estimated_step_memory_mb": micro_batches.estimated_mb,
        "measured_step_memory_mb": micro_batches.measured_mb,
    }
    if precision.seconds:
        progress.report["precision_step_s"] = precision.seconds
    return progress


class _Clock:
    """The time of one start of a run: how long it has worked, and when it has to save or leave."""

    def __init__(self, elapsed_before_s: float, runtime: RunOptions) -> None:
        self._elapsed_before_s = elapsed_before_s
        self._deadline = runtime.deadline
        self._checkpoint_every_s = runtime.checkpoint_every_s
        self._t_start = time.monotonic()
        self._t_saved = self._t_start
        self._now = self._t_start

    def read(self) -> float:
        """Read the clock, and return the seconds of all starts of the run."""
        self._now = time.monotonic()
        return self._elapsed_before_s + self._now - self._t_start

    def is_save_due(self) -> bool:
        """Return whether the last checkpoint was old when the clock was read."""
        return self._now - self._t_saved >= self._checkpoint_every_s

    def is_late(self) -> bool:
        """Return whether the deadline has come."""
        return self._deadline is not None and time.time() > self._deadline

    def note_save(self) -> None:
        """Note that a checkpoint was written just now."""
        self._t_saved = time.monotonic()


@dataclass(frozen=True)
class _Run:
    """The steps of one run, and what they share."""

    saver: Saver
    memory: StepMemory
    guard: NonFiniteGuard
    model: nn.Module
    dataset: BatchDataset
    settings: Training
    options: StepOptions
    runtime: RunOptions
    validation: Validation | None

    @property
    def progress(self) -> Progress:
        """State of the loop."""
        return self.saver.progress

    @property
    def devices(self) -> Devices:
        """Where the model is trained."""
        return self.saver.devices

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return len(self.dataset)

    def to_its_end(self) -> None:
        """Do the steps that are left, from an earlier one again where a fault demands it."""
        progress = self.progress
        validations = sum(step > progress.step for step in self._validated_steps())
        with watching(
            self.saver.name,
            self.runtime,
            self.devices.device,
            done=progress.step,
            total=self.total,
            validations=validations,
        ) as watch:
            self._report_estimate(watch)
            if self.guard.policy == "restore" and progress.step == 0:
                self.saver.save()
            workers_lost = 0
            while not self._is_over():
                try:
                    self._train(watch)
                except Rollback as reason:
                    self._roll_back(reason)
                except WorkerDied as error:
                    workers_lost += 1
                    if workers_lost > WORKERS_LOST:
                        raise
                    # The loader starts other workers, which assemble the same batches.
                    logger.warning("%s: %s: others are started", self.saver.name, error)
            progress.summary = watch.monitor.summary()

    def _train(self, watch: Watch) -> None:
        """Do steps to the end of the run, to early stopping, or to the time limit."""
        progress = self.progress
        validated_steps = self._validated_steps()
        clock = _Clock(progress.elapsed_s, self.runtime)
        for batch in watch.monitor.timed(self._batches()):
            rate = learning_rate(self.settings, progress.step, self.total) * self.guard.rate
            self._step(batch, rate)
            watch.step(progress.step, batch.size)
            if progress.step % self._log_every() == 0 or progress.step == self.total:
                self._log(watch, rate)
            is_best = progress.step in validated_steps and self._validate(watch)
            progress.elapsed_s = clock.read()
            self._save_in_time(watch, clock, is_best=is_best)
            if self._is_over():
                break

    def _batches(self) -> Iterator[Batch]:
        """Yield the batches that are left."""
        on_cpu = self.devices.device.type == "cpu"
        return batches(
            self.dataset,
            self.progress.step,
            workers=0 if on_cpu else self.runtime.workers,
            pin=not on_cpu,
            devices=self.devices,
        )

    def _step(self, batch: Batch, rate: float) -> None:
        """Do one step, in smaller micro-batches where the memory does not suffice."""
        skipped = self.guard.skipped
        losses, norm = self.memory.run(self._try_step, batch, rate)
        # The losses of a step that was left out may not be finite.
        if self.guard.skipped == skipped:
            self.progress.sums.add({**losses, "gradient_norm": norm})
        self.progress.step += 1

    def _try_step(self, batch: Batch, rate: float) -> tuple[dict[str, Tensor], Tensor]:
        """Do the step of a batch in micro-batches; it may run out of memory."""
        return train_step(
            self.memory.model,
            self.saver.optimizer,
            batch.to(self.devices.device),
            step=self.progress.step,
            rate=rate,
            seed=self.settings.seed,
            options=self.options,
            devices=self.devices,
            guard=self.guard,
        )

    def _log(self, watch: Watch, rate: float) -> None:
        """Read the losses since the last look, and what the run takes, and record both."""
        progress = self.progress
        self.guard.look(progress.sums.values)
        epoch = progress.step / self.dataset.steps_per_epoch
        counts = {name: value for name, value in self.guard.counts().items() if value}
        values = {**progress.sums.mean_and_reset(), "learning_rate": rate, **counts}
        progress.record(epoch, "train", values)
        watch.values(progress.step, "train", values)
        progress.record(epoch, "system", watch.system(progress.step))

    def _validate(self, watch: Watch) -> bool:
        """Score the model, keep the best weights, and return whether these are the best."""
        assert self.validation is not None
        progress = self.progress
        self.guard.look(progress.sums.values)
        with watch.monitor.pause():
            with self.devices.whole(self.model, self.memory.model):
                values = self.devices.broadcast(self.validation.score())
                is_best = progress.stopping.update(values[self.validation.watched])
                if is_best:
                    self.saver.save_best({"model": self.model.state_dict()})
            progress.record(progress.step / self.dataset.steps_per_epoch, "validation", values)
            watch.values(progress.step, "validation", values)
        return is_best

    def _save_in_time(self, watch: Watch, clock: _Clock, *, is_best: bool) -> None:
        """Write a checkpoint where one is due, and leave the run where its deadline has come."""
        is_due = clock.is_save_due()
        # A return to an earlier step would leave the best weights of steps that never were.
        is_due |= is_best and self.guard.policy == "restore"
        is_late, is_due = self.devices.broadcast((clock.is_late(), is_due))
        leaves = is_late and not self._is_over()
        if not (is_due or leaves):
            return
        self.guard.look(self.progress.sums.values)
        with watch.monitor.pause():
            is_saved = self.saver.save()
        clock.note_save()
        if leaves:
            raise TimeIsUp(self.saver.leave(self.total, is_saved=is_saved))

    def _roll_back(self, reason: Rollback) -> None:
        """Go back to the last checkpoint, at a lower learning rate."""
        self.saver.roll_back(reason)
        logger.warning(
            "%s: %s: going back to step %d, with %g of the configured learning rate",
            self.saver.name,
            reason,
            self.progress.step,
            self.guard.rate,
        )

    def _report_estimate(self, watch: Watch) -> None:
        """Say how long the run takes, where the measured step tells."""
        micro_batches = self.memory.micro_batches
        step_s = None if micro_batches is None else micro_batches.seconds_per_step
        # The first steps compile and are slow, so that the run gives its estimate after them.
        if self.progress.step < self.total and step_s is not None and self.options.compile == "off":
            watch.reporter.estimate(step_s)

    def _is_over(self) -> bool:
        return self.progress.stopping.should_stop or self.progress.step >= self.total

    def _log_every(self) -> int:
        """Return the number of steps between two points of the curves."""
        on_cpu = self.devices.device.type == "cpu"
        return max(1 if on_cpu else STEPS_BETWEEN_LOOKS, self.total // LOG_POINTS)

    def _validated_steps(self) -> set[int]:
        """Return the steps after which the model is scored."""
        return set() if self.validation is None else self.validation.steps(self.total)
