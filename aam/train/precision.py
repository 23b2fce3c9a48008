"""The precision that a run is trained in, where it is chosen by measured steps."""

import copy
import logging
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from aam.batches.dataset import BatchDataset
from aam.distributed.batch_shards import local_shard
from aam.distributed.devices import AUTO, Devices, hardware_name
from aam.train.memory.meter import measure_step
from aam.train.memory.micro_batches import MicroBatches
from aam.train.memory.step_memory import StepMemory, fit_to_memory
from aam.util.errors import InputError

logger = logging.getLogger(__name__)
WORTH_IT = 0.9
"""Another precision is chosen if its step takes less than this fraction of the time in the most
exact one: where they are nearly as fast, the more exact one is better."""
TURNS = 5
"""Most batches that are timed, each in every precision."""
FEWEST_TURNS = 3
"""Fewest batches that are timed."""
ENOUGH_S = 2.0
"""No further batch is timed after so many seconds, once `FEWEST_TURNS` are."""


@dataclass
class PrecisionChoice:
    """Settles the precision of one run, unless it is given, or chosen already.

    A checkpoint holds the choice, so that a run which goes on from it measures nothing.
    """

    devices: Devices
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of a step by precision; empty where nothing was measured."""

    def make(self, model: Any, wrapped: Any, dataset: BatchDataset, memory: StepMemory) -> None:
        """Time steps in each precision that is possible, and take one; all processes call this.

        Neither the model nor a random state is changed, so that the run ends with the bytes of one
        that was given the precision.

        Parameters
        ----------
        model
            Model that will be trained, on its device.
        wrapped
            The same as `Devices.setup_model` has returned it.
        dataset
            Its batches.
        memory
            Limits that a step is kept within.
        """
        if self.devices.is_chosen:
            return
        trial = wrapped
        if not self.devices.is_sharded:
            # With several processes the first step decides in which order gradients are summed, and
            # that order may depend on the precision of the step: a copy of the model does it.
            trial = self.devices.setup_model(copy.deepcopy(model)).train()
        with torch.compiler.set_stance("force_eager"):
            step_s = step_seconds(trial, dataset, self.devices, memory)
        # All processes must choose alike: the first one decides.
        self.seconds = self.devices.broadcast(step_s)
        chosen = choose_faster(self.seconds)
        self.devices.choose(chosen)
        times = [f"{seconds:.3g} s in {name}" for name, seconds in self.seconds.items()]
        logger.info("a step takes %s: training in %s", " and ".join(times), chosen)

    def state(self) -> dict[str, Any]:
        """Return the choice for `restore`."""
        return {"precision": self.devices.precision, "seconds": self.seconds}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the choice of a checkpoint, if this machine can compute in that precision.

        Parameters
        ----------
        state
            What `state` has returned.
        """
        if not self.devices.is_auto:
            return
        chosen = state["precision"]
        if chosen not in self.devices.candidates:
            logger.warning(
                "trained in %s so far, which this machine lacks: it goes on in another precision",
                chosen,
            )
            return
        self.devices.choose(chosen)
        self.seconds = dict(state["seconds"])

    def adopt(self, optimization: Mapping[str, Any] | None) -> None:
        """Take the precision of another model of the same job, unless one is settled.

        Parameters
        ----------
        optimization
            What `aam.train.options.describe_setup` has returned for it; empty where it was not
            trained.
        """
        if optimization and not self.devices.is_chosen:
            self.restore({"precision": optimization["precision"], "seconds": {}})


def precision_of_encoder(optimization: Mapping[str, Any] | None) -> str:
    """Return the precision for models that begin with an encoder, where none is given.

    Parameters
    ----------
    optimization
        What `aam.train.options.describe_setup` has returned for the encoder; empty where it was not
        trained.

    Returns
    -------
    str
        The precision that the encoder was trained in, if that was on the same kind of hardware;
        otherwise `AUTO`.
    """
    if not optimization or optimization.get("hardware") != hardware_name():
        return AUTO
    return str(optimization["precision"])


def choose_faster(seconds: Mapping[str, float]) -> str:
    """Return the precision to train in.

    Parameters
    ----------
    seconds
        Seconds of a step by precision, the most exact precision first.

    Returns
    -------
    str
        The fastest precision that takes less than `WORTH_IT` of the time of the exact one, or else
        the exact one.
    """
    exact, *others = seconds
    is_worth_it = [name for name in others if seconds[name] < WORTH_IT * seconds[exact]]
    return min(is_worth_it, key=seconds.__getitem__, default=exact)


def step_seconds(
    model: Any, dataset: BatchDataset, devices: Devices, memory: StepMemory
) -> dict[str, float]:
    """Return the median seconds of a forward and a backward pass in each precision.

    Updates of the weights are in fp32 in any case. The batches differ and are evenly spread over
    the first epoch, because on a CPU the kernels that bf16 needs for each new shape are part of its
    time. The precisions take turns, because other jobs may slow down any of them.

    Parameters
    ----------
    model
        Model as `Devices.setup_model` returned it.
    dataset
        Its batches.
    devices
        Where it is trained. They may compute in another precision afterwards.
    memory
        Limits of memory. Each precision gets the micro-batches that it needs.

    Returns
    -------
    dict
        Seconds by precision, without precisions that do not fit into the memory.

    Raises
    ------
    InputError
        No precision fits into the memory.
    """
    micro_batches = _fit_each_precision(model, dataset, devices, memory)
    seconds: dict[str, list[float]] = {precision: [] for precision in micro_batches}
    t_start = time.perf_counter()
    steps = np.linspace(0, dataset.steps_per_epoch, TURNS, endpoint=False).astype(int)
    for turn, step in enumerate(steps.tolist(), start=1):
        batch = local_shard(dataset[step], devices)
        for precision, fitting in micro_batches.items():
            devices.compute_in(precision)
            measured = measure_step(model, fitting.split(batch), devices)
            seconds[precision].append(measured.seconds)
        is_enough = turn >= FEWEST_TURNS and time.perf_counter() - t_start > ENOUGH_S
        if devices.broadcast(is_enough):
            break
    return {precision: statistics.median(times) for precision, times in seconds.items()}


def _fit_each_precision(
    model: Any, dataset: BatchDataset, devices: Devices, memory: StepMemory
) -> dict[str, MicroBatches]:
    """Return micro-batches by precision, without precisions that do not fit into the memory.

    The parameters are those of `step_seconds`.
    """
    micro_batches: dict[str, MicroBatches] = {}
    for precision in devices.candidates:
        devices.compute_in(precision)
        try:
            micro_batches[precision] = fit_to_memory(
                model,
                dataset,
                devices,
                limit_gb=memory.limit_gb,
                recompute=memory.recompute,
                threshold=memory.threshold,
            )
        except InputError as error:
            # Another precision may take less.
            is_last_hope = precision == devices.candidates[-1] and not micro_batches
            # One of several processes must not go on alone.
            if is_last_hope or devices.processes > 1:
                raise
            logger.info("no training in %s: %s", precision, error)
    return micro_batches
