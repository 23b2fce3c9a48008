"""Real steps that are measured, and the micro-batches that let a batch fit into the memory."""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from aam.data.samples import places_of
from aam.model.batch import Batch
from aam.model.encoder import Recompute
from aam.train.data.dataset import BatchDataset
from aam.train.distributed.devices import Devices
from aam.train.distributed.shards import own_shards
from aam.train.micro_batches import MicroBatches
from aam.train.monitoring.memory import (
    MB,
    PeakMemory,
    budget_mb,
    held_mb,
    is_out_of_memory,
    recover,
    release,
)
from aam.util.errors import InputError, first_line, problem

logger = logging.getLogger(__name__)
T = TypeVar("T")
BATCHES = 64
"""Batches of the first epoch whose sizes are compared."""
PART = 8
"""A batch's samples in units of those of the part that is run before it."""


@dataclass(frozen=True)
class Fit:
    """Micro-batches that fit, and by what.

    Attributes
    ----------
    micro_batches
        How the batches are divided.
    estimated_mb, measured_mb
        Peak memory of the process, or on an accelerator of its tensors, in a step of the heaviest
        batch: by a part of it, and as it was. Of several processes the largest.
    seconds_per_step
        Of that step.
    limit_gb, processes
        The limit that was given, None for what is free, and how many processes worked together.
    """

    micro_batches: MicroBatches
    estimated_mb: float | None = None
    measured_mb: float | None = None
    seconds_per_step: float | None = None
    limit_gb: float | None = None
    processes: int = 1


