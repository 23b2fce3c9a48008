"""The memory of a run: micro-batches are chosen before its first step, and halved where needed.

The choice is a search by real steps: the heaviest batch of the run has to fit.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np

from aam.batches.dataset import BatchDataset
from aam.data.stores import places_of
from aam.distributed.batch_shards import local_shard
from aam.distributed.devices import Devices
from aam.model.batch import Batch
from aam.model.encoder import Recompute
from aam.train.memory import meter
from aam.train.memory.meter import MB, StepMeasurement, memory_problem, shortage_reason, try_step
from aam.train.memory.micro_batches import MicroBatches
from aam.util.errors import InputError

logger = logging.getLogger(__name__)
BATCHES = 64
"""Batches of the first epoch whose sizes are compared."""
PART = 8
"""How many times as many samples a batch has as the small part that is run before it."""
T = TypeVar("T")


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
    _: KW_ONLY
    threshold: float

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
        if chosen is None or not self._suits_this_run(chosen):
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

    def _suits_this_run(self, chosen: MicroBatches) -> bool:
        """Return whether micro-batches were chosen for the same limit and number of processes."""
        is_same_limit = chosen.limit_gb == self.limit_gb
        return is_same_limit and chosen.processes == self.devices.processes

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
                    reason = shortage_reason(error, self.devices)
                # An update that was begun may have changed some of the weights.
                if updates:
                    raise memory_problem(f"too little for the update of the weights ({reason})")
                self._shrink(batch, reason)
        finally:
            hook.remove()

    def _shrink(self, batch: Batch, reason: str) -> None:
        """Go on in smaller micro-batches, after a step that ran out of memory."""
        assert self.micro_batches is not None
        self.optimizer.zero_grad(set_to_none=True)
        self.devices.leave_out()
        meter.recover()
        smaller = self.micro_batches.halve(batch)
        if smaller is None:
            raise memory_problem(f"too little for {self.micro_batches} ({reason})")
        logger.warning("out of memory: from now on %s", smaller)
        self.micro_batches = smaller
        smaller.apply(self.model.module)

    def state(self) -> dict[str, Any]:
        """Return the micro-batches in plain types."""
        return {} if self.micro_batches is None else asdict(self.micro_batches)

    def restore(self, state: dict[str, Any]) -> None:
        """Take the micro-batches of a state, unless this process has chosen some already."""
        if state and self.micro_batches is None:
            self.micro_batches = MicroBatches(**state)


def fit_to_memory(
    model: Any,
    dataset: BatchDataset,
    devices: Devices,
    limit_gb: float | None,
    recompute: Recompute,
    *,
    threshold: float,
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
    heaviest, activations_mb, trial = _try_whole(
        model, dataset, devices, limit_gb, recompute, threshold=threshold
    )
    proposal = _whole(devices, limit_gb, recompute)
    while not trial.fits:
        smaller = proposal.halve(heaviest.batch)
        if smaller is None:
            raise heaviest.shortage(proposal, trial)
        if proposal.recompute == "layers":
            # From here on whole blocks are computed again, and not each layer: while a block is,
            # the insides of all of its layers are in memory.
            MicroBatches().apply(model.module)
            activations_mb = heaviest.measure_activations_mb()
        proposal = smaller
        trial = heaviest.try_out(proposal, activations_mb)
    fitted = heaviest.record(proposal, trial)
    largest_size = heaviest.batch.size
    if fitted.recompute == recompute:
        largest_size = heaviest.largest_size(trial, most=len(dataset.samples))
    heaviest.log(fitted, largest_size)
    return fitted


def largest_batch_size(
    model: Any,
    dataset: BatchDataset,
    sizes: Sequence[int],
    devices: Devices,
    limit_gb: float | None,
    recompute: Recompute,
    *,
    threshold: float,
) -> int:
    """Return the largest batch size whose heaviest batch fits into the memory without being split.

    One size after the other is tried as `fit_to_memory` does. All processes call this, and choose
    alike.

    Parameters
    ----------
    model, devices, limit_gb, recompute, threshold
        As for `fit_to_memory`.
    dataset
        Batches of the run; their size is of no account.
    sizes
        Possible sizes, ascending. The first one is taken whether it fits or not.

    Returns
    -------
    int
        One of `sizes`.
    """
    fitting = sizes[0]
    for tried in sizes:
        batches = replace(dataset, batch_size=tried)
        heaviest, _, trial = _try_whole(
            model, batches, devices, limit_gb, recompute, threshold=threshold
        )
        heaviest.log_trial(trial)
        if not trial.fits:
            break
        fitting = tried
    return fitting


def _whole(devices: Devices, limit_gb: float | None, recompute: Recompute) -> MicroBatches:
    """Return what leaves batches as they are."""
    return MicroBatches(recompute=recompute, limit_gb=limit_gb, processes=devices.processes)


def _try_whole(
    model: Any,
    dataset: BatchDataset,
    devices: Devices,
    limit_gb: float | None,
    recompute: Recompute,
    *,
    threshold: float,
) -> tuple["_HeaviestBatch", float, "_Trial"]:
    """Try the heaviest batch as one micro-batch; the parameters are those of `fit_to_memory`.

    Returns the batch, what its activations take in MB by a step of a small part, and what came out.
    """
    proposal = _whole(devices, limit_gb, recompute)
    proposal.apply(model.module)
    heaviest = _heaviest_batch(model, dataset, devices, limit_gb, threshold=threshold)
    activations_mb = heaviest.measure_activations_mb()
    return heaviest, activations_mb, heaviest.try_out(proposal, activations_mb)


@dataclass(frozen=True)
class _Trial:
    """What came out for a step in some micro-batches."""

    estimated_mb: float
    measured: StepMeasurement | None
    """None: the step was not run, or it ran out of memory."""
    fits: bool
    """Whether the measured step fits into the memory of every process."""


@dataclass(frozen=True)
class _HeaviestBatch:
    """The heaviest batch of a run, and the memory that a step of it may take.

    All amounts of memory are in MB of 2**20 bytes.
    """

    model: Any
    devices: Devices
    batch: Batch
    part: Batch
    """A small batch of similar samples."""
    weights_mb: float
    """Memory of the weights that are trained, as far as this process holds them."""
    held_mb: float
    """What the process held before any step."""
    budget_mb: float
    """What a step may take, with all that is held."""

    def measure_activations_mb(self) -> float:
        """Return what the activations of the whole batch take, by a step of the small part.

        It is 0 where the step cannot be run.
        """
        # In their first step libraries take memory that they keep.
        try_step(self.model, self.part, self.devices)
        meter.release()
        before_mb = meter.held_mb(self.devices.device)
        measured = try_step(self.model, self.part, self.devices)
        if measured is None:
            return 0.0
        # A step takes activations and gradients, which are as large as the weights.
        part_mb = max(0.0, measured.peak_mb - before_mb - self.weights_mb)
        return part_mb * size(self.batch) / size(self.part)

    def try_out(self, proposal: MicroBatches, activations_mb: float) -> _Trial:
        """Estimate the memory of a step in micro-batches, and measure it where that fits."""
        estimated_mb = self._estimate_mb(proposal, activations_mb)
        # The smallest micro-batches are measured whatever the estimate says.
        is_smallest = proposal.halve(self.batch) is None
        measured = None
        if is_smallest or self._has_room(estimated_mb):
            measured = self._measure(proposal)
        fits = measured is not None and self._has_room(measured.peak_mb)
        return _Trial(estimated_mb, measured, fits)

    def _estimate_mb(self, proposal: MicroBatches, activations_mb: float) -> float:
        """Estimate the peak memory of a step in micro-batches."""
        # This fraction of the activations is in memory at a time.
        alive = 1.0
        if proposal.recompute == "micro-batches":
            largest_block = max(block_sizes(proposal.split(self.batch)), default=0)
            alive = largest_block / size(self.batch)
        # The gradients are as large as the weights, and so is each of AdamW's two moments, which
        # come with the first update.
        states_mb = 3 * self.weights_mb
        return self.held_mb + states_mb + activations_mb * alive + self.devices.kernels_mb

    def _measure(self, proposal: MicroBatches) -> StepMeasurement | None:
        """Run a step in micro-batches; None where it runs out of memory."""
        proposal.apply(self.model.module)
        meter.release()
        # Steps before leave what libraries keep, such as kernels of other shapes.
        left_mb = meter.held_mb(self.devices.device) - self.held_mb
        measured = try_step(self.model, proposal.split(self.batch), self.devices)
        if measured is None:
            return None
        # AdamW's two moments come with the first update, the kernels of other shapes with their
        # batches.
        peak_mb = measured.peak_mb - left_mb + 2 * self.weights_mb + self.devices.kernels_mb
        return StepMeasurement(measured.seconds, peak_mb)

    def _has_room(self, needed_mb: float) -> bool:
        """Return whether all processes have room for what each of them needs."""
        return bool(self.devices.all_reduce_min(int(needed_mb <= self.budget_mb)))

    def record(self, proposal: MicroBatches, trial: _Trial) -> MicroBatches:
        """Return micro-batches that fit, with memory and seconds of a step."""
        assert trial.measured is not None
        # The first step made kernels, which the second one finds.
        again = try_step(self.model, proposal.split(self.batch), self.devices) or trial.measured
        return replace(
            proposal,
            estimated_mb=_largest(trial.estimated_mb, self.devices),
            measured_mb=_largest(trial.measured.peak_mb, self.devices),
            seconds_per_step=again.seconds,
        )

    def largest_size(self, trial: _Trial, most: int) -> int:
        """Return the samples of the largest batch that would fit, in proportion to this one."""
        assert trial.measured is not None
        step_mb = max(trial.measured.peak_mb, trial.estimated_mb) - self.held_mb
        samples = int(self.batch.size * (self.budget_mb - self.held_mb) / step_mb)
        # Several processes may have different room.
        return self.devices.all_reduce_min(min(samples, most))

    def log(self, fitted: MicroBatches, largest_size: int) -> None:
        """Log what a step takes, and whether larger batches would fit, too."""
        room = ""
        if largest_size > self.batch.size:
            room = f"; batches of {largest_size} samples would fit"
        logger.info(
            f"memory of a step of {self.batch.size} samples in {self.devices.precision}, "
            f"in {fitted}: estimated {fitted.estimated_mb:.0f} MB, "
            f"measured {fitted.measured_mb:.0f} MB of {self.budget_mb:.0f} MB; "
            f"{fitted.seconds_per_step:.3g} s{room}"
        )

    def log_trial(self, trial: _Trial) -> None:
        """Log what a step of the whole batch takes, as far as it was run."""
        measured = "not tried" if trial.measured is None else f"{trial.measured.peak_mb:.0f} MB"
        logger.info(
            f"memory of a step of {self.batch.size} samples in one micro-batch: "
            f"estimated {trial.estimated_mb:.0f} MB, {measured}; at most {self.budget_mb:.0f} MB"
        )

    def shortage(self, proposal: MicroBatches, trial: _Trial) -> InputError:
        """Return the error where the smallest micro-batches do not fit."""
        taken = "more than there is"
        if trial.measured is not None:
            taken = f"{trial.measured.peak_mb:.0f} MB"
        return memory_problem(
            f"{taken} (estimated {trial.estimated_mb:.0f} MB, {self.held_mb:.0f} MB of them held "
            f"before the step) in {proposal}",
            f"at most {self.budget_mb:.0f} MB",
        )


def _heaviest_batch(
    model: Any,
    dataset: BatchDataset,
    devices: Devices,
    limit_gb: float | None,
    *,
    threshold: float,
) -> _HeaviestBatch:
    """Assemble the heaviest batch and a small one; the parameters are those of `fit_to_memory`."""
    step = heaviest_step(dataset)
    batch = local_shard(dataset[step], devices)
    small = replace(dataset, batch_size=max(2 * devices.processes, dataset.batch_size // PART))
    # The step at the same point of the epoch has some of the same samples.
    small_step = step * small.steps_per_epoch // dataset.steps_per_epoch
    part = local_shard(small[small_step], devices)
    weights_mb = sum(p.nbytes for p in model.parameters() if p.requires_grad) / MB
    if devices.is_sharded:
        weights_mb /= devices.processes
    meter.release()
    held_mb = meter.held_mb(devices.device)
    budget_mb = meter.budget_mb(limit_gb, devices.device, threshold=threshold)
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


def heaviest_step(dataset: BatchDataset) -> int:
    """Return the step of the first epoch with the most positions of ASVs and ASVs of samples.

    At most `BATCHES` steps are looked at, evenly spread; no batch is built.
    """

    def weight(step: int) -> int:
        rows_B, _ = dataset.rows(step)
        entries, richness_B = places_of(dataset.store.offsets, rows_B)
        asvs = np.unique(dataset.store.asvs[entries])
        return int(dataset.tokens.lengths[asvs].sum() + richness_B.sum())

    number = dataset.steps_per_epoch
    steps = np.linspace(0, number - 1, min(BATCHES, number)).round().astype(int)
    return max(steps.tolist(), key=weight)


def size(batch: Batch) -> int:
    """Return what memory grows with: samples, positions of ASVs, and padded ASVs of samples."""
    return batch.size + sum(block_sizes(batch))


def block_sizes(batch: Batch) -> list[int]:
    """Return the sizes of all blocks: positions of ASVs, and padded ASVs of samples."""
    asvs = [block.tokens_US.numel() for block in batch.asvs]
    return asvs + [block.asv_BA.numel() for block in batch.samples]
