"""How long a checkpoint keeps a training waiting: written at once against in the background.

Run as `python -m benchmarks.checkpointing FOLDER`; the folder is on the disk that is measured.
"""

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from aam.bench.tables import machine, markdown_table, page, spread
from aam.bench.timing import median_iqr
from aam.train.checkpoint import Checkpoints

WIDTH = 256
"""Rows and columns of the matrices whose products stand for training."""
TENSOR_VALUES = 32_768
"""Values per tensor of a made-up state."""
WAYS = {"synchronous": False, "background": True}
State = dict[str, dict[str, torch.Tensor]]


def made_up_state(megabytes: float, seed: int) -> State:
    """Return a state of random fp32 weights and two moments of each, of some size in 1e6 bytes."""
    rng = torch.Generator().manual_seed(seed)
    count = max(1, round(megabytes * 1e6 / (3 * 4 * TENSOR_VALUES)))
    return {
        name: {f"layer{i}": torch.randn(TENSOR_VALUES, generator=rng) for i in range(count)}
        for name in ("model", "first moment", "second moment")
    }


def measure(repeats: int, state: State, folder: Path, *, load_s: float = 0.5) -> dict[str, Any]:
    """Time saves of both ways in turn, with matrix products on the calling thread between them.

    Every repeat times the products alone, then after a synchronous save, then after one in the
    background, whose write goes on beside them. A first save of each way is not counted: it takes
    the memory of the copy and starts the thread. `folder`, on the disk that is measured, is removed
    at the end. The products take about `load_s`; where that is shorter than a write, the rest of
    the write counts as blocked or as delay.

    Returned are `repeats`, `megabytes` (of 1e6 bytes), for each of `WAYS` the `median` and `iqr` of
    `blocked_s` (in the calls) and of `delay_s` (that, and what the products took longer than alone
    in the same repeat), and `blocked_less`, the fraction of the blocked time that the background
    saves.
    """
    ways = {
        name: Checkpoints(folder / name, name, background=background)
        for name, background in WAYS.items()
    }
    products = _calibrated(load_s)
    alone_s: list[float] = []
    seconds: dict[str, dict[str, list[float]]] = {
        name: {"blocked_s": [], "delay_s": []} for name in WAYS
    }
    for step in range(repeats + 1):
        alone_s.append(_train(products))
        for name, checkpoints in ways.items():
            t0 = time.perf_counter()
            checkpoints.save(step, state)
            blocked_s = time.perf_counter() - t0
            seconds[name]["blocked_s"].append(blocked_s)
            seconds[name]["delay_s"].append(blocked_s + _train(products) - alone_s[-1])
    for checkpoints in ways.values():
        checkpoints.wait()
    shutil.rmtree(folder)
    result = {
        name: {key: _without_first(values) for key, values in of_way.items()}
        for name, of_way in seconds.items()
    }
    blocked = {name: result[name]["blocked_s"]["median"] for name in WAYS}
    return {
        "repeats": repeats,
        "megabytes": sum(t.nbytes for part in state.values() for t in part.values()) / 1e6,
        **result,
        "blocked_less": 1 - blocked["background"] / blocked["synchronous"],
    }


def _without_first(seconds: list[float]) -> dict[str, float]:
    return dict(zip(("median", "iqr"), median_iqr(seconds[1:]), strict=True))


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what `measure` finds, as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpointing", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=float, default=29.0, help="as 2.4 M parameters take")
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args(arguments)
    state = made_up_state(given.megabytes, seed=0)
    found = measure(given.repeats, state, given.folder / ".checkpoints")
    rows = [
        [way, *(spread(1e3 * s["median"], 1e3 * s["iqr"]) for s in found[way].values())]
        for way in WAYS
    ]
    table = markdown_table(["written", "blocked, ms (IQR)", "delay, ms (IQR)"], rows)
    about = {
        **machine(),
        "checkpoint": f"{found['megabytes']:.1f} MB",
        "repeats": str(given.repeats),
        "threads": str(torch.get_num_threads()),
    }
    less = f"In the background training is blocked {100 * found['blocked_less']:.1f} % less."
    print(page("Checkpoints", table, less, about=about))


if __name__ == "__main__":
    main()
