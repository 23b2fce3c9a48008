"""How long a checkpoint keeps a training waiting: written at once against in the background."""

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aam.train.checkpoint import Checkpoints

WIDTH = 256
"""Rows and columns of the matrices whose products stand for training."""
TENSOR_VALUES = 32_768
"""Values per tensor of a made-up state."""
WAYS = {"synchronous": False, "background": True}


def made_up_state(megabytes: float, seed: int) -> dict[str, Any]:
    """Return a state of random fp32 weights and two moments of each.

    Parameters
    ----------
    megabytes
        Size of its tensors in units of 1e6 bytes.
    seed
        Of the values.
    """
    generator = torch.Generator().manual_seed(seed)
    count = max(1, round(megabytes * 1e6 / (3 * 4 * TENSOR_VALUES)))
    return {
        name: {
            f"layer{layer}": torch.randn(TENSOR_VALUES, generator=generator)
            for layer in range(count)
        }
        for name in ("model", "first moment", "second moment")
    }


def measure(
    repeats: int, state: dict[str, Any], folder: Path, *, load_s: float = 0.5
) -> dict[str, Any]:
    """Time saves of both ways in turn, with matrix products on the calling thread between them.

    Every repeat times the products alone, then after a synchronous save, then after one in the
    background, whose write goes on beside them. A first save of each way is not counted: it takes
    the memory of the copy and starts the thread.

    Parameters
    ----------
    repeats
        Counted saves of each way.
    state
        What is saved, as `Checkpoints.save` takes it.
    folder
        An empty folder on the disk that is measured; removed at the end.
    load_s
        Seconds that the products between two saves take about; where they are shorter than a
        write, the rest of the write counts as blocked or as delay.

    Returns
    -------
    dict
        `repeats`, `megabytes` (of 1e6 bytes), `threads` and `device` (of the state), `load_s`
        (the products alone) and, for `synchronous` and `background` each, `blocked_s` (in the
        calls) and `delay_s` (blocked, and what the products took longer than alone in the same
        repeat). Each of these is a dictionary of `median` and `iqr` in seconds. `blocked_less`:
        share of the blocked time that the background saves, by medians.
    """
    ways = {
        name: Checkpoints(folder / name, name, background=background)
        for name, background in WAYS.items()
    }
    products = _calibrated(load_s)
    alone_s: list[float] = []
    blocked_s: dict[str, list[float]] = {name: [] for name in WAYS}
    delay_s: dict[str, list[float]] = {name: [] for name in WAYS}
    for step in range(repeats + 1):
        alone_s.append(_train(products))
        for name, checkpoints in ways.items():
            before_s = checkpoints.blocked_s
            checkpoints.save(step, state)
            blocked_s[name].append(checkpoints.blocked_s - before_s)
            delay_s[name].append(blocked_s[name][-1] + _train(products) - alone_s[-1])
    for checkpoints in ways.values():
        checkpoints.wait()
    shutil.rmtree(folder)
    tensors = _tensors(state)
    result = {
        name: {"blocked_s": _spread(blocked_s[name][1:]), "delay_s": _spread(delay_s[name][1:])}
        for name in WAYS
    }
    medians = {name: result[name]["blocked_s"]["median"] for name in WAYS}
    return {
        "repeats": repeats,
        "megabytes": sum(tensor.nbytes for tensor in tensors) / 1e6,
        "threads": torch.get_num_threads(),
        "device": str(tensors[0].device),
        "load_s": _spread(alone_s[1:]),
        **result,
        "blocked_less": 1 - medians["background"] / medians["synchronous"],
    }


def _calibrated(load_s: float) -> int:
    """Return how many products take about `load_s`."""
    _train(1)
    count, taken_s = 1, 0.0
    while taken_s < load_s / 4:
        count *= 2
        taken_s = _train(count)
    return max(1, round(count * load_s / taken_s))


def _train(products: int) -> float:
    """Return the seconds that some matrix products take, one after the other."""
    matrix = torch.full((WIDTH, WIDTH), 1 / WIDTH)
    t0 = time.perf_counter()
    for _ in range(products):
        matrix = matrix @ matrix
    return time.perf_counter() - t0


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    nested = [part for part in parts if isinstance(part, Tensor | dict | list | tuple)]
    return [tensor for part in nested for tensor in _tensors(part)]


def _spread(seconds: list[float]) -> dict[str, float]:
    low, median, high = np.percentile(seconds, [25, 50, 75])
    return {"median": float(median), "iqr": float(high - low)}
