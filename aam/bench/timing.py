"""The steps of one measurement: when to stop, what is kept of them, and their medians."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from aam.model.batch import Batch
from aam.train.compilation import graphs_compiled

QUICK_WARM_UP = 1
"""Steps before the timed ones on a CPU where nothing is compiled."""
WARM_UP = 5
"""Steps before the timed ones elsewhere, in which kernels are made."""
LEAST_STEPS = 2
"""Fewest timed steps, unless a single one takes longer than the time given."""
MOST_STEPS = 10
"""Most timed steps."""
NO_LAUNCH = {
    "_unsafe_view",
    "detach",
    "empty",
    "empty_like",
    "lift_fresh",
    "new_empty_strided",
}
"""Operators that touch no memory, in addition to those that PyTorch calls views."""


class Launches(TorchDispatchMode):
    """Counts the operators inside the block that would start a kernel on an accelerator.

    An operator on a list of tensors is one; what is compiled cannot be counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator."""
        space, _, name = func._schema.name.partition("::")
        self.number += space == "aten" and not func.is_view and name not in NO_LAUNCH
        return func(*args, **(kwargs or {}))


class StepTimes:
    """What is kept of the steps, read from the device at the end only.

    Parameters
    ----------
    device
        Where the model is trained.
    seconds
        Time after which no further step is begun, once `LEAST_STEPS` are timed; where a step takes
        longer than that, one is enough.
    eager
        Whether nothing is compiled.
    """

    def __init__(self, device: torch.device, seconds: float, *, eager: bool) -> None:
        self.clock = DeviceClock(device)
        self.warm_up = QUICK_WARM_UP if eager and device.type == "cpu" else WARM_UP
        """Steps that are not timed."""
        self.seconds = seconds
        self.step = 0
        """Number of steps done."""
        self.graphs = 0
        """Graphs that were compiled by the end of the first step."""
        self.t_start = time.perf_counter()
        """Instant that the time is counted from."""
        self.timed: list[dict[str, Any]] = []
        """What is kept of each timed step."""
        self.losses: list[torch.Tensor] = []
        """Losses of all steps, on the device."""

    def go_on(self) -> bool:
        """Return whether there is another step; marks the instant before the first timed one."""
        elapsed_s = time.perf_counter() - self.t_start
        timed = self.step - self.warm_up
        if timed < 0 and self.step > 1 and elapsed_s > self.seconds:
            # The warm-up ends early where steps are slow.
            self.warm_up = self.step
            timed = 0
        if timed == 0:
            self.t_start = time.perf_counter()
            self.clock.mark()
        if timed <= 0:
            return True
        least = 1 if elapsed_s / timed > self.seconds else LEAST_STEPS
        return timed < least or (timed < MOST_STEPS and elapsed_s < self.seconds)

    def add(self, batch: Batch, loss: torch.Tensor, loading_s: float, flops: int) -> None:
        """Take in a step.

        Parameters
        ----------
        batch
            The batch of the step.
        loss
            Its loss, which stays on the device.
        loading_s
            Seconds that the batch was waited for.
        flops
            Floating-point operations of the model's products in this step.
        """
        self.step += 1
        self.losses.append(loss)
        if self.step == 1:
            # The first step compiles, however long a step takes.
            self.t_start = time.perf_counter()
            self.graphs = graphs_compiled()
        if self.step > self.warm_up:
            self.clock.mark()
            distinct = sum(len(block.tokens_US) for block in batch.asvs)
            values = {"loading_s": loading_s, "sizes": batch.size, "distinct_asvs": distinct}
            self.timed.append({**values, "flops": flops})

    def result(self) -> dict[str, Any]:
        """Return plain types, by names: `losses` of all steps, the rest of the timed ones."""
        return {
            **{name: [step[name] for step in self.timed] for name in self.timed[0]},
            "step_s": self.clock.intervals_s(),
            "losses": [float(loss) for loss in self.losses],
            "recompilations": graphs_compiled() - self.graphs,
        }


class DeviceClock:
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


def median_iqr(values: Iterable[float]) -> tuple[float, float]:
    """Return the median and the interquartile range.

    Parameters
    ----------
    values
        At least one number.

    Returns
    -------
    median, iqr : float
        In the unit of the numbers.
    """
    low, median, high = np.percentile(list(values), [25, 50, 75])
    return float(median), float(high - low)


def medians(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return medians of the timed steps of all repeats, and the most memory and recompilations.

    Parameters
    ----------
    results
        What `aam.bench.measurements.run` returned for each repeat of a request for steps.

    Returns
    -------
    dict
        The columns of the speed table that follow from the repeats of a mode alone.
    """
    step_s = np.concatenate([result["step_s"] for result in results])
    sizes = np.concatenate([result["sizes"] for result in results])
    flops = np.concatenate([result["flops"] for result in results])
    median, iqr = median_iqr(step_s)
    return {
        "step_ms_median": 1e3 * median,
        "step_ms_iqr": 1e3 * iqr,
        "samples_per_s": np.median(sizes) / median,
        "gflop_per_step": np.median(flops) / 1e9,
        "gflop_per_s": np.median(flops) / median / 1e9,
        "loading_share": sum(sum(result["loading_s"]) for result in results) / step_s.sum(),
        "peak_memory_mb": max(result["peak_memory_mb"] for result in results),
        "recompilations": max(result["recompilations"] for result in results),
        "launches_per_step": results[0]["launches"],
        "timed_steps": len(step_s),
        "parameters": results[0]["parameters"],
    }
