"""The steps of one measurement: when to stop, and what is kept of them."""

import time
from collections.abc import Mapping
from typing import Any

import torch

from aam.model.batch import Batch
from aam.train.compilation import graphs_compiled

QUICK_WARM_UP, WARM_UP = 1, 5
"""Steps before the timed ones, uncompiled on a CPU and elsewhere: kernels are chosen, compiled and
their shapes seen."""
LEAST_STEPS = 2
"""Steps that are timed however slow they are, but for those slower than all the time there is."""


class Steps:
    """What is kept of the steps, read from the device at the end only.

    Parameters
    ----------
    device
        Where the steps are done.
    spec
        `steps` and `seconds`.
    eager
        Whether nothing is compiled.
    """

    def __init__(self, device: torch.device, spec: Mapping[str, Any], *, eager: bool) -> None:
        self.clock = Clock(device)
        quick = eager and device.type == "cpu"
        self.warm_up = QUICK_WARM_UP if quick else WARM_UP
        self.steps, self.seconds = spec["steps"], spec["seconds"]
        self.step = 0
        self.t_start = time.perf_counter()
        self.columns: dict[str, list[Any]] = {
            name: [] for name in ("loading_s", "sizes", "distinct_asvs", "flops")
        }
        self.losses: list[torch.Tensor] = []
        self.graphs = 0

    def goes_on(self) -> bool:
        """Return whether there is another step; marks the instant before the first timed one."""
        elapsed_s, timed = time.perf_counter() - self.t_start, self.step - self.warm_up
        if timed < 0 and self.step > 1 and elapsed_s > self.seconds:
            # Slow steps need no long warm-up.
            self.warm_up, timed = self.step, 0
        if timed == 0:
            self.t_start = time.perf_counter()
            self.clock.mark()
        if timed <= 0:
            return True
        least = 1 if elapsed_s / timed > self.seconds else min(LEAST_STEPS, self.steps)
        return timed < least or (timed < self.steps and elapsed_s < self.seconds)

    def add(self, batch: Batch, loss: torch.Tensor, loading_s: float, flops: int) -> None:
        """Take in a step."""
        self.step += 1
        self.losses.append(loss)
        if self.step == 1:
            # The first step compiles, however long a step takes.
            self.t_start = time.perf_counter()
            self.graphs = graphs_compiled()
        if self.step <= self.warm_up:
            return
        self.clock.mark()
        distinct = sum(len(block.tokens_US) for block in batch.asvs)
        values = (loading_s, batch.size, distinct, flops)
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)

    def result(self) -> dict[str, Any]:
        """Return plain types."""
        return {
            **self.columns,
            "step_s": self.clock.intervals_s(),
            "losses": [float(loss) for loss in self.losses],
            "recompilations": graphs_compiled() - self.graphs,
        }


class Clock:
    """Instants on the device's own clock, so that no step waits for the one before it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.instants: list[Any] = []

    def mark(self) -> None:
        """Note the instant at which what was asked for so far is done."""
        if self.device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.instants.append(event)
            return
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)
        self.instants.append(time.perf_counter())

    def intervals_s(self) -> list[float]:
        """Return the seconds between the instants."""
        pairs = zip(self.instants[:-1], self.instants[1:], strict=True)
        if self.device.type == "cuda":
            self.instants[-1].synchronize()
            return [first.elapsed_time(second) / 1e3 for first, second in pairs]
        return [second - first for first, second in pairs]
