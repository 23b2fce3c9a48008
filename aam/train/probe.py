"""A real step that is measured and leaves no trace, and the pieces that let a batch fit by it."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from aam.model.batch import Batch
from aam.model.encoder import Recompute
from aam.train.activations import Work
from aam.train.data.dataset import BatchDataset
from aam.train.distributed.devices import Devices
from aam.train.memory_estimate import (
    FEWEST_ASVS,
    Estimate,
    estimate,
    first_epoch,
    largest_block,
    piece_limits,
)
from aam.train.micro_batches import Plan
from aam.train.monitoring.memory import (
    MB,
    PeakMemory,
    budget_mb,
    held_mb,
    is_out_of_memory,
    recover,
    release,
)
from aam.util.errors import InputError, problem

logger = logging.getLogger(__name__)
T = TypeVar("T")
TRIALS = 6
"""Steps that the search for pieces measures at most."""
ENOUGH = 0.7
"""Share of the budget from which on larger pieces are not looked for."""


class Probe(NamedTuple):
    """A measured step.

    Attributes
    ----------
    seconds
        Of forward and backward pass.
    peak_mb
        Peak resident memory of the process, sampled; on CUDA the peak of all tensors.
    """

    seconds: float
    peak_mb: float


def probe(
    model: nn.Module, batch: Batch, devices: Devices, backward: Callable[[Tensor], None]
) -> Probe:
    """Measure one forward and backward pass, and leave everything as it was.

    Weights are not touched; gradients, buffers, the mode of every module and torch's random states
    are restored, whether the step succeeds or not.

    Parameters
    ----------
    model
        On its device; returns named losses of a batch.
    batch
        On any device.
    devices
        Where the model is.
    backward
        Computes the gradients of a loss.

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
            backward(model(batch.to(device))["loss"])
            if accelerators:
                torch.cuda.synchronize(device)
            seconds = time.perf_counter() - t0
        return Probe(seconds, memory.peak_mb)
    finally:
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, value in buffers.items():
                buffer.copy_(value)
        for module, training in modes.items():
            module.training = training


def fit_to_memory(
    model: nn.Module,
    dataset: BatchDataset,
    devices: Devices,
    limit_gb: float | None,
    *,
    recompute: Recompute = "nothing",
) -> Plan:
    """Find the largest pieces of a batch whose step fits into the memory, by real steps.

    The batch is never changed, and where it fits as it is one step is measured. Else every block is
    computed again in the backward pass, in pieces that are halved until a step fits, or grown by
    bisection while there is room. The heaviest batch of the first epoch is what has to fit.

    Parameters
    ----------
    model
        On its device, as it will be trained; has an `encoder`.
    dataset
        Its batches.
    devices
        Where the model is.
    limit_gb
        Memory that a step may take, in GB; None: `aam.train.monitoring.memory.budget_mb`.
    recompute
        What the backward pass computes again where nothing has to be cut.

    Raises
    ------
    InputError
        When the smallest pieces do not fit.
    """
    plan = replace(_Search(model, dataset, devices, limit_gb, recompute).run(), limit_gb=limit_gb)
    plan.apply(model)
    return plan


def with_splitting(
    step: Callable[[Batch], T], batch: Batch, plan: Plan, model: nn.Module, optimizer: Any
) -> tuple[T, Plan]:
    """Do a step in the pieces of a plan, in smaller ones when the memory does not suffice.

    Parameters
    ----------
    step
        Trains on a batch that is cut. It is called again with the same batch in smaller pieces, so
        that it has to set the random state itself.
    batch
        The batch, on the host.
    plan
        The pieces to begin with.
    model, optimizer
        The model loses its gradients before the step is tried again; a step that has begun to
        update the weights is not.

    Returns
    -------
    T, Plan
        What the step returned, and the pieces that it was done in.

    Raises
    ------
    InputError
        When the memory does not suffice for the smallest pieces, or for the update itself.
    """
    begun: list[bool] = []
    hook = optimizer.register_step_pre_hook(lambda *_: begun.append(True))
    try:
        while True:
            try:
                return step(plan.split(batch)), plan
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                reason = str(error).strip().partition("\n")[0]
            if begun:
                raise _too_little(f"too little for the update of the weights ({reason})")
            optimizer.zero_grad(set_to_none=True)
            recover()
            smaller = _halved(plan, batch)
            if smaller is None:
                raise _too_little(f"too little for {plan} ({reason})")
            logger.warning("out of memory: from now on %s", smaller)
            plan = smaller
            plan.apply(model)
    finally:
        hook.remove()


