"""Real steps that are measured, and what is said where there is too little memory for one."""

import time
from typing import NamedTuple

import torch
from torch import nn

from aam.distributed.devices import Devices
from aam.model.batch import Batch
from aam.train.memory import meter
from aam.util.errors import InputError, first_line, problem


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
        with torch.random.fork_rng(devices=accelerators), meter.PeakMemory(device) as peak:
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
    meter.recover()
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
    if not meter.is_out_of_memory(error):
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
