"""The one training loop, shared by pretraining and fine-tuning."""

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aam.config.sections.training import Training
from aam.model.batch import Batch
from aam.model.encoder import Recompute
from aam.runtime.run_options import RunOptions
from aam.train.checkpoint import Checkpoints
from aam.train.clipping import Clipping
from aam.train.compilation import compile_blocks
from aam.train.data.dataset import BatchDataset
from aam.train.distributed.devices import Devices
from aam.train.distributed.shards import ShardDataset, without_splitting
from aam.train.early_stopping import EarlyStopping
from aam.train.faults import (
    WORKERS_LOST,
    NoCheckpointToRestore,
    Saver,
    WorkerDied,
    first_line,
)
from aam.train.micro_batches import Plan
from aam.train.monitoring.watch import Watch, watching
from aam.train.nonfinite import NonFiniteGuard, Rollback
from aam.train.optimizer import make_optimizer, warmup_cosine
from aam.train.options import StepOptions, carried_out
from aam.train.probe import fit_to_memory, with_splitting
from aam.train.progress import Progress, Stateful, Sums
from aam.train.step import batches, train_step
from aam.util.errors import InputError

logger = logging.getLogger(__name__)
LOG_POINTS = 200
"""Points of the training curves that a run records."""
STEPS_BETWEEN_LOOKS = 10
"""Least steps of an accelerator between two points of the curves."""


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
    dataset: BatchDataset,
    settings: Training,
    *,
    devices: Devices,
    options: StepOptions,
    checkpoints: Checkpoints,
    runtime: RunOptions,
    name: str,
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
    NotFinite
        When a loss or a gradient is not finite and `settings.nonfinite` allows no more of them.
    TimeIsUp
        When the deadline comes before the last step; a checkpoint was written.
    InputError
        When the smallest piece of a batch does not fit into the memory, the best weights cannot be
        written or read, or there is no checkpoint to go back to.
    """
    wrapped = devices.setup_model(model)
    is_compiled = compile_blocks(wrapped.module, options.compile, devices.device)
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
    guard, clipping = NonFiniteGuard.of(settings, dataset, devices), Clipping.of(settings)
    parts: dict[str, Stateful] = {"guard": guard, "clipping": clipping}
    progress = Progress(stopping or EarlyStopping(None), parts=parts)
    progress.resume(checkpoints, wrapped.module, optimizer, devices)
    run = _Run(
        wrapped=wrapped,
        model=model,
        optimizer=optimizer,
        dataset=dataset,
        settings=settings,
        options=options,
        devices=devices,
        checkpoints=checkpoints,
        runtime=runtime,
        name=name,
        progress=progress,
        guard=guard,
        clipping=clipping,
        saver=Saver(name),
    )
    run.to_its_end(validation)
    devices.finish(model, wrapped)
    if stopping is not None and (best := checkpoints.load_best()) is not None:
        model.load_state_dict(best["model"])
    found = carried_out(
        options, is_compiled=is_compiled, asked_precision=settings.precision, devices=devices
    )
    clipped = {"clipping": clipping.kind, "gradient_clip": clipping.limit}
    progress.report = {"optimization": found, "stability": {**clipped, **guard.report()}}
    return progress


@dataclass(frozen=True)
class _Run:
    """What the steps of one run share."""

    wrapped: Any
    model: nn.Module
    optimizer: Any
    dataset: BatchDataset
    settings: Training
    options: StepOptions
    devices: Devices
    checkpoints: Checkpoints
    runtime: RunOptions
    name: str
    progress: Progress
    guard: NonFiniteGuard
    clipping: Clipping
    saver: Saver

    def to_its_end(self, validation: Validation | None) -> None:
        """Do the steps that are left; what was to be written is written then."""
        self.wrapped.train()
        self.plan_pieces(self.options.recompute)
        try:
            with torch.autograd.detect_anomaly() if self.options.anomaly else nullcontext():
                self.go(validation)
        finally:
            self.saver.done(self.checkpoints.wait)
        # The best weights are written now, whichever process reads them.
        self.devices.barrier()

    def plan_pieces(self, recompute: Recompute) -> None:
        """Choose the pieces of a batch by real steps, unless a checkpoint has them."""
        plan = self.progress.plan
        if self.devices.processes > 1:
            plan = Plan(recompute=recompute)
        elif plan is None or plan.limit_gb != self.runtime.max_memory_gb:
            limit_gb = self.runtime.max_memory_gb
            plan = fit_to_memory(
                self.wrapped, self.dataset, self.devices, limit_gb, recompute=recompute
            )
        self.progress.plan = plan
        plan.apply(self.wrapped.module)

    def go(self, validation: Validation | None) -> None:
        """Do the steps that are left."""
        progress, total = self.progress, len(self.dataset)
        log_every = max(self._least_steps_between_looks(), total // LOG_POINTS)
        validate_at = validation.steps(total) if validation is not None else set()
        left = sum(step > progress.step for step in validate_at)
        with watching(
            self.name,
            self.runtime,
            self.devices.device,
            done=progress.step,
            total=total,
            validations=left,
        ) as watch:
            assert progress.plan is not None
            if progress.step < total and progress.plan.seconds_per_step is not None:
                watch.expect(progress.plan.seconds_per_step)
            if self.guard.policy == "restore" and progress.step == 0:
                self._save()
            workers_lost = 0
            while not progress.stopping.should_stop and progress.step < total:
                try:
                    self._train(watch, validation, validate_at, log_every)
                except Rollback as reason:
                    self._go_back(reason)
                except WorkerDied as error:
                    workers_lost += 1
                    if workers_lost > WORKERS_LOST:
                        raise
                    # Others assemble the same batches.
                    logger.warning("%s: %s: others are started", self.name, error)
            progress.summary = watch.summary()

    def _train(
        self, watch: Watch, validation: Validation | None, validate_at: set[int], log_every: int
    ) -> None:
        """Do steps to the end of the run, or until early stopping."""
        progress, total = self.progress, len(self.dataset)
        t_start = t_saved = time.monotonic()
        elapsed_before_s = progress.elapsed_s
        on_cpu = self.devices.device.type == "cpu"
        workers = 0 if on_cpu else self.runtime.workers
        loader = batches(self._steps(), progress.step, workers=workers, pin=not on_cpu)
        for batch in watch.batches(loader):
            rate = self._step(batch)
            watch.step(progress.step, batch.size)
            if progress.step % log_every == 0 or progress.step == total:
                self._log(watch, rate)
            if validation is not None and progress.step in validate_at:
                self.guard.look(progress.sums.values)
                self._validate(watch, validation)
            now = time.monotonic()
            progress.elapsed_s = elapsed_before_s + now - t_start
            stop = progress.stopping.should_stop or progress.step == total
            late, due = self.devices.broadcast_flags(
                self._is_late(), now - t_saved >= self.runtime.checkpoint_every_s
            )
            late = late and not stop
            if late or due:
                self.guard.look(progress.sums.values)
                with watch.aside():
                    is_saved = self._save()
                t_saved = time.monotonic()
            if late:
                self._leave(total, is_saved)
            if stop:
                break

    def _save(self) -> bool:
        """Write a checkpoint, and return whether it seems to be written."""
        # Of the one before it is told now, and this one is tried all the same.
        self.saver.done(self.checkpoints.join)
        return self.saver.done(
            lambda: self.progress.save(
                self.checkpoints, self.wrapped.module, self.optimizer, self.devices
            )
        )

    def _go_back(self, why: Rollback) -> None:
        """Go on from the newest checkpoint, with what the guard has counted meanwhile."""
        progress, plan, elapsed_s = self.progress, self.progress.plan, self.progress.elapsed_s
        self.optimizer.zero_grad(set_to_none=True)
        self.saver.done(self.checkpoints.wait)
        self.devices.barrier()
        # What was summed since is of steps that are done again.
        progress.sums = Sums()
        if not progress.resume(self.checkpoints, self.wrapped.module, self.optimizer, self.devices):
            raise NoCheckpointToRestore(
                f"{self.name}: {why}, and there is no checkpoint to go back to. "
                "Hint: run the same command again"
            ) from why
        progress.plan, progress.elapsed_s = plan, elapsed_s
        logger.warning(
            "%s: %s: going back to step %d, the learning rate %g times the configured one",
            self.name,
            why,
            progress.step,
            self.guard.rate,
        )

    def _steps(self) -> BatchDataset | ShardDataset:
        """Return what this process works of every step's batch."""
        if self.devices.processes == 1:
            return self.dataset
        return ShardDataset(self.dataset, self.devices.rank, self.devices.processes)

    def _step(self, batch: Batch) -> float:
        progress = self.progress
        share = warmup_cosine(progress.step, len(self.dataset), self.settings.warmup)
        rate = self.settings.learning_rate * share * self.guard.rate
        skipped = self.guard.skipped

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
                self.clipping,
                self.guard,
            )

        assert progress.plan is not None
        try:
            if self.devices.processes > 1:
                losses, norm = without_splitting(step, batch)
            else:
                (losses, norm), progress.plan = with_splitting(
                    step, batch, progress.plan, self.model, self.optimizer
                )
        except RuntimeError as error:
            if not self.options.anomaly or "returned nan values" not in str(error):
                raise
            raise self.guard.error(progress.step, ["gradient_norm"], first_line(error)) from error
        if self.guard.skipped == skipped:
            progress.sums.add({**losses, "gradient_norm": norm})
        progress.step += 1
        return rate

    def _log(self, watch: Watch, rate: float) -> None:
        progress, epoch = self.progress, self.progress.step / self.dataset.steps_per_epoch
        self.guard.look(progress.sums.values)
        values = {**progress.sums.mean_and_reset(), "learning_rate": rate, **self.guard.counts()}
        progress.record(epoch, "train", values)
        watch.values(progress.step, "train", values)
        progress.record(epoch, "system", watch.system(progress.step))

    def _validate(self, watch: Watch, validation: Validation) -> None:
        progress = self.progress
        with watch.aside():
            with self.devices.whole(self.model, self.wrapped):
                values = self.devices.broadcast(validation.score())
                is_best = validation.watched is not None and progress.stopping.update(
                    values[validation.watched]
                )
                if is_best:
                    self.saver.done(self.checkpoints.join)
                    self.checkpoints.save_best(progress.step, {"model": self.model.state_dict()})
            progress.record(progress.step / self.dataset.steps_per_epoch, "validation", values)
            watch.values(progress.step, "validation", values)

    def _least_steps_between_looks(self) -> int:
        """Return how often losses may be read: an accelerator is waited for when they are."""
        return 1 if self.devices.device.type == "cpu" else STEPS_BETWEEN_LOOKS

    def _is_late(self) -> bool:
        return self.runtime.deadline is not None and time.time() > self.runtime.deadline

    def _leave(self, total: int, is_saved: bool) -> None:
        is_saved = self.saver.done(self.checkpoints.wait) and is_saved
        # The first process that ends takes the others with it.
        self.devices.barrier()
        how = "the checkpoint is written"
        if not is_saved:
            how = "no checkpoint could be written, so that the steps since the last one are lost"
        raise TimeIsUp(
            f"{self.name}: the time limit came at step {self.progress.step} of {total}; "
            f"{how}. Hint: run the same command again"
        )
