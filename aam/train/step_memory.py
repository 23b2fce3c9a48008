"""Real steps that are measured, and the micro-batches that let a batch fit into the memory."""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn

from aam.batches.dataset import BatchDataset
from aam.data.samples import places_of
from aam.distributed.devices import Devices
from aam.distributed.shards import own_shard
from aam.model.batch import Batch
from aam.model.encoder import Recompute
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
        chosen = self.micro_batches
        if chosen is None or (chosen.limit_gb, chosen.processes) != (
            self.limit_gb,
            self.devices.processes,
        ):
            chosen = fit_to_memory(
                self.model,
                dataset,
                self.devices,
                limit_gb=self.limit_gb,
                recompute=self.recompute,
                threshold=self.threshold,
            )
        self.micro_batches = chosen
        chosen.apply(self.model.module)
        return chosen

    def run(self, step: Callable[..., T], batch: Batch, *arguments: object) -> T:
        """Do a step, again in smaller micro-batches where the memory does not suffice.

        Parameters
        ----------
        step
            Called with the batch in micro-batches and the `arguments`. It sets the random state
            itself, because it may be called several times.
        batch
            The batch, on the host.
        arguments
            Further arguments of `step`.

        Returns
        -------
        Any
            What `step` returns.

        Raises
        ------
        InputError
            The memory does not suffice for the smallest micro-batches, for the update of the
            weights, or for one of several processes, the others of which wait.
        """
        updates: list[bool] = []

        def note_update(*_: object) -> None:
            updates.append(True)

        hook = self.optimizer.register_step_pre_hook(note_update)
        try:
            while True:
                assert self.micro_batches is not None
                try:
                    return step(self.micro_batches.split(batch), *arguments)
                except RuntimeError as error:
                    reason = _out_of_memory(error, self.devices)
                # An update that was begun may have changed some of the weights.
                if updates:
                    raise _too_little(f"too little for the update of the weights ({reason})")
                self._shrink(batch, reason)
        finally:
            hook.remove()

    def _shrink(self, batch: Batch, reason: str) -> None:
        """Go on in smaller micro-batches, after a step that ran out of memory."""
        assert self.micro_batches is not None
        self.optimizer.zero_grad(set_to_none=True)
        self.devices.leave_out()
        memory.recover()
        smaller = self.micro_batches.halved(batch)
        if smaller is None:
            raise _too_little(f"too little for {self.micro_batches} ({reason})")
        logger.warning("out of memory: from now on %s", smaller)
        self.micro_batches = smaller
        smaller.apply(self.model.module)

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
    proposal = MicroBatches(recompute=recompute, limit_gb=limit_gb, processes=devices.processes)
    proposal.apply(model.module)
    heaviest = _heaviest_batch(model, dataset, devices, limit_gb, threshold)
    activations_mb = heaviest.activations_mb()
    while True:
        estimated_mb = heaviest.estimated_mb(proposal, activations_mb)
        smaller = proposal.halved(heaviest.batch)
        measured = None
        # The smallest micro-batches are measured whatever the estimate says.
        if smaller is None or heaviest.fits(estimated_mb):
            measured = heaviest.measured(proposal)
            if measured is not None and heaviest.fits(measured.peak_mb):
                break
        if smaller is None:
            raise heaviest.too_little(proposal, estimated_mb, measured)
        if proposal.recompute == "layers":
            # A block that is computed again as a whole keeps the inside of its layers.
            MicroBatches().apply(model.module)
            activations_mb = heaviest.activations_mb()
        proposal = smaller
    assert measured is not None
    # The first step made kernels, which the second one finds.
    again = _try_step(model, proposal.split(heaviest.batch), devices) or measured
    fitted = replace(
        proposal,
        estimated_mb=_largest(estimated_mb, devices),
        measured_mb=_largest(measured.peak_mb, devices),
        seconds_per_step=again.seconds,
    )
    larger = 0
    if fitted.recompute == recompute:
        larger = heaviest.samples_that_fit(fitted, len(dataset.samples))
    room = f"; batches of {larger} samples would fit" if larger > heaviest.batch.size else ""
    logger.info(
        f"memory of a step of {heaviest.batch.size} samples in {devices.precision}, in {fitted}: "
        f"estimated {fitted.estimated_mb:.0f} MB, measured {fitted.measured_mb:.0f} MB of "
        f"{heaviest.budget_mb:.0f} MB; {fitted.seconds_per_step:.3g} s{room}"
    )
    return fitted


class StepMeasurement(NamedTuple):
    """What a forward and a backward pass take."""

    seconds: float
    peak_mb: float
    """Peak memory, with all that the process holds, in MB of 2**20 bytes."""


