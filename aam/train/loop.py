"""The one training loop, shared by pretraining and fine-tuning."""

import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from aam.batches.dataset import BatchDataset
from aam.config.sections.training import Training
from aam.distributed.devices import Devices
from aam.model.batch import Batch
from aam.train.checkpoint import Checkpoints
from aam.train.compilation import CACHE
from aam.train.memory.step_memory import StepMemory
from aam.train.monitoring.watch import Watch, watch_run
from aam.train.nonfinite import NonFiniteGuard, Rollback
from aam.train.options import StepOptions, describe_setup, set_up
from aam.train.precision import PrecisionChoice
from aam.train.progress import EarlyStopping, Progress, Saver, TimeIsUp, Validation
from aam.train.step import WorkerDied, learning_rate, load_batches, train_step
from aam.util.run_options import RunOptions

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
        History of the run, and facts about it.

    Raises
    ------
    InputError
        `options.nonfinite` allows no more losses or gradients that are not finite, the smallest
        micro-batches do not fit into the memory, the best weights cannot be written or read, or
        there is no checkpoint to go back to.
    TimeIsUp
        The deadline came before the last step. The checkpoint has been written, where that was
        possible.
    WorkerDied
        More than `WORKERS_LOST` processes that assemble batches died.
    RuntimeError
        The processes of the run found different checkpoints.
    """
    run = _Run(
        model,
        dataset,
        settings,
        devices=devices,
        options=options,
        checkpoints=checkpoints,
        runtime=runtime,
        name=name,
        validation=validation,
    )
    run.resume()
    run.choose_precision()
    run.choose_micro_batches()
    run.train()
    return run.finish()


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
        """Return whether the last checkpoint was too old when the clock was read."""
        return self._now - self._t_saved >= self._checkpoint_every_s

    def is_late(self) -> bool:
        """Return whether the deadline has come."""
        return self._deadline is not None and time.time() > self._deadline

    def note_save(self) -> None:
        """Note that a checkpoint was written just now."""
        self._t_saved = time.monotonic()


class _Run:
    """One start of a run, and what its steps share; the parameters are those of `fit`."""

    def __init__(
        self,
        model: nn.Module,
        dataset: BatchDataset,
        settings: Training,
        *,
        devices: Devices,
        options: StepOptions,
        checkpoints: Checkpoints,
        runtime: RunOptions,
        name: str,
        validation: Validation | None,
    ) -> None:
        # The model as it was given is scored in validations, and has the final weights.
        self.model = model
        self.dataset = dataset.for_device(devices.device)
        self.settings = settings
        self.devices = devices
        self.options = options
        self.checkpoints = checkpoints
        self.runtime = runtime
        self.name = name
        self.validation = validation
        self.total = len(self.dataset)
        self.validated_steps = set() if validation is None else validation.steps(self.total)

        compile_cache = None if runtime.work is None else runtime.work / CACHE
        # `wrapped` is the model as `Devices.setup_model` returns it, which the steps compute with.
        self.wrapped, self.optimizer = set_up(model, settings, options, devices, compile_cache)
        self.guard = NonFiniteGuard(options, self.dataset, devices)
        self.memory = StepMemory(
            self.wrapped,
            self.optimizer,
            devices,
            limit_gb=runtime.max_memory_gb,
            recompute=options.recompute,
            threshold=runtime.memory_threshold,
        )
        self.precision = PrecisionChoice(devices)
        self.progress = Progress(
            EarlyStopping(None) if validation is None else validation.stopping,
            {"guard": self.guard, "memory": self.memory, "precision": self.precision},
        )
        self.saver = Saver(
            name, checkpoints, self.progress, self.wrapped.module, self.optimizer, devices
        )

    def resume(self) -> None:
        """Go on from the newest checkpoint, where there is one."""
        self.saver.resume()
        self.wrapped.train()

    def choose_precision(self) -> None:
        """Time steps where the precision is to be chosen, and take the faster one."""
        self.precision.make(self.model, self.wrapped, self.dataset.whole(), self.memory)

    def choose_micro_batches(self) -> None:
        """Find micro-batches that fit into the memory, unless the checkpoint has them.

        The facts have the memory of these first ones, even if a step needs smaller ones later.
        """
        self.first_micro_batches = self.memory.prepare(self.dataset.whole())

    def train(self) -> None:
        """Do the steps that are left, and wait until the last checkpoint is written."""
        validations_left = sum(step > self.progress.step for step in self.validated_steps)
        anomaly_mode = torch.autograd.detect_anomaly if self.options.anomaly else nullcontext
        try:
            with (
                anomaly_mode(),
                watch_run(
                    self.name,
                    self.runtime,
                    self.devices.device,
                    done=self.progress.step,
                    total=self.total,
                    validations=validations_left,
                ) as watch,
            ):
                self._report_estimate(watch)
                self._save_start()
                self._train_through_faults(watch)
                self.progress.summary = watch.monitor.summary()
        finally:
            self.saver.attempt(self.checkpoints.wait)

    def finish(self) -> Progress:
        """Leave the model with its final weights, and return history and facts."""
        carried_out = describe_setup(self.wrapped.module, self.options, self.devices)
        # All processes wait here until the best weights are written, since all of them read them.
        self.devices.barrier()
        self.devices.finish(self.model, self.wrapped)
        best = self.checkpoints.load_best()
        if best is not None:
            self.model.load_state_dict(best["model"])
        self.progress.facts = {
            "optimization": carried_out,
            "stability": self.guard.describe(),
            "estimated_step_memory_mb": self.first_micro_batches.estimated_mb,
            "measured_step_memory_mb": self.first_micro_batches.measured_mb,
        }
        if self.precision.seconds:
            self.progress.facts["precision_step_s"] = self.precision.seconds
        return self.progress

    def _train_through_faults(self, watch: Watch) -> None:
        """Do the steps that are left, from an earlier one again where a fault demands it."""
        workers_lost = 0
        while not self._is_over():
            try:
                self._do_steps(watch)
            except Rollback as reason:
                self._roll_back(reason)
            except WorkerDied as error:
                workers_lost += 1
                if workers_lost > WORKERS_LOST:
                    raise
                # The loader starts other workers, which assemble the same batches.
                logger.warning("%s: %s: others are started", self.name, error)

    def _do_steps(self, watch: Watch) -> None:
        """Do steps to the end of the run, to early stopping, or to the time limit."""
        progress = self.progress
        clock = _Clock(progress.elapsed_s, self.runtime)
        for batch in watch.monitor.time_loading(self._batches()):
            rate = learning_rate(self.settings, progress.step, self.total) * self.guard.rate
            self._step(batch, rate)
            watch.note_step(progress.step, batch.size)
            if self._is_log_due():
                self._log(watch, rate)
            is_best = progress.step in self.validated_steps and self._validate(watch)
            progress.elapsed_s = clock.read()
            is_save_due, is_time_up = self._decide_for_all(clock, is_best=is_best)
            if is_save_due or is_time_up:
                is_saved = self._save(watch, clock)
                if is_time_up:
                    raise TimeIsUp(self.saver.leave(self.total, is_saved=is_saved))
            if self._is_over():
                break

    def _batches(self) -> Iterator[Batch]:
        """Yield the batches that are left."""
        is_on_cpu = self.devices.device.type == "cpu"
        return load_batches(
            self.dataset,
            self.progress.step,
            workers=0 if is_on_cpu else self.runtime.workers,
            pin=not is_on_cpu,
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
            self.wrapped,
            self.optimizer,
            batch.to(self.devices.device),
            step=self.progress.step,
            rate=rate,
            seed=self.settings.seed,
            options=self.options,
            devices=self.devices,
            guard=self.guard,
        )

    def _is_log_due(self) -> bool:
        """Return whether the curves get a point after this step."""
        is_on_cpu = self.devices.device.type == "cpu"
        log_every = max(1 if is_on_cpu else STEPS_BETWEEN_LOOKS, self.total // LOG_POINTS)
        return self.progress.step % log_every == 0 or self.progress.step == self.total

    def _log(self, watch: Watch, rate: float) -> None:
        """Read the losses since the last look, and what the run takes, and record both."""
        progress = self.progress
        self.guard.look(progress.sums.values)
        epoch = progress.step / self.dataset.steps_per_epoch
        counts = {name: value for name, value in self.guard.counts().items() if value}
        values = {**progress.sums.mean_and_reset(), "learning_rate": rate, **counts}
        progress.record(epoch, "train", values)
        watch.note_values(progress.step, "train", values)
        progress.record(epoch, "system", watch.read_system(progress.step))

    def _validate(self, watch: Watch) -> bool:
        """Score the model, keep the best weights, and return whether these are the best."""
        assert self.validation is not None
        progress = self.progress
        self.guard.look(progress.sums.values)
        with watch.monitor.pause():
            with self.devices.whole(self.model, self.wrapped):
                values = self.devices.broadcast(self.validation.score())
                is_best = progress.stopping.update(values[self.validation.watched])
                if is_best:
                    self.saver.save_best({"model": self.model.state_dict()})
            progress.record(progress.step / self.dataset.steps_per_epoch, "validation", values)
            watch.note_values(progress.step, "validation", values)
        return is_best

    def _decide_for_all(self, clock: _Clock, *, is_best: bool) -> tuple[bool, bool]:
        """Return whether a checkpoint is due, and whether time is up before the last step.

        The first process decides for all, whose clocks differ.
        """
        is_save_due = clock.is_save_due()
        # A rollback to a step before the best one would undo the steps that made the best weights,
        # which stay on the disk. So the run must not go back behind them.
        is_save_due |= is_best and self.guard.policy == "restore"
        is_time_up = clock.is_late() and not self._is_over()
        return self.devices.broadcast((is_save_due, is_time_up))

    def _save(self, watch: Watch, clock: _Clock) -> bool:
        """Write a checkpoint, and return whether that has not failed so far.

        A background thread writes the file, whose failure the next save reports.
        """
        self.guard.look(self.progress.sums.values)
        with watch.monitor.pause():
            is_saved = self.saver.save()
        clock.note_save()
        return is_saved

    def _save_start(self) -> None:
        """Write a checkpoint before the first step, where a fault may go back to it."""
        if self.guard.policy == "restore" and self.progress.step == 0:
            self.saver.save()

    def _roll_back(self, reason: Rollback) -> None:
        """Go back to the last checkpoint, at a lower learning rate."""
        self.saver.roll_back(reason)
        logger.warning(
            "%s: %s: going back to step %d, with %g of the configured learning rate",
            self.name,
            reason,
            self.progress.step,
            self.guard.rate,
        )

    def _report_estimate(self, watch: Watch) -> None:
        """Say how long the run takes, where a measured step is known."""
        micro_batches = self.memory.micro_batches
        step_s = None if micro_batches is None else micro_batches.seconds_per_step
        # The first steps compile and are slow, so that the run gives its estimate after them.
        if self.progress.step < self.total and step_s is not None and self.options.compile == "off":
            watch.reporter.estimate(step_s)

    def _is_over(self) -> bool:
        return self.progress.stopping.should_stop or self.progress.step >= self.total