class StepMemory:
    """Keeps the steps of one run within the memory.

    Parameters
    ----------
    model, optimizer, devices
        As `devices` set them up; the model has an `encoder`.
    limit_gb
        Memory that a step of this process may take, in GB; None: `budget_mb`.
    recompute
        What the backward pass computes again where nothing has to be divided.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        devices: Devices,
        limit_gb: float | None,
        recompute: Recompute,
    ) -> None:
        self._model, self._optimizer, self._devices = model, optimizer, devices
        self._limit_gb, self._recompute = limit_gb, recompute
        self.fit: Fit | None = None

    def prepare(self, dataset: BatchDataset) -> None:
        """Choose the micro-batches, unless a checkpoint has those of the same limit."""
        now, fit = (self._limit_gb, self._devices.processes), self.fit
        if fit is None or (fit.limit_gb, fit.processes) != now:
            fit = fit_to_memory(
                self._model, dataset, self._devices, self._limit_gb, recompute=self._recompute
            )
        self._use(fit)

    def run(self, step: Callable[[Batch], T], batch: Batch) -> T:
        """Do a step; one that runs out of memory is done again in smaller micro-batches.

        Parameters
        ----------
        step
            Trains on a batch that is divided. It is called again with the same batch in smaller
            blocks, so that it has to set the random state itself.
        batch
            The batch, on the host.

        Raises
        ------
        InputError
            When the memory does not suffice for the smallest micro-batches, for the update of the
            weights, or for one of several processes: the others wait in the midst of the step.
        """
        assert self.fit is not None
        begun: list[bool] = []
        hook = self._optimizer.register_step_pre_hook(lambda *_: begun.append(True))
        try:
            while True:
                micro_batches = self.fit.micro_batches
                try:
                    return step(micro_batches.split(batch))
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    reason = first_line(error)
                if self._devices.processes > 1:
                    raise _too_little_of_several(reason)
                if begun:
                    raise _too_little(f"too little for the update of the weights ({reason})")
                self._optimizer.zero_grad(set_to_none=True)
                recover()
                smaller = micro_batches.halved(batch)
                if smaller is None:
                    raise _too_little(f"too little for {micro_batches} ({reason})")
                logger.warning("out of memory: from now on %s", smaller)
                self._use(replace(self.fit, micro_batches=smaller))
        finally:
            hook.remove()

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs, as plain types."""
        return {} if self.fit is None else asdict(self.fit)

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned; what this process has found since is kept."""
        if state and self.fit is None:
            self.fit = Fit(**{**state, "micro_batches": MicroBatches(**state["micro_batches"])})

    @property
    def seconds_per_step(self) -> float | None:
        """Seconds of the measured step."""
        return None if self.fit is None else self.fit.seconds_per_step

    def report(self) -> dict[str, float | None]:
        """Return estimate and truth, for the metrics of a run."""
        assert self.fit is not None
        return {
            "estimated_step_memory_mb": self.fit.estimated_mb,
            "measured_step_memory_mb": self.fit.measured_mb,
        }

    def _use(self, fit: Fit) -> None:
        self.fit = fit
        fit.micro_batches.apply(self._model.module)


def fit_to_memory(
    model: Any,
    dataset: BatchDataset,
    devices: Devices,
    limit_gb: float | None = None,
    *,
    recompute: Recompute = "nothing",
) -> Fit:
    """Find micro-batches of the heaviest batch whose step fits into the memory, by real steps.

    A small part of the batch is run first: its memory, in proportion to its size, tells what need
    not be tried, since on a CPU the system ends a process that takes too much. What should fit is
    run and measured, and divided in halves until it does. Processes that work together all have to
    call this; they choose alike.

    Parameters
    ----------
    model, devices
        The model as `devices` set it up; its `module` has an `encoder`.
    dataset
        The batches, whole ones.
    limit_gb
        Memory that a step of this process may take, in GB; None: `budget_mb`.
    recompute
        What the backward pass computes again where nothing has to be divided.

    Raises
    ------
    InputError
        When the smallest micro-batches do not fit.
    """
    step = heaviest_step(dataset)
    batch = own_shards(dataset, devices)[step]
    few = replace(dataset, batch_size=max(2 * devices.processes, dataset.batch_size // PART))
    part = own_shards(few, devices)[step * few.steps_per_epoch // dataset.steps_per_epoch]
    # AdamW's two moments come with the first update; other optimizers here keep no more.
    weights_mb = sum(p.nbytes for p in model.parameters() if p.requires_grad) / MB
    weights_mb /= devices.processes if devices.is_sharded else 1
    micro_batches = MicroBatches(recompute=recompute)
    micro_batches.apply(model.module)
    release()
    held = held_mb(devices.device)
    budget = _budget_mb(limit_gb, held, devices)
    activations = _activations_mb(model, part, devices, weights_mb) * size(batch) / size(part)
    activations = _largest(activations, devices)
    while True:
        smaller = micro_batches.halved(batch)
        divided = micro_batches.split(batch)
        estimated = held + 3 * weights_mb + activations * _largest_fraction(divided, micro_batches)
        measured = None
        if smaller is None or _all(estimated <= budget, devices):
            micro_batches.apply(model.module)
            release()
            # Steps before leave what libraries keep, such as kernels of other shapes.
            left = held_mb(devices.device) - held
            measured = _peak_mb(model, divided, devices)
            if measured is not None:
                measured += 2 * weights_mb - left
            if measured is not None and _all(measured <= budget, devices):
                break
        if smaller is None:
            raise _too_little(
                f"{'more than there is' if measured is None else f'{measured:.0f} MB'} (estimated "
                f"{estimated:.0f} MB, {held:.0f} MB of them held before the step) in "
                f"{micro_batches}",
                f"at most {budget:.0f} MB",
            )
        micro_batches = smaller
    fit = Fit(
        micro_batches,
        estimated_mb=_largest(estimated, devices),
        measured_mb=_largest(measured, devices),
        # Of a step that makes no kernels any more.
        seconds_per_step=measure_step(model, divided, devices)[0],
        limit_gb=limit_gb,
        processes=devices.processes,
    )
    free = (budget - held) / (max(measured, estimated) - held)
    larger = min(int(batch.size * free), len(dataset.samples))
    is_whole = micro_batches.recompute == recompute
    logger.info(
        "memory of a step of %d samples, in %s: estimated %.0f MB, measured %.0f MB of %.0f MB;"
        " %.3g s%s",
        batch.size,
        micro_batches,
        fit.estimated_mb,
        fit.measured_mb,
        budget,
        fit.seconds_per_step,
        f"; batches of {larger} samples would fit" if is_whole and larger > batch.size else "",
    )
    return fit


def measure_step(model: nn.Module, batch: Batch, devices: Devices) -> tuple[float, float]:
    """Return seconds and peak memory in MB of one forward and backward pass.

    Everything is left as it was. Weights are not touched; gradients, buffers, the mode of every
    module and torch's random states are restored, whether the step succeeds or not.

    Raises
    ------
    RuntimeError
        When the memory does not suffice, and whatever else the step raises.
    """
    device = devices.device
    modes = {module: module.training for module in model.modules()}
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    buffers = {buffer: buffer.clone() for buffer in model.buffers()}
    accelerators = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=accelerators), PeakMemory(device) as memory:
            model.train()
            model.zero_grad(set_to_none=True)
            t0 = time.perf_counter()
            devices.backward(model(batch.to(device))["loss"])
            if accelerators:
                torch.cuda.synchronize(device)
            seconds = time.perf_counter() - t0
        return seconds, memory.peak_mb
    finally:
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, value in buffers.items():
                buffer.copy_(value)
        for module, training in modes.items():
            module.training = training


def heaviest_step(dataset: BatchDataset) -> int:
    """Return the step of the first epoch with the most positions of ASVs and ASVs of samples.

    At most `BATCHES` steps are looked at, evenly spread; no batch is built.
    """

    def weight(step: int) -> int:
        rows_B, _ = dataset.rows(step)
        places, richness_B = places_of(dataset.store.offsets, rows_B)
        asvs = np.unique(dataset.store.asvs[places])
        return int(dataset.tokens.lengths[asvs].sum() + richness_B.sum())

    number = dataset.steps_per_epoch
    steps = np.linspace(0, number - 1, min(BATCHES, number)).round().astype(int)
    return max(steps.tolist(), key=weight)


def size(batch: Batch) -> int:
    """Return the positions of ASVs, and the samples times their richness, of a batch."""
    return batch.size + sum(_block_sizes(batch))


def _block_sizes(batch: Batch) -> list[int]:
    asvs = [block.tokens_US.numel() for block in batch.asvs]
    return asvs + [block.asv_BA.numel() for block in batch.samples]


def _largest_fraction(batch: Batch, micro_batches: MicroBatches) -> float:
    """Return the fraction of a batch's activations that are alive at a time."""
    if micro_batches.recompute != "pieces":
        return 1.0
    return max(_block_sizes(batch), default=0) / size(batch)


