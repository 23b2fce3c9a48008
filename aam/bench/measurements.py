"""One measurement, meant for a process of its own (see `aam.bench.subprocess_runner`)."""

import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

from torch import nn

from aam.batches.dataset import BatchDataset
from aam.bench import hardware
from aam.bench.batches import NaiveDataset
from aam.bench.timing import Launches, StepTimes
from aam.distributed.devices import Devices
from aam.model.batch import Batch
from aam.model.flops import step_flops
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.preparation import Prepared, prepare
from aam.tasks.pretrain.settings import PretrainSettings
from aam.train.compilation import is_compiled
from aam.train.memory.meter import peak_mb
from aam.train.options import StepOptions, set_up
from aam.train.step import batches, learning_rate, train_step
from aam.util.errors import problem


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
    kinds = {"device": hardware.device, "roofline": hardware.rates, "steps": _run_steps}
    return kinds[request["kind"]](request)


def _run_steps(request: Mapping[str, Any]) -> dict[str, Any]:
    """Train some steps, as `aam.bench.ablation.steps_request` says, and time them.

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
    settings = PretrainSettings.read(request["settings"])
    training = settings.pretraining
    options = settings.step_options
    devices = Devices(options.precision, request["threads"], deterministic=options.deterministic)
    prepared = prepare(settings, PretrainInputs.read(request["inputs"]))
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
        yield from batches(dataset, 0, workers=workers, pin=pinned)


def _check_compiled(module: nn.Module, options: StepOptions) -> None:
    """Raise InputError where steps that should be compiled are not: their times would mislead."""
    if options.compile != "off" and not is_compiled(module):
        key = "configuration key optimization.compile"
        wanted = "a working compiler"
        raise problem(key, options.compile, wanted, "see the warning above")
