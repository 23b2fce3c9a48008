"""One rung of the speed ladder, in a process of its own so that its peak memory is its own.

Run as `python -m aam.bench.case <specification.json> <result.json>`.
"""

import copy
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import nn

from aam.bench.naive import NaiveEncoder, NaiveFeed
from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.train.devices import Devices
from aam.train.feed import Feed
from aam.train.loop import train_step
from aam.train.optimizer import adamw
from aam.train.options import step_options
from aam.train.preparation import Prepared, prepare
from aam.train.schedule import warmup_cosine
from aam.util.atomic import read_json, write_json

WARM_UP_STEPS = 1


def run_case(spec: dict[str, Any]) -> dict[str, Any]:
    """Train some steps and time them.

    Parameters
    ----------
    spec
        `cfg` (slice of pretraining), `inputs`, `naive_asvs` (null: the optimized batch),
        `steps`, `seconds` (no further step is begun after them) and `threads`.

    Returns
    -------
    dict
        `step_s` and `sizes` (samples) of the timed steps, `losses` of all steps,
        `peak_memory_mb`, `parameters`, `device`.
    """
    cfg, settings = spec["cfg"], Pretraining.model_validate(spec["cfg"]["pretraining"])
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    devices = Devices(settings.precision, spec["threads"])
    prepared = prepare(cfg, _paths(spec["inputs"]))
    model, feed = _as_specified(prepared, spec["naive_asvs"])
    optimizer = adamw(
        model,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=options.fused_optimizer,
    )
    wrapped, optimizer = devices.setup(model, optimizer)
    wrapped.train()
    durations, losses, sizes = [], [], []
    t_start = time.perf_counter()
    for step in range(WARM_UP_STEPS + spec["steps"]):
        t0 = time.perf_counter()
        if step > WARM_UP_STEPS and t0 - t_start > spec["seconds"]:
            break
        rate = settings.learning_rate * warmup_cosine(step, len(feed), settings.warmup)
        batch = feed[step].to(devices.device)
        values, _ = train_step(wrapped, optimizer, batch, rate, settings, step, devices)
        losses.append(float(values["loss"]))
        sizes.append(batch.size)
        durations.append(time.perf_counter() - t0)
    return {
        "step_s": durations[WARM_UP_STEPS:],
        "sizes": sizes[WARM_UP_STEPS:],
        "losses": losses,
        "peak_memory_mb": devices.peak_memory_mb(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "device": devices.name,
    }


def _as_specified(prepared: Prepared, naive_asvs: int | None) -> tuple[nn.Module, Feed]:
    if naive_asvs is None:
        return prepared.model, prepared.feed
    plain = {field.name: getattr(prepared.feed, field.name) for field in fields(prepared.feed)}
    encoder = NaiveEncoder(prepared.model.encoder.shape, prepared.model.encoder.backend)
    encoder.load_state_dict(copy.deepcopy(prepared.model.encoder.state_dict()))
    prepared.model.encoder = encoder
    return prepared.model, NaiveFeed(**plain, asvs_per_sample=naive_asvs)


def _paths(inputs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [Path(item) for item in value] if isinstance(value, list) else Path(value)
        for name, value in inputs.items()
    }


if __name__ == "__main__":
    write_json(Path(sys.argv[2]), run_case(read_json(Path(sys.argv[1]))))
