"""The precision that a run is trained in, where it is chosen by measured steps."""

import copy
import logging
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aam.train.data.dataset import BatchDataset
from aam.train.distributed.devices import AUTO, Devices, hardware
from aam.train.distributed.shards import own_shard
from aam.train.step_memory import StepMemory, fit_to_memory, measure_step

logger = logging.getLogger(__name__)
WORTH_IT = 0.9
"""Fraction of the exact precision's time that a step has to stay below in the other one: where they
are nearly as fast, the more exact one is better."""
TURNS = 5
"""Batches that are timed, each in every precision."""
FEWEST_TURNS = 3
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
            Has the limits that a step is kept within.
        """
        if self.devices.is_chosen:
            return
        if self.devices.is_sharded:
            trial = wrapped
        else:
            # A copy: of several processes the first step decides in which order gradients are
            # summed, and that may depend on its precision. It is not compiled.
            trial = self.devices.setup_model(copy.deepcopy(model)).train()
        # The first process has the say: all must choose alike.
        self.seconds = self.devices.broadcast(step_seconds(trial, dataset, self.devices, memory))
        chosen = faster(self.seconds)
        self.devices.choose(chosen)
        logger.info(
            "a step takes %s: training in %s",
            " and ".join(f"{taken:.3g} s in {name}" for name, taken in self.seconds.items()),
            chosen,
        )

    def state(self) -> dict[str, Any]:
        """Return the choice for `restore`."""
        return {"precision": self.devices.precision, "seconds": self.seconds}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the choice of a checkpoint, if this machine can compute so."""
        if not self.devices.is_auto:
            return
        chosen = state["precision"]
        if chosen not in self.devices.candidates:
            logger.warning("the checkpoint is of a run in %s, which this machine has not", chosen)
            return
        self.devices.choose(chosen)
        self.seconds = dict(state["seconds"])

    def adopt(self, optimization: Mapping[str, Any] | None) -> None:
        """Take the precision of another model of the same job, unless one is settled.

        Parameters
        ----------
        optimization
            What `aam.train.options.report` has returned of it; empty where it was not trained.
        """
        if optimization and not self.devices.is_chosen:
            self.restore({"precision": optimization["precision"], "seconds": {}})


def precision_of_encoder(optimization: Mapping[str, Any] | None) -> str:
    """Return the precision for models that begin with an encoder, where none is given.

    Parameters
    ----------
    optimization
        What `aam.train.options.report` has returned of the encoder; empty where it was not trained.

    Returns
    -------
    str
        The precision that the encoder was trained in, if that was on hardware as it is here; else
        `AUTO`.
    """
    if not optimization or optimization.get("hardware") != hardware():
        return AUTO
    return str(optimization["precision"])


def faster(seconds: Mapping[str, float]) -> str:
    """Return the precision to train in, by the seconds of a step, those of the exact one first."""
    exact, other = seconds
    return other if seconds[other] < WORTH_IT * seconds[exact] else exact


def step_seconds(
    model: Any, dataset: BatchDataset, devices: Devices, memory: StepMemory
) -> dict[str, float]:
    """Return the median seconds of a forward and a backward pass by precision.

    Updates of the weights are in fp32 in any case. The batches are different ones, evenly spread
    over the first epoch: on a CPU the kernels that bf16 needs for each new shape are a part of its
    time. They are worked in the micro-batches that the heaviest one needs. The precisions take
    turns, since other jobs may slow down any of them.
    """
    precisions = devices.candidates
    devices.compute_in(precisions[0])
    micro_batches = fit_to_memory(
        model, dataset, devices, memory.limit_gb, memory.recompute, memory.threshold
    )
    steps = np.linspace(0, dataset.steps_per_epoch, TURNS, endpoint=False).astype(int)
    taken: dict[str, list[float]] = {precision: [] for precision in precisions}
    t_begin = time.perf_counter()
    for turn, step in enumerate([steps[0], *steps]):
        batch = micro_batches.split(own_shard(dataset[step], devices))
        for precision in precisions:
            devices.compute_in(precision)
            seconds, _ = measure_step(model, batch, devices)
            # In their first step libraries prepare what they keep.
            if turn > 0:
                taken[precision].append(seconds)
        is_enough = time.perf_counter() - t_begin > ENOUGH_S and turn >= FEWEST_TURNS
        if devices.broadcast(is_enough):
            break
    return {precision: statistics.median(times) for precision, times in taken.items()}
