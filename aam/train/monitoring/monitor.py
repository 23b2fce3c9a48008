"""What a run takes: time, memory, cores and the accelerator, measured while it trains.

On demand torch.profiler says where the time of a step goes, by a table and a trace of a few steps.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import torch
from pynvml import NVMLError
from torch.profiler import ProfilerActivity, profile, schedule

from aam.train.memory.meter import MB, held_mb, peak_mb, recover, total_mb
from aam.util.atomic import atomic_path, write_text

logger = logging.getLogger(__name__)
T = TypeVar("T")
SAMPLE_EVERY_S = 1.0
RELIEF_EVERY_S = 60.0
"""Least seconds between two times that memory is freed, which takes a while."""
MEMORY_SHARE = "memory_share"
GPU = ("gpu_utilisation", "gpu_memory_mb", "gpu_power_w")
_COUNT = "samples of "
_HOST = torch.device("cpu")
WAITING = 2
"""Steps that are not recorded, at the start."""
WARM_UP = 2
"""Steps behind these that are recorded and thrown away."""
ROWS = 30


class Monitor:
    """Measures a training run from outside, by a thread that takes a sample every second.

    What the loop calls at each step only reads the clock. All quantities are summed up from the
    start; an interval is the difference of two readings.

    Parameters
    ----------
    device
        Where the model is trained.
    threshold
        Fraction of the memory above which what can be freed is freed.
    """

    def __init__(self, device: torch.device, *, threshold: float) -> None:
        self._device = device
        self._most_mb = total_mb(device)
        self._threshold = threshold
        self._is_full = threading.Event()
        self._reliefs = 0
        self._relieved_at = -RELIEF_EVERY_S
        self._sampled_peak_mb = 0.0
        self._gpu_peaks: dict[str, float] = {}
        self._sums: dict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="monitor", daemon=True)

    def __enter__(self) -> "Monitor":
        self._start = self._totals()
        self._last = self._start
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._leave.set()
        self._thread.join()

    def time_loading(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield batches, and count the time until each one comes as waiting for data.

        Parameters
        ----------
        batches
            What the loop goes through.

        Yields
        ------
        Any
            The batches.
        """
        waiting = iter(batches)
        while True:
            with self._adding_time("loading_s"):
                batch = next(waiting, None)
            if batch is None:
                return
            yield batch

    def pause(self) -> AbstractContextManager[None]:
        """Leave the time of the block out of the rates: a validation, a checkpoint."""
        return self._adding_time("paused_s")

    def step(self, samples: int) -> None:
        """Note one more step; where memory is nearly full, free what can be freed.

        Parameters
        ----------
        samples
            Samples of the step.
        """
        if self._is_full.is_set():
            self._relieve()
        self._add({"steps": 1, "samples": samples})

    def read_and_reset(self) -> dict[str, float | None]:
        """Return what was measured since the last call.

        Call it where the device has just been waited for: steps on an accelerator end later than
        the call that starts them.

        Returns
        -------
        dict
            Values by name; None: could not be measured. Pauses are left out of `samples_per_s` and
            `step_s`; `loading_share` is the fraction of that time spent waiting for data,
            `memory_share` the fraction of the memory that is taken. `memory_mb` is the memory of
            the process, `gpu_memory_mb` that of all processes, `peak_memory_mb` that of tensors on
            an accelerator. What the driver of an accelerator says has its highest sample since the
            start, too, under its name and `_peak`. MB are 2**20 bytes.
        """
        since = self._last
        self._last = self._totals()
        if since[f"{_COUNT}memory_mb"] == self._last[f"{_COUNT}memory_mb"]:
            self._sample()
            self._last = self._totals()
        return self._summarize(since, self._last)

    def summary(self) -> dict[str, float | None]:
        """Return what `read_and_reset` returns, for the whole block."""
        return self._summarize(self._start, self._totals())

    def _summarize(
        self, since: Mapping[str, float], until: Mapping[str, float]
    ) -> dict[str, float | None]:
        """Return rates and means over the interval of two readings of the sums."""
        spent = defaultdict(float, {name: until[name] - since[name] for name in until})
        busy_s = spent["wall_s"] - spent["paused_s"]
        rates: dict[str, float | None] = dict.fromkeys(("samples_per_s", "step_s", "loading_share"))
        if spent["steps"] and busy_s > 0:
            rates = {
                "samples_per_s": spent["samples"] / busy_s,
                "step_s": busy_s / spent["steps"],
                "loading_share": min(1.0, spent["loading_s"] / busy_s),
            }

        def mean(name: str) -> float | None:
            count = spent[_COUNT + name]
            return spent[name] / count if count else None

        peak = peak_mb(self._device)
        if self._device.type != "cuda":
            # The kernel's own count lags behind by some pages.
            peak = max(peak, self._sampled_peak_mb)
        return {
            **rates,
            "memory_mb": mean("memory_mb"),
            "peak_memory_mb": peak,
            MEMORY_SHARE: mean(MEMORY_SHARE),
            **({"memory_reliefs": self._reliefs} if self._reliefs else {}),
            "cpu_cores": spent["cpu_s"] / spent["wall_s"] if spent["wall_s"] > 0 else None,
            **{name: mean(name) for name in GPU},
            **self._gpu_peaks,
        }

    def _totals(self) -> dict[str, float]:
        with self._lock:
            clocks = {"wall_s": time.perf_counter(), "cpu_s": time.process_time()}
            return defaultdict(float, self._sums | clocks)

    def _add(self, amounts: Mapping[str, float]) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self._sums[name] += amount

    @contextmanager
    def _adding_time(self, name: str) -> Iterator[None]:
        t_start = time.perf_counter()
        try:
            yield
        finally:
            self._add({name: time.perf_counter() - t_start})

    def _watch(self) -> None:
        while not self._leave.wait(SAMPLE_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        """Measure memory and accelerator; a nearly full memory is reported to the loop."""
        gpu_readings = _gpu_readings(self._device)
        for name, value in gpu_readings.items():
            peak = f"{name}_peak"
            self._gpu_peaks[peak] = max(value, self._gpu_peaks.get(peak, value))
        readings = {"memory_mb": held_mb(_HOST), **gpu_readings}
        self._sampled_peak_mb = max(self._sampled_peak_mb, readings["memory_mb"])
        if self._most_mb is not None:
            taken_mb = readings["memory_mb"]
            if self._device.type == "cuda":
                # Other processes cannot use what torch keeps cached.
                taken_mb = torch.cuda.memory_reserved(self._device) / MB
            readings[MEMORY_SHARE] = taken_mb / self._most_mb
            if readings[MEMORY_SHARE] > self._threshold:
                self._is_full.set()
        self._add(readings | {_COUNT + name: 1 for name in readings})

    def _relieve(self) -> None:
        """Free what can be: in the loop's thread, between two steps."""
        self._is_full.clear()
        now = time.perf_counter()
        if now - self._relieved_at < RELIEF_EVERY_S:
            return
        with self.pause():
            recover()
        self._relieved_at = now
        self._reliefs += 1
        if self._reliefs == 1:
            logger.warning(
                f"more than {self._threshold:.0%} of {self._most_mb:.0f} MB of memory are taken: "
                f"what can be freed is, now and at most every {RELIEF_EVERY_S:.0f} s"
            )


def _gpu_readings(device: torch.device) -> dict[str, float]:
    """Return what the driver says about an accelerator, for all processes that use it."""
    if device.type != "cuda":
        return {}

    def read_memory_mb() -> float:
        free, total = torch.cuda.mem_get_info(device)
        return (total - free) / MB

    readings: dict[str, Callable[[], float]] = {
        "gpu_utilisation": lambda: torch.cuda.utilization(device),
        "gpu_memory_mb": read_memory_mb,
        "gpu_power_w": lambda: torch.cuda.power_draw(device) / 1000,
    }
    values = {}
    for name, read in readings.items():
        # The driver does not have every reading: a partition of a GPU has no utilisation.
        with suppress(NVMLError, RuntimeError, ModuleNotFoundError):
            values[name] = float(read())
    return values


@contextmanager
def profile_steps(folder: Path | None, steps: int, first_step: int) -> Iterator[Callable[[], None]]:
    """Record some steps of the loop inside the block.

    Two steps of waiting and two of warm-up come first. What happens between steps, a validation for
    instance, is recorded with them. `summary.txt` gets the operations that take the most time of
    their own on the device in use, `trace.json` a Chrome trace.

    Parameters
    ----------
    folder
        Folder of both files; None: nothing is recorded.
    steps
        Steps to record; 0: nothing is recorded.
    first_step
        Number of steps that were done before.

    Yields
    ------
    Callable
        The loop calls it after each step.
    """
    if folder is None or not steps:
        yield lambda: None
        return
    before = WAITING + WARM_UP

    def write(ended: profile) -> None:
        recorded = min(ended.step_num - before, steps)
        if recorded > 0:
            _write(folder, ended, first_step + before + 1, recorded)

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(
        activities=activities,
        schedule=schedule(wait=WAITING, warmup=WARM_UP, active=steps, repeat=1),
        on_trace_ready=write,
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        yield profiler.step
    if profiler.step_num <= before:
        logger.warning(
            "nothing profiled: the run ended after %d steps, the first %d are not recorded",
            profiler.step_num,
            before,
        )


def _write(folder: Path, ended: profile, first: int, steps: int) -> None:
    """Write table and trace; a folder that cannot be written costs a warning, never the run."""
    has_gpu = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if has_gpu else "CPU"
    by_self_time = f"self_{'cuda' if has_gpu else 'cpu'}_time_total"
    by_name = ended.key_averages()
    by_shape = ended.key_averages(group_by_input_shape=True)
    parts = [
        f"Steps {first} to {first + steps - 1}, {device}, torch {torch.__version__}."
        " Times and memory are sums over these steps. trace.json opens in a browser:"
        " chrome://tracing or https://ui.perfetto.dev",
        "By operation",
        by_name.table(sort_by=by_self_time, row_limit=ROWS),
        "By operation and shapes of its inputs",
        by_shape.table(sort_by=by_self_time, row_limit=ROWS),
    ]
    try:
        write_text(folder / "summary.txt", "\n\n".join(parts) + "\n")
        with atomic_path(folder / "trace.json") as partial:
            ended.export_chrome_trace(str(partial))
    except OSError as error:
        logger.warning("the profile could not be written: %s", error)
        return
    logger.info("%d steps profiled: %s", steps, folder / "summary.txt")
