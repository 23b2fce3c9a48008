"""The speed ladder: from the naive step to the optimized one, one change at a time."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from aam.bench.roofline import Rate, merge
from aam.bench.variants import NAIVE, ORDER, Means, Mode, Variant, asks_for_compilation, variants

logger = logging.getLogger(__name__)
COLUMNS = [
    "name",
    "batch_size",
    "step_ms_median",
    "step_ms_iqr",
    "samples_per_s",
    "peak_memory_mb",
    "speedup",
    "loss_after_steps",
    "group",
    "gflop_per_step",
    "gflop_per_s",
    "roofline_share",
    "loading_share",
    "recompilations",
    "loss_step",
    "timed_steps",
    "parameters",
]
OF_TRAINING = ("precision", "optimizer")
OF_OPTIMIZATION = ("attention", "fused_optimizer", "compile", "checkpointing")
"""What a mode sets in the sections `pretraining` and `optimization`."""

Measure = Callable[[Mapping[str, Any]], dict[str, Any] | None]
"""Does a request of `aam.bench.case.run`, in a process of its own; None where it failed."""
K = TypeVar("K")
Choose = Callable[[Mapping[str, Any], Means], list[Variant]]


@dataclass(frozen=True)
class Ablation:
    """What a ladder found.

    Attributes
    ----------
    table
        One row per rung, with `COLUMNS`.
    rates
        Per precision, and for ``copy``, the best that the machine did.
    about
        Words by name: device, driver, versions.
    """

    table: pd.DataFrame
    rates: dict[str, Rate]
    about: dict[str, str]


def run_ablation(
    measure: Measure,
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    *,
    threads: int,
    workers: int,
    choose: Choose = variants,
) -> Ablation:
    """Time every rung and what the machine can do at best, the repeats interleaved.

    So the machine's moods meet all alike.

    Parameters
    ----------
    measure
        Does a request in a process of its own (`aam.bench.subprocess_runner.SubprocessRunner`).
    cfg
        Slice `aam.config.slices.benchmark`.
    inputs
        `tokens`, `samples`, `distances`.
    threads
        Cores granted.
    workers
        Processes that assemble batches for an accelerator.
    choose
        Returns the variants from `cfg` and what the machine has.

    Returns
    -------
    Ablation
        In the table `speedup` is samples per second over those of the naive rung: of the same
        group, or of the group ``order`` where that could not run or is none. `loss_after_steps`
        stands at `loss_step`, the last step that all variants of the group and the batch size
        reached. `gflop_per_step` counts the model's matrix products (`aam.train.flops`),
        `roofline_share` is their rate over the measured rate of matrix products in the same
        precision, and `loading_share` the share of a step spent waiting for its batch. A rung that
        could not run, for want of memory for instance, has no figures.

    Raises
    ------
    RuntimeError
        When not even the device could be used.
    """
    means, about = what_there_is([cfg], measure, threads=threads, workers=workers)
    ladder = choose(cfg, means)
    asked = {
        rung: request(cfg, inputs, rung.mode, rung.batch_size, threads=threads)
        for rung in ladder
        if rung.mode is not None
    }
    precisions = sorted({rung.mode.precision for rung in ladder if rung.mode is not None})
    roofline = _roofline_request(cfg, precisions, threads)
    rates = []

    def at_best() -> None:
        rates.append(_answered(measure(roofline), "roofline"))

    found = interleaved(measure, asked, cfg["repeats"], before=at_best)
    best = merge(rates)
    table = _table({rung: found.get(rung, []) for rung in ladder}, best)
    return Ablation(table, best, about)


def what_there_is(
    cfgs: Iterable[Mapping[str, Any]], measure: Measure, *, threads: int, workers: int
) -> tuple[Means, dict[str, str]]:
    """Return what the machine has, and words by name on what models run on.

    Parameters
    ----------
    cfgs
        Slices of pretraining: where one of them asks for it, the compiler is tried.
    measure, threads, workers
        As for `climb`.

    Raises
    ------
    RuntimeError
        When not even the device could be used.
    """
    compiled = any(map(asks_for_compilation, cfgs))
    asked = {"kind": "device", "threads": threads, "compile": compiled}
    device = _answered(measure(asked), "device")
    return Means(device["accelerator"], device["compiles"], workers), device["about"]


def _answered(result: dict[str, Any] | None, what: str) -> dict[str, Any]:
    if result is None:
        raise RuntimeError(f"the {what} could not be measured, see above")
    return result


def interleaved(
    measure: Measure,
    asked: Mapping[K, Mapping[str, Any]],
    repeats: int,
    before: Callable[[], None] = lambda: None,
) -> dict[K, list[dict[str, Any]]]:
    """Return the results of every request for steps, which are done in turns.

    One that could not run, for want of memory for instance, is not tried again.

    Parameters
    ----------
    measure
        As for `climb`.
    asked
        Requests by what they are called.
    repeats
        Rounds.
    before
        Done before each round.
    """
    results: dict[K, list[dict[str, Any]]] = {name: [] for name in asked}
    failed: set[K] = set()
    for repeat in range(repeats):
        before()
        for name, found in results.items():
            if name in failed:
                continue
            result = measure(asked[name])
            if result is None:
                failed.add(name)
                logger.warning("repeat %d, %s: could not run, see above", repeat + 1, name)
                continue
            found.append(result)
            seconds = np.median(result["step_s"])
            logger.info("repeat %d, %s: %.3g s a step", repeat + 1, name, seconds)
    return results


def request(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    mode: Mode,
    batch_size: int,
    *,
    threads: int,
    **pool: int,
) -> dict[str, Any]:
    """Return the request of `aam.bench.case.run` that times a mode.

    Parameters
    ----------
    cfg
        Slice of pretraining, and `steps` and `seconds` of the benchmark.
    inputs
        `tokens`, `samples`, `distances`.
    mode, batch_size
        What is timed.
    threads
        Cores granted.
    **pool
        Nothing, or `pool` and `richness` of `aam.bench.pool.PooledDataset`.
    """
    plain = asdict(mode)
    naive = {key: plain[key] for key in ("copies", "asvs_per_sample")}
    training, optimization = (
        {key: plain[key] for key in keys} for keys in (OF_TRAINING, OF_OPTIMIZATION)
    )
    return {
        "kind": "steps",
        "cfg": {
            "model": {**cfg["model"], "patch_bp": mode.patch_bp},
            "pretraining": {**cfg["pretraining"], **training, "batch_size": batch_size},
            "optimization": {**cfg["optimization"], **optimization},
        },
        "inputs": {
            name: [str(item) for item in value] if isinstance(value, list) else str(value)
            for name, value in inputs.items()
        },
        "batch": pool or (naive if mode.copies or mode.asvs_per_sample is not None else {}),
        "workers": mode.workers,
        "steps": cfg["steps"],
        "seconds": cfg["seconds"],
        "threads": threads,
    }


def medians(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the medians over the timed steps of all repeats of one request.

    Returns
    -------
    dict
        `step_ms_median`, `step_ms_iqr`, `samples_per_step`, `samples_per_s`, `gflop_per_step`,
        `gflop_per_s`,
        `distinct_asvs` (sequences encoded in a step), `loading_share`, `peak_memory_mb` and
        `recompilations` (the most of a repeat), `timed_steps`, `parameters`.
    """
    step_s, sizes, flops, distinct = (
        np.concatenate([result[name] for result in results])
        for name in ("step_s", "sizes", "flops", "distinct_asvs")
    )
    low, median, high = np.percentile(step_s, [25, 50, 75])
    return {
        "step_ms_median": 1e3 * median,
        "step_ms_iqr": 1e3 * (high - low),
        "samples_per_step": np.median(sizes),
        "samples_per_s": np.median(sizes) / median,
        "gflop_per_step": np.median(flops) / 1e9,
        "gflop_per_s": np.median(flops) / median / 1e9,
        "distinct_asvs": np.median(distinct),
        "loading_share": sum(sum(result["loading_s"]) for result in results) / step_s.sum(),
        "peak_memory_mb": max(result["peak_memory_mb"] for result in results),
        "recompilations": max(result["recompilations"] for result in results),
        "timed_steps": len(step_s),
        "parameters": results[0]["parameters"],
    }


