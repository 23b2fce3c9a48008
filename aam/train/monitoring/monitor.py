"""What a run takes: time, memory, cores and the accelerator, measured beside the training."""

import logging
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

import psutil
import torch

from aam.train.monitoring.memory import cgroup_limits, recover

logger = logging.getLogger(__name__)

SAMPLE_EVERY_S = 1.0
"""Seconds between two samples."""
FULL = 0.8
"""Share of the memory above which what can be freed is freed."""
RELIEF_EVERY_S = 60.0
"""Least seconds between two such times: it takes a while."""
GPU = ("gpu_utilisation", "gpu_memory_mb", "gpu_power_w")

MEMORY_SHARE = "memory_share"

T = TypeVar("T")

_UNITS_PER_MB = 2**20 if sys.platform == "darwin" else 2**10


class Monitor:
    """Measure a training from beside it; a context manager around the loop.

    Inside the block a thread takes a sample every second. What the loop calls at each step only
    reads the clock.

    Parameters
    ----------
    device
        Where the model is trained.
    most_mb
        Memory that there is, of the accelerator or for this process; None: it is asked for.
    """

    def __init__(self, device: torch.device, most_mb: float | None = None) -> None:
        self._device = device
        self._most_mb = _most_mb(device) if most_mb is None else most_mb
        self._is_full = threading.Event()
        self._reliefs, self._relieved_at = 0, -RELIEF_EVERY_S
        self._process = psutil.Process()
        self._gpu = _Gpu(device)
        self._gauges = {name: _Gauge() for name in ("memory_mb", MEMORY_SHARE, "cpu_cores", *GPU)}
        self._lock = threading.Lock()
        self._leave = threading.Event()
        self._thread: threading.Thread | None = None
        self._interval, self._run = _Span(), _Span()

    def __enter__(self) -> "Monitor":
        self._interval, self._run = _Span(), _Span()
        self._thread = threading.Thread(target=self._watch, name="monitor", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave.set()
        if self._thread is not None:
            self._thread.join()
        self._sample()
        self._run.end()
        self._gpu.close()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Count the time of the block as waiting for data."""
        t_start = time.perf_counter()
        try:
            yield
        finally:
            waited_s = time.perf_counter() - t_start
            self._interval.loading_s += waited_s
            self._run.loading_s += waited_s

    def timed(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield the batches; the time until each one comes counts as waiting for data."""
        waiting = iter(batches)
        while True:
            with self.loading():
                try:
                    batch = next(waiting)
                except StopIteration:
                    return
            yield batch

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the time of the block out of the pace: a validation, a checkpoint."""
        t_start = time.perf_counter()
        try:
            yield
        finally:
            paused_s = time.perf_counter() - t_start
            self._interval.paused_s += paused_s
            self._run.paused_s += paused_s

    def step(self, samples: int) -> None:
        """Note one more step of so many samples; where memory is nearly full, free what can be."""
        if self._is_full.is_set():
            self._relieve()
        for span in (self._interval, self._run):
            span.steps += 1
            span.samples += samples

    def read_and_reset(self) -> dict[str, float | None]:
        """Return what was measured since the last call; None: could not be measured.

        Call it where the device has just been waited for: steps on an accelerator end later than
        the call that starts them.

        Returns
        -------
        dict
            `samples_per_s` and `step_s` (seconds of a step), pauses left out; `loading_share`, the
            share (0 to 1) of that time spent waiting for data; `memory_mb`, the resident memory of
            the process; `peak_memory_mb`, the highest so far, of tensors on the accelerator or of
            the process on a CPU; `cpu_cores`, the cores that the process kept busy;
            `gpu_utilisation` (percent of the time), `gpu_memory_mb` (of all processes) and
            `gpu_power_w`. MB are 2**20 bytes.
        """
        if not self._gauges["memory_mb"].count:
            self._sample()
        with self._lock:
            means = {name: gauge.mean_and_reset() for name, gauge in self._gauges.items()}
        span, self._interval = self._interval, _Span()
        return {
            **span.pace(),
            "memory_mb": means["memory_mb"],
            "peak_memory_mb": self._peak_memory_mb(),
            MEMORY_SHARE: means[MEMORY_SHARE],
            **({"memory_reliefs": self._reliefs} if self._reliefs else {}),
            "cpu_cores": span.cpu_cores(),
            **{name: means[name] for name in GPU},
        }

    def summary(self) -> dict[str, float | None]:
        """Return the means and peaks of the whole block, in the units of `read_and_reset`.

        Returns
        -------
        dict
            `samples_per_s`, `step_s`, `loading_share`, `peak_memory_mb`, and with the endings
            `_mean` and `_peak`: `memory_mb`, `cpu_cores`, `gpu_utilisation`, `gpu_memory_mb`,
            `gpu_power_w`.
        """
        with self._lock:
            gauges = {name: (gauge.run_mean(), gauge.peak) for name, gauge in self._gauges.items()}
        cores, most = self._run.cpu_cores(), gauges["cpu_cores"][1]
        # A run too short for a sample still has a mean.
        gauges["cpu_cores"] = (cores, cores if most is None else most)
        values = {**self._run.pace(), "peak_memory_mb": self._peak_memory_mb()}
        for name, (mean, peak) in gauges.items():
            values |= {f"{name}_mean": mean, f"{name}_peak": peak}
        return values

    def _watch(self) -> None:
        since_last = _Span()
        while not self._leave.wait(SAMPLE_EVERY_S):
            cores = since_last.cpu_cores()
            since_last = _Span()
            self._sample(cpu_cores=cores)

    def _sample(self, **values: float | None) -> None:
        memory_mb = self._process.memory_info().rss / 2**20
        measured = {
            **values,
            "memory_mb": memory_mb,
            MEMORY_SHARE: self._share(memory_mb),
            **self._gpu.read(),
        }
        with self._lock:
            for name, value in measured.items():
                if value is not None:
                    self._gauges[name].add(value)

    def _share(self, memory_mb: float) -> float | None:
        """Return the share of the memory that is taken; a nearly full one is told to the loop."""
        if self._most_mb is None:
            return None
        if self._device.type == "cuda":
            memory_mb = torch.cuda.memory_reserved(self._device) / 2**20
        share = memory_mb / self._most_mb
        if share > FULL:
            self._is_full.set()
        return share

    def _relieve(self) -> None:
        """Free what can be: in the loop's thread, between two steps."""
        self._is_full.clear()
        now = time.perf_counter()
        if now - self._relieved_at < RELIEF_EVERY_S:
            return
        with self.pause():
            recover()
        self._relieved_at, self._reliefs = now, self._reliefs + 1
        if self._reliefs == 1:
            logger.warning(
                "more than %.0f %% of %.0f MB of memory are taken: what can be freed is, now and "
                "at most every %.0f s; the history has `%s`",
                100 * FULL,
                self._most_mb,
                RELIEF_EVERY_S,
                MEMORY_SHARE,
            )

    def _peak_memory_mb(self) -> float:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device) / 2**20
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _UNITS_PER_MB
        # The kernel's own count lags behind by some pages.
        return max(peak_mb, self._gauges["memory_mb"].peak or 0.0)


