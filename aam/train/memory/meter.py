"""The one meter of memory: what this process holds of the host or an accelerator, and may hold.

Real steps are measured, too, and what is said where there is too little memory for one.
"""

import ctypes
import gc
import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from torch import nn

from aam.distributed.devices import Devices
from aam.model.batch import Batch
from aam.util.errors import InputError, first_line, problem
from aam.util.machine import peak_memory_mb

MB = 2**20
SAMPLED_EVERY_S = 0.005
FREE_FRACTION = 0.9
"""Fraction of a CPU's free memory that a step may take where no limit is given."""
_OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "ALLOC_FAILED")


class PeakMemory:
    """Measures the peak memory while a block runs.

    Parameters
    ----------
    device
        On CUDA the memory of all tensors is measured, elsewhere samples of the resident memory of
        the process.

    Attributes
    ----------
    peak_mb
        The peak in MB of 2**20 bytes, complete when the block is left.
    """

    def __init__(self, device: torch.device) -> None:
        self.peak_mb = 0.0
        self._device = device
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        else:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._device.type == "cuda":
            self.peak_mb = torch.cuda.max_memory_allocated(self._device) / MB
            torch.cuda.reset_peak_memory_stats(self._device)
        else:
            self._stop.set()
            self._thread.join()
            self._sample()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLED_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        self.peak_mb = max(self.peak_mb, held_mb(self._device))


def held_mb(device: torch.device) -> float:
    """Return the memory that is held at the moment.

    Parameters
    ----------
    device
        On CUDA the memory of tensors counts, elsewhere that of the process.

    Returns
    -------
    float
        MB of 2**20 bytes.
    """
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device) / MB
    return psutil.Process().memory_info().rss / MB


def peak_mb(device: torch.device) -> float:
    """Return the most memory that was held so far.

    Parameters
    ----------
    device
        On CUDA the memory of tensors counts, elsewhere that of the process.

    Returns
    -------
    float
        MB of 2**20 bytes.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / MB
    return peak_memory_mb()


def total_mb(device: torch.device) -> float | None:
    """Return all memory that there is.

    Parameters
    ----------
    device
        An accelerator, or the CPU: the machine, or its control group where that is smaller.

    Returns
    -------
    float or None
        MB of 2**20 bytes; None: unknown.
    """
    if device.type == "cuda":
        if not torch.cuda.is_available():
            return None
        _, total = torch.cuda.mem_get_info(device)
        return total / MB
    return min([psutil.virtual_memory().total, *cgroup_limits()]) / MB


def budget_mb(max_memory_gb: float | None, device: torch.device, *, threshold: float) -> float:
    """Return the memory that a step may take, with all that its process holds already.

    Parameters
    ----------
    max_memory_gb
        A limit in GB of 2**30 bytes; None: a fraction of what the process holds and what is free.
    device
        Device of the step.
    threshold
        That fraction on CUDA. On a CPU it is that of `host_budget_mb`.

    Returns
    -------
    float
        MB of 2**20 bytes.
    """
    if max_memory_gb is None and device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What torch keeps cached counts as taken for the driver, but is free to this process.
        return threshold * (free + torch.cuda.memory_reserved(device)) / MB
    return host_budget_mb(max_memory_gb)


def host_budget_mb(max_memory_gb: float | None) -> float:
    """Return the memory of the machine that a process may take, with all that it holds already.

    Parameters
    ----------
    max_memory_gb
        A limit in GB of 2**30 bytes; None: `FREE_FRACTION` of what the process holds and what is
        free, or of the control group's limit, where that is less.

    Returns
    -------
    float
        MB of 2**20 bytes.
    """
    if max_memory_gb is not None:
        return max_memory_gb * 1024
    possible = psutil.Process().memory_info().rss + psutil.virtual_memory().available
    return FREE_FRACTION * min([possible, *cgroup_limits()]) / MB


def cgroup_limits(root: Path = Path("/")) -> list[int]:
    """Return the memory limits of this process's control groups, of version 1 and 2.

    Parameters
    ----------
    root
        Root of the file system.

    Returns
    -------
    list of int
        Limits in bytes.
    """
    groups = root / "proc/self/cgroup"
    if not groups.is_file():
        return []
    limits = []
    for line in groups.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        # A container may show its group at the top and still give the path that the host sees.
        inner = top / path.lstrip("/")
        for folder in [inner, *inner.parents]:
            file = folder / name
            if folder.is_relative_to(top) and file.is_file():
                limits.append(file.read_text(encoding="utf-8").strip())
    return [int(text) for text in limits if text.isdecimal()]


def release() -> None:
    """Give freed memory back to the system, so that the next measurement begins at the bottom."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    # The GNU C library keeps freed pages until it is asked to return them; others have no such
    # function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def recover() -> None:
    """Free what can be freed: what a failed step has left, and what torch keeps cached."""
    gc.collect()
    release()


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error says that an allocation failed, on an accelerator or a CPU.

    Parameters
    ----------
    error
        An error that torch raised.

    Returns
    -------
    bool
        Judged by the class of the error, or by its words.
    """
    says_so = any(words in str(error) for words in _OUT_OF_MEMORY)
    return says_so or isinstance(error, torch.OutOfMemoryError)


class StepMeasurement(NamedTuple):
    """What a forward and a backward pass take."""

    seconds: float
    peak_mb: float
    """Peak memory, with all that the process holds, in MB of 2**20 bytes."""


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
        with torch.random.fork_rng(devices=accelerators), PeakMemory(device) as peak:
            t_start = time.perf_counter()
            devices.backward(model(batch.to(device))["loss"])
            if accelerators:
                torch.cuda.synchronize(device)
            seconds = time.perf_counter() - t_start
        return StepMeasurement(seconds, peak.peak_mb)
    finally:
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for buffer, value in buffers.items():
                buffer.copy_(value)


def try_step(model: nn.Module, batch: Batch, devices: Devices) -> StepMeasurement | None:
    """Measure a step that may run out of memory.

    Parameters
    ----------
    model, batch, devices
        As for `measure_step`.

    Returns
    -------
    StepMeasurement or None
        None: there is too little memory. What can be freed after the attempt is free.

    Raises
    ------
    InputError
        There is too little memory for one of several processes.
    """
    try:
        return measure_step(model, batch, devices)
    except RuntimeError as error:
        shortage_reason(error, devices)
    recover()
    return None


def shortage_reason(error: RuntimeError, devices: Devices) -> str:
    """Return the reason of a lack of memory that smaller micro-batches can mend.

    Parameters
    ----------
    error
        What a step raised.
    devices
        Where it was run.

    Returns
    -------
    str
        First line of the error.

    Raises
    ------
    RuntimeError
        The error itself, where it is about something else.
    InputError
        One of several processes has too little memory: the others wait for it in the same step.
    """
    if not is_out_of_memory(error):
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


def memory_problem(shortage: str, expected: str = "enough") -> InputError:
    """Return the error for a step that no micro-batches make small enough.

    Parameters
    ----------
    shortage
        What there was too little memory for.
    expected
        How much it may take.

    Returns
    -------
    InputError
        Its message says what may help.
    """
    return problem(
        "memory of a training step",
        shortage,
        expected,
        "raise runtime.max_memory_gb where it is set, or grant the run more memory; or lower the "
        "model's width or rarefaction.depth, or choose precision bf16",
    )