def _roofline_request(
    cfg: Mapping[str, Any], precisions: Sequence[str], threads: int
) -> dict[str, Any]:
    shape = {key: cfg["model"][key] for key in ("width", "ffn_ratio")}
    return {"kind": "roofline", "precisions": precisions, "threads": threads, **shape}


def _table(
    results: Mapping[Variant, list[dict[str, Any]]], best: Mapping[str, Rate]
) -> pd.DataFrame:
    rows = []
    for rung, repeats in results.items():
        row: dict[str, Any] = {"group": rung.group, "name": rung.name}
        row["batch_size"] = rung.batch_size
        if repeats:
            row |= medians(repeats)
            precision = repeats[0]["precision"]
            row["roofline_share"] = 1e9 * row["gflop_per_s"] / best[precision].median
            alike = [
                result
                for other, found in results.items()
                if (other.group, other.batch_size) == (rung.group, rung.batch_size)
                for result in found
            ]
            row["loss_step"] = min(len(result["losses"]) for result in alike)
            row["loss_after_steps"] = repeats[0]["losses"][row["loss_step"] - 1]
        rows.append(row)
    table = pd.DataFrame(rows, columns=COLUMNS)
    table["speedup"] = table["samples_per_s"] / table["group"].map(_naive_rates(table))
    return table


def _naive_rates(table: pd.DataFrame) -> dict[str, float]:
    """Return the samples per second that each group is compared with."""
    naive = table[table["name"] == NAIVE].set_index("group")["samples_per_s"]
    measured = naive.dropna().to_dict()
    return {group: measured.get(group, measured.get(ORDER, np.nan)) for group in table["group"]}
