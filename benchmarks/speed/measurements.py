"""One measurement, of steps or of the machine, in a process of its own (`subprocess_runner`)."""

import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

import pynvml
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from aam.batches.dataset import BatchDataset
from aam.config.settings.training import PretrainSettings
from aam.distributed.devices import Devices, has_fast_bf16
from aam.model.batch import Batch
from aam.model.flops import step_flops
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.preparation import Prepared, prepare
from aam.train.compilation import compile_blocks, graphs_compiled, is_compiled
from aam.train.memory.meter import peak_mb
from aam.train.monitoring import roofline
from aam.train.options import StepOptions, set_up, step_options
from aam.train.step import learning_rate, load_batches, train_step
from aam.util.errors import problem
from benchmarks.speed.batches import NaiveDataset

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


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do one measurement.

    Parameters
    ----------
    request
        `kind`, which is `device`, `roofline` or `steps`, and what this kind needs.

    Returns
    -------
    dict
        The result in plain types.

    Raises
    ------
    InputError
        Steps should be compiled, and there is no compiler, or it fails.
    """
    kinds = {"device": _describe_device, "roofline": _measure_rates, "steps": _run_steps}
    return kinds[request["kind"]](request)


def _run_steps(request: Mapping[str, Any]) -> dict[str, Any]:
    """Train some steps, as `benchmarks.speed.ablation.steps_request` says, and time them.

    Returns
    -------
    dict
        `StepTimes.result` with `launches` of the first step (None: compiled), `peak_memory_mb`,
        `parameters` and `precision`.

    Raises
    ------
    InputError
        Compilation is asked for, and there is no compiler, or it fails.
    """
    settings = PretrainSettings.model_validate(request["settings"])
    training = settings.pretraining
    options = step_options(settings.optimization)
    devices = Devices(options.precision, request["threads"], deterministic=options.deterministic)
    prepared = prepare(settings, PretrainInputs.model_validate(request["inputs"]))
    model = prepared.model
    dataset = _dataset(prepared, request["batch"], devices)
    if request["recompute"]:
        model.encoder.recompute("micro-batches")
    elif options.checkpointing:
        model.encoder.recompute("layers")
    cache = request["compile_cache"]
    wrapped, optimizer = set_up(
        model, training, options, devices, compile_cache=None if cache is None else Path(cache)
    )
    _check_compiled(wrapped.module, options)
    wrapped.train()
    launches = Launches()
    is_eager = options.compile == "off"
    times = StepTimes(devices.device, request["seconds"], eager=is_eager)
    coming = _endless(dataset, workers=request["workers"], pinned=request["pinned"])
    while times.go_on():
        t0 = time.perf_counter()
        batch = next(coming).to(devices.device)
        loading_s = time.perf_counter() - t0
        step = times.step
        with launches if step == 0 and is_eager else nullcontext():
            values, _ = train_step(
                wrapped,
                optimizer,
                batch,
                step=step,
                rate=learning_rate(training, step, len(dataset)),
                seed=training.seed,
                options=options,
                devices=devices,
            )
        times.add(batch, values["loss"], loading_s, step_flops(model.encoder.shape, batch))
    _check_compiled(wrapped.module, options)
    return {
        **times.result(),
        "launches": launches.number or None,
        "peak_memory_mb": peak_mb(devices.device),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "precision": devices.precision,
    }


def _dataset(prepared: Prepared, lacking: Mapping[str, Any], devices: Devices) -> BatchDataset:
    """Return the batches of a pretraining without some of the savings."""
    dataset = prepared.dataset
    arguments = {field.name: getattr(dataset, field.name) for field in fields(dataset)}
    return NaiveDataset(**arguments, **lacking).for_device(devices.device)


def _endless(dataset: BatchDataset, *, workers: int, pinned: bool) -> Iterator[Batch]:
    """Yield the batches of the whole run again and again."""
    for _ in count():
        yield from load_batches(dataset, 0, workers=workers, pin=pinned)


def _check_compiled(module: nn.Module, options: StepOptions) -> None:
    """Raise InputError where steps that should be compiled are not: their times would mislead."""
    if options.compile != "off" and not is_compiled(module):
        key = "configuration key optimization.compile"
        wanted = "a working compiler"
        raise problem(key, options.compile, wanted, "see the warning above")


def _describe_device(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a machine has.

    Parameters
    ----------
    request
        `threads`, and `compile`: whether the compiler is tried on a CPU.

    Returns
    -------
    dict
        `accelerator` (whether there is one that models run on), `compiles`, `bf16` (whether it is
        fast), `devices` (number of CUDA devices), and `about`: words on the device by name.
    """
    devices = Devices("fp32", request["threads"])
    has_accelerator = devices.device.type != "cpu"
    is_tried = request["compile"] or has_accelerator
    compiles = is_tried and compile_blocks(nn.Module(), "default", devices.device)
    about = {"device": devices.name, "torch": torch.__version__}
    if devices.device.type == "cuda":
        about |= {"cuda": str(torch.version.cuda), "driver": _driver()}
    has_bf16 = has_accelerator or has_fast_bf16()
    return {
        "accelerator": has_accelerator,
        "compiles": compiles,
        "bf16": has_bf16,
        "devices": torch.cuda.device_count(),
        "about": about,
    }


def _measure_rates(request: Mapping[str, Any]) -> dict[str, roofline.Rates]:
    """Return the rates of products and copies, by precision.

    Parameters
    ----------
    request
        `threads`, `precisions`, and `width` and `ffn_ratio` of the model.

    Returns
    -------
    dict
        What `aam.train.monitoring.roofline.measure` returns.
    """
    return roofline.measure(
        request["precisions"],
        Devices("fp32", request["threads"]).device,
        width=request["width"],
        ffn_ratio=request["ffn_ratio"],
    )


def _driver() -> str:
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return f"unknown: {error}"


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