def _halved(plan: Plan, batch: Batch) -> Plan | None:
    """Return the plan with pieces of half the size, None where they are as small as can be."""

    def half(limit: int | None, sizes: list[int], fewest: int) -> int | None:
        largest = max(sizes, default=0) if limit is None else min(limit, max(sizes, default=0))
        return limit if largest <= fewest else max(fewest, -(-largest // 2))

    asvs = half(plan.asvs_per_piece, [len(b.tokens_US) for b in batch.asvs], FEWEST_ASVS)
    samples = half(plan.samples_per_piece, [len(b.asv_BA) for b in batch.samples], 1)
    smaller = replace(plan, asvs_per_piece=asvs, samples_per_piece=samples, recompute="pieces")
    return None if smaller == plan else smaller


def _too_little(got: str, expected: str = "enough") -> InputError:
    return problem(
        "memory of a training step",
        got,
        expected,
        "raise runtime.max_memory_gb where it is set, or grant the run more memory; or lower the "
        "model's width or rarefaction.depth, or choose precision bf16",
    )


class _Search:
    """One search for pieces. Their size is given by the bytes that a piece at work may take."""

    def __init__(
        self,
        model: nn.Module,
        dataset: BatchDataset,
        devices: Devices,
        limit_gb: float | None,
        recompute: Recompute,
    ) -> None:
        self.model, self.dataset, self.devices = model, dataset, devices
        self.work = Work.of(model, devices)
        shapes = first_epoch(dataset)
        peaks = {
            step: estimate(self.work, shape, recompute=recompute).peak_mb
            for step, shape in shapes.items()
        }
        heaviest = max(peaks, key=peaks.__getitem__)
        self.batch, self.shape = dataset[heaviest], shapes[heaviest]
        release()
        self.held_mb = held_mb(devices.device)
        self.budget_mb = budget_mb(limit_gb, devices.device)
        self.whole = Plan(recompute=recompute)
        self.trials: list[Plan] = []

    def run(self) -> Plan:
        """Return the plan to work by, with its figures."""
        if self.estimated_mb(self.whole) <= self.budget_mb and self.fits(self.whole):
            return self.told(self.trials[-1])
        best = self.bisected()
        if best is None:
            smallest = self.plan(0.0)
            if not self.is_tried(smallest) and self.fits(smallest):
                best = self.trials[-1]
            else:
                raise self.failure(next(t for t in self.trials if t.cut == smallest.cut))
        return self.told(best)

    def bisected(self) -> Plan | None:
        """Return the largest pieces that were found to fit, None where none did.

        One of the trials is left for the smallest pieces, or for the whole batch.
        """
        best = None
        low, high = 0.0, float(largest_block(self.work, self.shape))
        size = min(high, self.room())
        while len(self.trials) < TRIALS - 1 and not self.is_tried(self.plan(size)):
            if self.fits(self.plan(size)):
                best, low = self.trials[-1], size
                if self.whole_should_fit(best) and self.fits(self.whole):
                    return self.trials[-1]
                assert best.measured_mb is not None
                if size >= high or best.measured_mb >= ENOUGH * self.budget_mb:
                    break
            else:
                high = size
            size = (low + high) / 2
        return best

    def fits(self, plan: Plan) -> bool:
        """Measure a step by a plan; the trial is noted, with figures where it ran to its end."""
        plan = replace(plan, estimated_mb=self.estimated_mb(plan))
        plan.apply(self.model)
        release()
        # Earlier trials leave what libraries keep, such as compiled kernels of other shapes.
        left_mb = held_mb(self.devices.device) - self.held_mb
        try:
            split = plan.split(self.batch)
            seconds, peak_mb = probe(self.model, split, self.devices, self.devices.backward)
            # The optimizer's moments come with the first update.
            measured_mb = peak_mb - left_mb + self.estimate(plan).optimizer_mb
            plan = replace(plan, measured_mb=measured_mb, seconds_per_step=seconds)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        if plan.measured_mb is None:
            recover()
        self.trials.append(plan)
        return plan.measured_mb is not None and plan.measured_mb <= self.budget_mb

    def is_tried(self, plan: Plan) -> bool:
        """Return whether a step of these pieces was measured."""
        return any(plan.cut == trial.cut for trial in self.trials)

    def whole_should_fit(self, trial: Plan) -> bool:
        """Return whether the uncut batch should fit, judged by what a trial really took."""
        if self.is_tried(self.whole) or trial.measured_mb is None:
            return False
        expected_mb = self.estimated_mb(trial) - self.held_mb
        # A process that reuses its freed pages seems to take nothing.
        ratio = max(0.5, (trial.measured_mb - self.held_mb) / expected_mb)
        whole_mb = self.held_mb + ratio * (self.estimated_mb(self.whole) - self.held_mb)
        return whole_mb <= self.budget_mb

    def room(self) -> float:
        """Return the bytes that the budget leaves to a piece, beside what stays in any case."""
        least = self.plan(0.0)
        rest_mb = self.estimated_mb(least) - self.estimate(least).largest_piece_mb
        return max(0.0, self.budget_mb - rest_mb) * MB

    def plan(self, size: float) -> Plan:
        """Return the plan whose pieces take at most `size` bytes each."""
        return Plan(*piece_limits(self.work, self.shape, size), recompute="pieces")

    def estimate(self, plan: Plan) -> Estimate:
        """Return the estimate of the heaviest batch by a plan."""
        return estimate(
            self.work,
            self.shape,
            recompute=plan.recompute,
            asvs=plan.asvs_per_piece,
            samples=plan.samples_per_piece,
        )

    def estimated_mb(self, plan: Plan) -> float:
        """Return the estimated peak with all that is held already: the weights are among that."""
        step = self.estimate(plan)
        return self.held_mb + step.peak_mb - step.weights_mb

    def told(self, plan: Plan) -> Plan:
        """Say what was chosen, with the time of a step that makes no kernels any more."""
        plan.apply(self.model)
        split = plan.split(self.batch)
        seconds = probe(self.model, split, self.devices, self.devices.backward).seconds
        plan = replace(plan, seconds_per_step=seconds)
        assert plan.measured_mb is not None
        assert plan.estimated_mb is not None
        taken_mb = max(plan.measured_mb, plan.estimated_mb) - self.held_mb
        larger = int(self.batch.size * (self.budget_mb - self.held_mb) / taken_mb)
        larger = min(larger, len(self.dataset.samples))
        has_room = plan.cut == self.whole.cut and larger > self.batch.size
        logger.info(
            "memory of a step of %d samples, in %s: estimated %.0f MB, measured %.0f MB of %.0f MB;"
            " %.3g s%s",
            self.batch.size,
            plan,
            plan.estimated_mb,
            plan.measured_mb,
            self.budget_mb,
            plan.seconds_per_step,
            f"; batches of {larger} samples would fit" if has_room else "",
        )
        return plan

    def failure(self, trial: Plan) -> InputError:
        """Return the error for pieces that are as small as can be and do not fit."""
        took = "more than there is" if trial.measured_mb is None else f"{trial.measured_mb:.0f} MB"
        return _too_little(
            f"{took} (estimated {trial.estimated_mb:.0f} MB, {self.held_mb:.0f} MB of them held "
            f"before the step) in {trial}",
            f"at most {self.budget_mb:.0f} MB",
        )
