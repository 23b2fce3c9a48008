"""The one training loop, shared by pretraining and fine-tuning."""

import logging
import time
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import nn

from aam.config.sections.training import Training
from aam.runtime.run_options import RunOptions
from aam.train.checkpoint import Checkpoints
from aam.train.compilation import CACHE
from aam.train.data.dataset import BatchDataset
from aam.train.distributed.devices import Devices
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
    dataset = dataset.on(devices.device)
    compiled = None if runtime.work is None else runtime.work / CACHE
    wrapped, optimizer, _ = set_up(model, settings, options, devices, compiled)
    stopping = EarlyStopping(None) if validation is None else validation.stopping
    guard = NonFiniteGuard(options, dataset, devices)
    limits = runtime.max_memory_gb, options.recompute, None, runtime.memory_threshold
    memory = StepMemory(wrapped, optimizer, devices, *limits)
    precision = PrecisionChoice(devices)
    progress = Progress(stopping, {"guard": guard, "memory": memory, "precision": precision})
    saver = Saver(name, checkpoints, progress, wrapped.module, optimizer, devices)
    saver.resume()
    wrapped.train()
    precision.make(model, wrapped, dataset, memory)
    micro_batches = memory.prepare(dataset)
    run = _Run(saver, memory, guard, model, dataset, settings, options, runtime, validation)
    try:
        with torch.autograd.detect_anomaly() if options.anomaly else nullcontext():
            run.to_its_end()
    finally:
        saver.tried(checkpoints.wait)
    carried_out = report(wrapped.module, options, devices)
    # The best weights are written now, whichever process reads them.
    devices.barrier()
    devices.finish(model, wrapped)
    if (best := checkpoints.load_best()) is not None:
        model.load_state_dict(best["model"])
    progress.report = {
        "optimization": carried_out,
        "stability": guard.report(),
        "estimated_step_memory_mb": micro_batches.estimated_mb,
        "measured_step_memory_mb": micro_batches.measured_mb,
        **({"precision_step_s": precision.seconds} if precision.seconds else {}),
    }
    return progress


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

    def to_its_end(self) -> None:
        """Do the steps that are left, from an earlier one again where a fault demands it."""
        name = self.saver.name
        progress = self.saver.progress
        total = len(self.dataset)
        workers_lost = 0
        left = sum(step > progress.step for step in self._validated(total))
        counts = {"done": progress.step, "total": total, "validations": left}
        with watching(name, self.runtime, self.saver.devices.device, **counts) as watch:
            found = self.memory.micro_batches
            step_s = None if found is None else found.seconds_per_step
            # Compiled steps are slow at first: the run says later how long it takes.
            if progress.step < total and step_s is not None and self.options.compile == "off":
                watch.reporter.estimate(step_s)
            if self.guard.policy == "restore" and progress.step == 0:
                self.saver.save()
            while not progress.stopping.should_stop and progress.step < total:
                try:
                    self._train(watch)
                except Rollback as reason:
                    self.saver.roll_back(reason)
                    rate = f"{self.guard.rate:g} of the configured learning rate"
                    back = f"going back to step {progress.step}, with {rate}"
                    logger.warning("%s: %s: %s", name, reason, back)
                except WorkerDied as error:
                    workers_lost += 1
                    if workers_lost > WORKERS_LOST:
                        raise
                    # Others assemble the same batches.
                    logger.warning("%s: %s: others are started", name, error)
            progress.summary = watch.monitor.summary()

    def _train(self, watch: Watch) -> None:
        """Do steps to the end of the run, to early stopping, or to the time limit."""
        progress = self.saver.progress
        devices = self.saver.devices
        optimizer = self.saver.optimizer
        guard = self.guard
        total = len(self.dataset)
        on_cpu = devices.device.type == "cpu"
        log_every = max(1 if on_cpu else STEPS_BETWEEN_LOOKS, total // LOG_POINTS)
        validate_at = self._validated(total)
        workers = 0 if on_cpu else self.runtime.workers
        t_start = t_saved = time.monotonic()
        elapsed_before_s = progress.elapsed_s
        deadline = self.runtime.deadline
        loader = batches(
            self.dataset, progress.step, workers=workers, pin=not on_cpu, devices=devices
        )
        for batch in watch.monitor.timed(loader):
            rate = learning_rate(self.settings, progress.step, total) * guard.rate
            skipped = guard.skipped
            losses, norm = self.memory.run(
                lambda part: train_step(
                    self.memory.model,
                    optimizer,
                    part.to(devices.device),
                    step=progress.step,
                    rate=rate,  # noqa: B023 (it is called before the next batch)
                    seed=self.settings.seed,
                    options=self.options,
                    devices=devices,
                    guard=guard,
                ),
                batch,
            )
            if guard.skipped == skipped:
                progress.sums.add({**losses, "gradient_norm": norm})
            progress.step += 1
            is_best = False
            watch.step(progress.step, batch.size)

            if progress.step % log_every == 0 or progress.step == total:
                guard.look(progress.sums.values)
                self._log(watch, rate)

            if progress.step in validate_at:
                guard.look(progress.sums.values)
                with watch.monitor.pause():
                    is_best = self._validate(watch)

            now = time.monotonic()
            progress.elapsed_s = elapsed_before_s + now - t_start
            is_over = progress.stopping.should_stop or progress.step == total
            is_late = deadline is not None and time.time() > deadline
            is_due = now - t_saved >= self.runtime.checkpoint_every_s
            # A return to an earlier step would leave the best weights of steps that never were.
            is_due |= is_best and guard.policy == "restore"
            is_late, is_due = devices.broadcast((is_late, is_due))
            leaves = is_late and not is_over
            if is_due or leaves:
                guard.look(progress.sums.values)
                with watch.monitor.pause():
                    is_saved = self.saver.save()
                t_saved = time.monotonic()
                if leaves:
                    raise TimeIsUp(self.saver.leave(total, is_saved=is_saved))
            if is_over:
                break

    def _log(self, watch: Watch, rate: float) -> None:
        progress = self.saver.progress
        epoch = progress.step / self.dataset.steps_per_epoch
        counts = {name: value for name, value in self.guard.counts().items() if value}
        values = {**progress.sums.mean_and_reset(), "learning_rate": rate, **counts}
        progress.record(epoch, "train", values)
        watch.values(progress.step, "train", values)
        progress.record(epoch, "system", watch.system(progress.step))

    def _validate(self, watch: Watch) -> bool:
        """Score the model, keep the best weights, and return whether these are the best."""
        validation = self.validation
        progress = self.saver.progress
        devices = self.saver.devices
        assert validation is not None
        with devices.whole(self.model, self.memory.model):
            values = devices.broadcast(validation.score())
            is_best = progress.stopping.update(values[validation.watched])
            if is_best:
                self.saver.save_best({"model": self.model.state_dict()})
        progress.record(progress.step / self.dataset.steps_per_epoch, "validation", values)
        watch.values(progress.step, "validation", values)
        return is_best

    def _validated(self, total: int) -> set[int]:
        return self.validation.steps(total) if self.validation is not None else set()
