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
from aam.train.distributed.shards import own_shard
from aam.train.micro_batches import MicroBatches
from aam.train.monitoring import memory
from aam.train.monitoring.memory import MB
from aam.util.errors import InputError, first_line, problem

logger = logging.getLogger(__name__)
T = TypeVar("T")
BATCHES = 64
"""Batches of the first epoch whose sizes are compared."""
PART = 8
"""A batch's samples in units of those of the part that is run before it."""


@dataclass
class StepMemory:
    """Keeps the steps of one run within the memory.

    Attributes
    ----------
    model
        Model as `Devices.setup_model` returned it; its `module` has an `encoder`.
    optimizer
        Its optimizer.
    devices
        Where it is trained.
    limit_gb
        Memory that this process may take in a step, in GB of 2**30 bytes; None: most of what is
        free.
    recompute
        What the backward pass computes again where a batch is one micro-batch.
    micro_batches
        How batches are split; None: that is not known yet.
    threshold
        Fraction of an accelerator's free memory that may be taken where there is no limit.
    """

    model: Any
    optimizer: Any
    devices: Devices
    limit_gb: float | None
    recompute: Recompute
    micro_batches: MicroBatches | None = None
    threshold: float = 0.8

    def prepare(self, dataset: BatchDataset) -> MicroBatches:
        """Choose the micro-batches, unless a checkpoint has those of the same limit.

        Parameters
        ----------
        dataset
            Batches of the run.

        Returns
        -------
        MicroBatches
            How batches are split.

        Raises
        ------
        InputError
            The smallest micro-batches do not fit.
        """
        found = self.micro_batches
        now = (self.limit_gb, self.devices.processes)
        if found is None or (found.limit_gb, found.processes) != now:
            own = self.limit_gb, self.recompute, self.threshold
            found = fit_to_memory(self.model, dataset, self.devices, *own)
        self.micro_batches = found
        found.apply(self.model.module)
        return found

    def run(self, step: Callable[[Batch], T], batch: Batch) -> T:
        """Do a step, which sets the random state itself, again in smaller micro-batches if it must.

        Raises InputError where the memory does not suffice for the smallest micro-batches, for
        the update of the weights, or for one of several processes, the others of which wait.
        """
        begun: list[bool] = []
        hook = self.optimizer.register_step_pre_hook(lambda *_: begun.append(True))
        try:
            while True:
                assert self.micro_batches is not None
                try:
                    return step(self.micro_batches.split(batch))
                except RuntimeError as error:
                    reason = _out_of_memory(error, self.devices)
                if begun:
                    raise _too_little(f"too little for the update of the weights ({reason})")
                self.optimizer.zero_grad(set_to_none=True)
                self.devices.leave_out()
                memory.recover()
                smaller = self.micro_batches.halved(batch)
                if smaller is None:
                    raise _too_little(f"too little for {self.micro_batches} ({reason})")
                logger.warning("out of memory: from now on %s", smaller)
                self.micro_batches = smaller
                smaller.apply(self.model.module)
        finally:
            hook.remove()

    def state(self) -> dict[str, Any]:
        """Return the micro-batches in plain types."""
        return {} if self.micro_batches is None else asdict(self.micro_batches)

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; what this process has found since is kept."""
        if state and self.micro_batches is None:
            self.micro_batches = MicroBatches(**state)


def fit_to_memory(
    model: Any,
    dataset: BatchDataset,
    devices: Devices,
    limit_gb: float | None,
    recompute: Recompute,
    threshold: float = 0.8,
) -> MicroBatches:
    """Find micro-batches of the heaviest batch whose step fits into the memory, by real steps.

    A small part of the batch is run first. Its memory, in proportion to its size, says which sizes
    need not be tried, because on a CPU the system ends a process that takes too much. What should
    fit is run and measured, and halved until it does. All processes call this, and choose alike.

    Parameters
    ----------
    model
        Model as `Devices.setup_model` returned it.
    dataset
        Batches of the run.
    devices
        Where the model is trained.
    limit_gb
        Memory that this process may take in a step, in GB of 2**30 bytes; None: most of what is
        free.
    recompute
        What the backward pass computes again where a batch is one micro-batch.
    threshold
        Fraction of an accelerator's free memory that may be taken where there is no limit.

    Returns
    -------
    MicroBatches
        How batches are split, with memory and seconds of a step.

    Raises
    ------
    InputError
        The smallest micro-batches do not fit.
    """
    found = MicroBatches(recompute=recompute, limit_gb=limit_gb, processes=devices.processes)
    found.apply(model.module)
    step = heaviest_step(dataset)
    batch = own_shard(dataset[step], devices)
    few = replace(dataset, batch_size=max(2 * devices.processes, dataset.batch_size // PART))
    part = own_shard(few[step * few.steps_per_epoch // dataset.steps_per_epoch], devices)
    weights = sum(p.nbytes for p in model.parameters() if p.requires_grad) / MB
    weights /= devices.processes if devices.is_sharded else 1
    memory.release()
    held = memory.held_mb(devices.device)
    budget = memory.budget_mb(limit_gb, devices.device, threshold)
    if limit_gb is None and devices.device.type == "cpu":
        # The processes of a machine share what is free.
        budget = held + (budget - held) / devices.world.devices
    activations = None
    while True:
        micro = found.split(batch)
        smaller = found.halved(batch)
        if activations is None:
            activations = _activations_mb(model, part, devices, weights) * size(batch) / size(part)
        alive = 1.0
        if found.recompute == "micro-batches":
            alive = max(_block_sizes(micro), default=0) / size(batch)
        # With the gradients, and with AdamW's two moments, which come with the first update; and
        # with the kernels of other batches.
        estimated = held + 3 * weights + activations * alive + devices.kernels_mb
        measured = None
        if smaller is None or devices.all_reduce_min(int(estimated <= budget)):
            found.apply(model.module)
            memory.release()
            # Steps before leave what libraries keep, such as kernels of other shapes.
            left = memory.held_mb(devices.device) - held
            if (taken := _try_step(model, micro, devices)) is not None:
                measured = taken[1] - left + 2 * weights + devices.kernels_mb
                if devices.all_reduce_min(int(measured <= budget)):
                    break
        if smaller is None:
            raise _too_little(
                f"{'more than there is' if measured is None else f'{measured:.0f} MB'} (estimated "
                f"{estimated:.0f} MB, {held:.0f} MB of them held before the step) in {found}",
                f"at most {budget:.0f} MB",
            )
        if found.recompute == "layers":
            # A block that is computed again as a whole keeps the inside of its layers meanwhile.
            MicroBatches().apply(model.module)
            activations = None
        found = smaller
    # The second step makes no kernels any more.
    seconds = (_try_step(model, micro, devices) or taken)[0]
    if devices.processes > 1:
        estimated, measured = (
            -devices.all_reduce_min(-round(mb * MB)) / MB for mb in (estimated, measured)
        )
    larger = int(batch.size * (budget - held) / (max(measured, estimated) - held))
    larger = min(larger, len(dataset.samples)) if found.recompute == recompute else 0
    room = f"; batches of {larger} samples would fit" if larger > batch.size else ""
    logger.info(
        f"memory of a step of {batch.size} samples in {devices.precision}, in {found}: "
        f"estimated {estimated:.0f} MB, measured {measured:.0f} MB of {budget:.0f} MB; "
        f"{seconds:.3g} s{room}"
    )
    return replace(found, estimated_mb=estimated, measured_mb=measured, seconds_per_step=seconds)


def measure_step(model: nn.Module, batch: Batch, devices: Devices) -> tuple[float, float]:
    """Measure a forward and a backward pass, which leave no trace.

    There are no gradients before or after. Buffers and torch's random states are restored.

    Parameters
    ----------
    model
        Model as `Devices.setup_model` returned it.
    batch
        Batch, on the host.
    devices
        Where the model is trained.

    Returns
    -------
    seconds : float
        Time of both passes.
    peak_mb : float
        Peak memory, with all that the process holds, in MB of 2**20 bytes.
    """
    device = devices.device
    buffers = {buffer: buffer.clone() for buffer in model.buffers()}
    accelerators = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=accelerators), memory.PeakMemory(device) as taken:
            t0 = time.perf_counter()
            devices.backward(model(batch.to(device))["loss"])
            if accelerators:
                torch.cuda.synchronize(device)
            seconds = time.perf_counter() - t0
        return seconds, taken.peak_mb
    finally:
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for buffer, value in buffers.items():
                buffer.copy_(value)


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
    """Return what memory grows with: samples, positions of ASVs, and padded ASVs of samples."""
    return batch.size + sum(_block_sizes(batch))


def _block_sizes(batch: Batch) -> list[int]:
    asvs = [block.tokens_US.numel() for block in batch.asvs]
    return asvs + [block.asv_BA.numel() for block in batch.samples]


def _activations_mb(model: nn.Module, part: Batch, devices: Devices, gradients: float) -> float:
    """Return what a step of a part of a batch takes beside the gradients; 0 if it cannot be run."""
    # In their first step libraries take memory that they keep.
    _try_step(model, part, devices)
    memory.release()
    before = memory.held_mb(devices.device)
    taken = _try_step(model, part, devices)
    return 0.0 if taken is None else max(0.0, taken[1] - before - gradients)


def _try_step(model: nn.Module, batch: Batch, devices: Devices) -> tuple[float, float] | None:
    """Return what `measure_step` does, None where there is too little memory."""
    try:
        return measure_step(model, batch, devices)
    except RuntimeError as error:
        _out_of_memory(error, devices)
    memory.recover()
    return None


def _out_of_memory(error: RuntimeError, devices: Devices) -> str:
    """Return what an error says that can be mended by smaller micro-batches; raise others."""
    if not memory.is_out_of_memory(error):
        raise error
    if devices.processes == 1:
        return first_line(error)
    raise problem(
        "memory of a training step",
        f"too little for one process's shard of a batch ({first_line(error)})",
        "enough: a step of several processes is not tried again",
        "set runtime.max_memory_gb below what each process has, for micro-batches; raise "
        "runtime.devices or runtime.nodes, or choose runtime.strategy fsdp",
    ) from error


def _too_little(got: str, expected: str = "enough") -> InputError:
    return problem(
        "memory of a training step",
        got,
        expected,
        "raise runtime.max_memory_gb where it is set, or grant the run more memory; or lower the "
        "model's width or rarefaction.depth, or choose precision bf16",
    )