def _peak_mb(model: nn.Module, batch: Batch, devices: Devices) -> float | None:
    """Return the peak memory of a step, None where there is too little for it."""
    try:
        return measure_step(model, batch, devices)[1]
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        if devices.processes > 1:
            raise _too_little_of_several(first_line(error)) from error
    recover()
    return None


def _activations_mb(model: nn.Module, part: Batch, devices: Devices, gradients_mb: float) -> float:
    """Return what a step of a part of a batch takes beside the gradients; 0 if it cannot be run."""
    # In their first step libraries take memory that they keep.
    _peak_mb(model, part, devices)
    release()
    before = held_mb(devices.device)
    peak = _peak_mb(model, part, devices)
    return 0.0 if peak is None else max(0.0, peak - before - gradients_mb)


def _budget_mb(limit_gb: float | None, held: float, devices: Devices) -> float:
    budget = budget_mb(limit_gb, devices.device)
    if limit_gb is None and devices.device.type == "cpu":
        # The processes of a machine share what is free.
        return held + (budget - held) / devices.world.devices
    return budget


def _all(holds: bool, devices: Devices) -> bool:
    return bool(devices.all_reduce_min(int(holds)))


def _largest(mb: float, devices: Devices) -> float:
    """Return the largest number of MB that any process has."""
    return mb if devices.processes == 1 else -devices.all_reduce_min(-round(mb * MB)) / MB


def _too_little(got: str, expected: str = "enough") -> InputError:
    return problem(
        "memory of a training step",
        got,
        expected,
        "raise runtime.max_memory_gb where it is set, or grant the run more memory; or lower the "
        "model's width or rarefaction.depth, or choose precision bf16",
    )


def _too_little_of_several(reason: str) -> InputError:
    return problem(
        "memory of a training step",
        f"too little for one process's shard of a batch ({reason})",
        "enough: a step of several processes is not tried again",
        "set runtime.max_memory_gb below what each process has, so that batches are divided; raise "
        "runtime.devices or runtime.nodes, or choose runtime.strategy fsdp",
    )