@dataclass(frozen=True)
class _HeaviestBatch:
    """The heaviest batch of a run, and the memory that a step of it may take.

    All amounts of memory are in MB of 2**20 bytes.
    """

    model: Any
    devices: Devices
    batch: Batch
    part: Batch
    """A small batch of like samples."""
    weights_mb: float
    """Memory of the weights that are trained, as far as this process holds them."""
    held_mb: float
    """What the process held before any step."""
    budget_mb: float
    """What a step may take, with all that is held."""

    def activations_mb(self) -> float:
        """Return what the activations of the whole batch take, by a step of the small part."""
        part_mb = _activations_mb(self.model, self.part, self.devices, self.weights_mb)
        return part_mb * size(self.batch) / size(self.part)

    def estimated_mb(self, proposal: MicroBatches, activations_mb: float) -> float:
        """Estimate the peak memory of a step in micro-batches."""
        alive = 1.0
        if proposal.recompute == "micro-batches":
            largest = max(_block_sizes(proposal.split(self.batch)), default=0)
            alive = largest / size(self.batch)
        # The gradients are as large as the weights, and so is each of AdamW's two moments, which
        # come with the first update.
        states_mb = 3 * self.weights_mb
        return self.held_mb + states_mb + activations_mb * alive + self.devices.kernels_mb

    def measured(self, proposal: MicroBatches) -> StepMeasurement | None:
        """Run a step in micro-batches; None where it runs out of memory."""
        proposal.apply(self.model.module)
        memory.release()
        # Steps before leave what libraries keep, such as kernels of other shapes.
        left_mb = memory.held_mb(self.devices.device) - self.held_mb
        taken = _try_step(self.model, proposal.split(self.batch), self.devices)
        if taken is None:
            return None
        # AdamW's two moments come with the first update, the kernels of other shapes with their
        # batches.
        peak_mb = taken.peak_mb - left_mb + 2 * self.weights_mb + self.devices.kernels_mb
        return StepMeasurement(taken.seconds, peak_mb)

    def fits(self, needed_mb: float) -> bool:
        """Return whether all processes have room for what each of them needs."""
        return bool(self.devices.all_reduce_min(int(needed_mb <= self.budget_mb)))

    def samples_that_fit(self, fitted: MicroBatches, most: int) -> int:
        """Return the samples of the largest batch that would fit, in proportion to this one."""
        assert fitted.measured_mb is not None
        assert fitted.estimated_mb is not None
        step_mb = max(fitted.measured_mb, fitted.estimated_mb) - self.held_mb
        samples = int(self.batch.size * (self.budget_mb - self.held_mb) / step_mb)
        return min(samples, most)

    def too_little(
        self, proposal: MicroBatches, estimated_mb: float, measured: StepMeasurement | None
    ) -> InputError:
        """Return the error where the smallest micro-batches do not fit."""
        taken = "more than there is" if measured is None else f"{measured.peak_mb:.0f} MB"
        return _too_little(
            f"{taken} (estimated {estimated_mb:.0f} MB, {self.held_mb:.0f} MB of them held before "
            f"the step) in {proposal}",
            f"at most {self.budget_mb:.0f} MB",
        )


def _heaviest_batch(
    model: Any,
    dataset: BatchDataset,
    devices: Devices,
    limit_gb: float | None,
    threshold: float,
) -> _HeaviestBatch:
    """Assemble the heaviest batch and a small one; the parameters are those of `fit_to_memory`."""
    step = heaviest_step(dataset)
    batch = own_shard(dataset[step], devices)
    small = replace(dataset, batch_size=max(2 * devices.processes, dataset.batch_size // PART))
    # The step at the same place of the epoch has some of the same samples.
    small_step = step * small.steps_per_epoch // dataset.steps_per_epoch
    part = own_shard(small[small_step], devices)
    weights_mb = sum(p.nbytes for p in model.parameters() if p.requires_grad) / MB
    if devices.is_sharded:
        weights_mb /= devices.processes
    memory.release()
    held_mb = memory.held_mb(devices.device)
    budget_mb = memory.budget_mb(limit_gb, devices.device, threshold)
    if limit_gb is None and devices.device.type == "cpu":
        # The processes of a machine share what is free.
        budget_mb = held_mb + (budget_mb - held_mb) / devices.world.devices
    return _HeaviestBatch(
        model=model,
        devices=devices,
        batch=batch,
        part=part,
        weights_mb=weights_mb,
        held_mb=held_mb,
        budget_mb=budget_mb,
    )


def _largest(amount_mb: float, devices: Devices) -> float:
    """Return the largest of the amounts of all processes, to a byte."""
    if devices.processes == 1:
        return amount_mb
    return -devices.all_reduce_min(-round(amount_mb * MB)) / MB


def measure_step(model: nn.Module, batch: Batch, devices: Devices) -> StepMeasurement:
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
    StepMeasurement
        Seconds of both passes, and their peak memory.
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
        return StepMeasurement(seconds, taken.peak_mb)
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
    """Return what a step of a part of a batch takes in addition to its gradients.

    It is 0 where the step cannot be run.
    """
    # In their first step libraries take memory that they keep.
    _try_step(model, part, devices)
    memory.release()
    before = memory.held_mb(devices.device)
    taken = _try_step(model, part, devices)
    return 0.0 if taken is None else max(0.0, taken.peak_mb - before - gradients)


def _try_step(model: nn.Module, batch: Batch, devices: Devices) -> StepMeasurement | None:
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


def _too_little(shortage: str, expected: str = "enough") -> InputError:
    return problem(
        "memory of a training step",
        shortage,
        expected,
        "raise runtime.max_memory_gb where it is set, or grant the run more memory; or lower the "
        "model's width or rarefaction.depth, or choose precision bf16",
    )