@dataclass
class _Span:
    """Counts of a stretch of time."""

    steps: int = 0
    samples: int = 0
    loading_s: float = 0.0
    paused_s: float = 0.0
    start: tuple[float, float] = field(default_factory=lambda: _clocks())
    ended: tuple[float, float] | None = None

    def end(self) -> None:
        self.ended = _clocks()

    def pace(self) -> dict[str, float | None]:
        busy_s = self._passed_s()[0] - self.paused_s
        if not self.steps or busy_s <= 0:
            return dict.fromkeys(("samples_per_s", "step_s", "loading_share"))
        return {
            "samples_per_s": self.samples / busy_s,
            "step_s": busy_s / self.steps,
            "loading_share": min(1.0, self.loading_s / busy_s),
        }

    def cpu_cores(self) -> float | None:
        wall_s, cpu_s = self._passed_s()
        return cpu_s / wall_s if wall_s > 0 else None

    def _passed_s(self) -> tuple[float, float]:
        wall, cpu = self.ended or _clocks()
        return wall - self.start[0], cpu - self.start[1]


def _most_mb(device: torch.device) -> float | None:
    """Return the memory that there is: of an accelerator, or of the machine or control group."""
    if device.type != "cuda":
        return min([psutil.virtual_memory().total, *cgroup_limits()]) / 2**20
    return torch.cuda.mem_get_info(device)[1] / 2**20 if torch.cuda.is_available() else None


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


@dataclass
class _Gauge:
    """Samples of one quantity: of the interval, and of the run."""

    total: float = 0.0
    count: int = 0
    run_total: float = 0.0
    run_count: int = 0
    peak: float | None = None

    def add(self, value: float) -> None:
        self.total, self.count = self.total + value, self.count + 1
        self.run_total, self.run_count = self.run_total + value, self.run_count + 1
        self.peak = value if self.peak is None else max(self.peak, value)

    def mean_and_reset(self) -> float | None:
        mean = self.total / self.count if self.count else None
        self.total, self.count = 0.0, 0
        return mean

    def run_mean(self) -> float | None:
        return self.run_total / self.run_count if self.run_count else None


class _Gpu:
    """What the driver says about one accelerator; nothing where there is no driver to ask."""

    def __init__(self, device: torch.device) -> None:
        self._nvml: Any = None
        if device.type == "cuda":
            self._find(device)

    def read(self) -> dict[str, float]:
        """Return the readings that the device supports."""
        if self._nvml is None:
            return {}
        nvml, handle = self._nvml, self._handle
        readings: tuple[tuple[str, Callable[[], float]], ...] = (
            ("gpu_utilisation", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            ("gpu_memory_mb", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / 2**20),
            ("gpu_power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        )
        values = {}
        for name, reading in readings:
            # A part of a GPU, for instance, has no utilisation of its own.
            with suppress(nvml.NVMLError):
                values[name] = float(reading())
        return values

    def close(self) -> None:
        """Let go of the driver."""
        if self._nvml is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            self._nvml = None

    def _find(self, device: torch.device) -> None:
        try:
            import pynvml
        except ImportError as error:
            logger.debug("no readings of the accelerator: %s", error)
            return
        try:
            pynvml.nvmlInit()
            self._handle = _handle(pynvml, device)
        except pynvml.NVMLError as error:
            logger.debug("no readings of the accelerator: %s", error)
            return
        self._nvml = pynvml


def _handle(nvml: Any, device: torch.device) -> Any:
    """Return the driver's handle; by UUID, for the driver numbers more than torch sees."""
    uuid = torch.cuda.get_device_properties(device).uuid
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
