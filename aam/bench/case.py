"""One measurement, meant for a process of its own (see `aam.bench.subprocess_runner`)."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aam.bench import roofline
from aam.bench.naive import NaiveDataset
from aam.bench.pool import PooledDataset
from aam.bench.timing import Steps
from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.model.batch import Batch
from aam.tasks.pretrain.preparation import prepare
from aam.train.compilation import compile_blocks
from aam.train.data.dataset import BatchDataset
from aam.train.distributed.devices import Devices
from aam.train.flops import step_flops
from aam.train.optimizer import make_optimizer
from aam.train.options import StepOptions, step_options
from aam.train.schedule import warmup_cosine
from aam.train.step import batches, train_step
from aam.util.errors import problem


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Do what the key `kind` of a request says: `device`, `roofline` or `steps`."""
    kinds = {"device": run_device, "roofline": run_roofline, "steps": run_steps}
    return kinds[spec["kind"]](spec)


def run_device(spec: dict[str, Any]) -> dict[str, Any]:
    """Say what models run on.

    Parameters
    ----------
    spec
        `threads`, and `compile`: whether to try the compiler for a CPU too.

    Returns
    -------
    dict
        `accelerator` and `compiles`, true or false, and `about`: device, driver and versions.
    """
    devices = Devices("fp32", spec["threads"])
    on_accelerator = devices.device.type != "cpu"
    try_it = spec["compile"] or on_accelerator
    compiles = try_it and compile_blocks(nn.Module(), "default", devices.device)
    about = {"device": devices.name, "torch": torch.__version__}
    if devices.device.type == "cuda":
        about |= {"cuda": str(torch.version.cuda), "driver": _driver()}
    return {"accelerator": on_accelerator, "compiles": compiles, "about": about}


def run_roofline(spec: dict[str, Any]) -> dict[str, Any]:
    """Measure what the machine does at best.

    Parameters
    ----------
    spec
        `precisions`, `width`, `ffn_ratio`, `threads`.

    Returns
    -------
    dict
        What `aam.bench.roofline.measure` returns.
    """
    devices = Devices("fp32", spec["threads"])
    width, ffn_ratio = spec["width"], spec["ffn_ratio"]
    return roofline.measure(spec["precisions"], devices.device, width=width, ffn_ratio=ffn_ratio)


def run_steps(spec: dict[str, Any]) -> dict[str, Any]:
    """Train some steps and time them.

    Parameters
    ----------
    spec
        `cfg` (slice of pretraining); `inputs`; `batch`, what its batches are (see `_dataset`);
        `workers`, processes that assemble them (0: this one does, between the steps); `steps` and
        `seconds`, after which no further step is begun once two are timed, or one where a step
        takes longer than that; `threads`.

    Returns
    -------
    dict
        Of the timed steps `step_s`, `loading_s` (of it, waiting for the batch), `sizes` (samples),
        `distinct_asvs` (sequences encoded) and `flops`; `losses` of all steps; `recompilations`
        after the first step; `peak_memory_mb`, `parameters`, `precision`.
    """
    cfg, settings = spec["cfg"], Pretraining.model_validate(spec["cfg"]["pretraining"])
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    devices = Devices(settings.precision, spec["threads"], deterministic=options.deterministic)
    prepared = prepare(cfg, _paths(spec["inputs"]))
    model, dataset = prepared.model, _dataset(prepared.dataset, spec["batch"])
    if spec["batch"].get("copies", False):
        model.encoder.recompute("pieces")
    elif options.checkpointing:
        model.encoder.recompute("layers")
    _compile(model, options, devices)
    optimizer = make_optimizer(
        model,
        settings.optimizer,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=options.fused_optimizer,
    )
    wrapped, optimizer = devices.setup(model, optimizer)
    wrapped.train()
    steps = Steps(devices.device, spec, eager=options.compile == "off")
    coming = _batches(dataset, devices, spec["workers"])
    while steps.goes_on():
        t0 = time.perf_counter()
        batch = next(coming).to(devices.device)
        loading_s = time.perf_counter() - t0
        rate = settings.learning_rate * warmup_cosine(steps.step, len(dataset), settings.warmup)
        values, _ = train_step(wrapped, optimizer, batch, rate, settings, steps.step, devices)
        steps.add(batch, values["loss"], loading_s, step_flops(model.encoder.shape, batch))
    return {
        **steps.result(),
        "peak_memory_mb": devices.peak_memory_mb(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "precision": devices.precision,
    }


def _dataset(dataset: BatchDataset, batch: Mapping[str, Any]) -> BatchDataset:
    """Return the dataset with the batches asked for.

    Empty: the optimized ones; `copies` and `asvs_per_sample`: those of `NaiveDataset`; `pool` and
    `richness`: those of `PooledDataset`.
    """
    if not batch:
        return dataset
    plain = {field.name: getattr(dataset, field.name) for field in fields(dataset)}
    return PooledDataset(**plain, **batch) if "pool" in batch else NaiveDataset(**plain, **batch)


def _batches(dataset: BatchDataset, devices: Devices, workers: int) -> Iterator[Batch]:
    """Yield the batches of the run, over and over."""
    while True:
        if workers and devices.device.type != "cpu":
            yield from batches(dataset, 0, workers=workers, pin=True)
        else:
            yield from (dataset[step] for step in range(len(dataset)))


def _compile(model: nn.Module, options: StepOptions, devices: Devices) -> None:
    compiled = compile_blocks(model, options.compile, devices.device)
    if options.compile != "off" and not compiled:
        raise problem(
            "configuration key optimization.compile",
            options.compile,
            "a working compiler",
            "see the warning above",
        )


def _driver() -> str:
    try:
        import pynvml
    except ImportError:
        return "unknown, for want of the package nvidia-ml-py"
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return f"unknown: {error}"


def _paths(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [Path(item) for item in value] if isinstance(value, list) else Path(value)
        for name, value in inputs.items()
    }
