"""Time and memory against batch size, depth, distinct ASVs and the size of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from aam.bench.ablation import Measure, interleaved, medians, request, what_there_is
from aam.bench.variants import Means, configured, optimized
from aam.data.tokens import TokenStore
from benchmarks import checkpointing, inference

COLUMNS = [
    "experiment",
    "mode",
    "x",
    "unit",
    "time_ms_median",
    "time_ms_iqr",
    "samples_per_s",
    "peak_memory_mb",
    "count",
]
BATCH, DEPTH, ASVS = "batch size", "depth", "distinct ASVs"
CHECKPOINT, EMBEDDING, VALIDATION = "checkpoint", "embedding", "validation"
RICHNESS = 64
"""ASVs of every made-up sample; fewer where the pool is smaller."""
CHECKPOINTS, LOAD_S = 5, 0.5
"""Checkpoints that are timed, each way, and seconds of matrix products between them."""
BYTES_PER_PARAMETER = 12
"""Of a checkpoint: the weight and the two moments of AdamW, in fp32."""


@dataclass(frozen=True, eq=False)
class Point:
    """One training step to time.

    Attributes
    ----------
    experiment
        ``batch size``, ``depth`` or ``distinct ASVs``.
    x
        Samples, layers, or ASVs that are drawn from.
    asked
        The request of `aam.bench.case.run`.
    """

    experiment: str
    x: int
    asked: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.experiment} {self.x}"


def scale(
    measure: Measure,
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    *,
    threads: int,
    workers: int,
    folder: Path,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the scaling table, and words by name on what it was measured on.

    Parameters
    ----------
    measure
        Does a request in a process of its own (`aam.bench.subprocess_runner.SubprocessRunner`).
    cfg
        Slice `aam.config.slices.scaling`.
    inputs
        `tokens`, `samples`, `distances`.
    threads, workers
        Cores granted; processes that assemble batches for an accelerator.
    folder
        An empty folder on the disk whose checkpoints are timed; removed at the end.

    Returns
    -------
    table, about
        In the table one row per experiment, mode and `x`, which counts `unit`: training steps
        against batch size, depth and the distinct ASVs of a batch (as counted); how long a
        checkpoint blocks the training, against its size; embedding a study from files; validating.
        `time_ms_median` and `time_ms_iqr` are of one of those, `count` says of how many.
        `samples_per_s` and `peak_memory_mb` stand where they were measured: of the process, or
        the accelerator's; in a validation the anonymous memory of the process.
    """
    means, about = what_there_is([cfg], measure, threads=threads, workers=workers)
    points = step_points(cfg, inputs, means, threads)
    results = interleaved(measure, {point: point.asked for point in points}, cfg["repeats"])
    rows = [_step_row(point, found) for point, found in results.items()]
    usual = [f[0] for point, f in results.items() if f and point.experiment != DEPTH]
    if usual:
        rows += _checkpoint_rows(cfg, usual[0]["parameters"], folder)
    setup = inference.Setup(
        tokens=inputs["tokens"],
        samples=inputs["samples"],
        model=cfg["model"],
        precision=cfg["pretraining"]["precision"],
        threads=threads,
        seed=cfg["pretraining"]["seed"],
    )
    rows += _embedding_rows(cfg, setup) + _validation_rows(cfg, setup)
    return pd.DataFrame(rows, columns=COLUMNS), about


def step_points(
    cfg: Mapping[str, Any], inputs: Mapping[str, Any], means: Means, threads: int
) -> list[Point]:
    """Return the training steps to time; those with more ASVs than the table has are left out."""
    mode = configured(cfg, optimized(means), means)
    usual, scaling = cfg["pretraining"]["batch_size"], cfg["scaling"]

    def asked(size: int, layers: int | None = None, **pool: int) -> dict[str, Any]:
        depth = {} if layers is None else {"asv_layers": layers, "sample_layers": layers}
        model = {**cfg["model"], **depth}
        return request({**cfg, "model": model}, inputs, mode, size, threads=threads, **pool)

    available = len(TokenStore.open(inputs["tokens"]).lengths)
    pools = [pool for pool in scaling["asvs"] if pool <= available]
    return [
        *(Point(BATCH, size, asked(size)) for size in scaling["batch_sizes"]),
        *(Point(DEPTH, layers, asked(usual, layers)) for layers in scaling["layers"]),
        *(
            Point(ASVS, pool, asked(usual, pool=pool, richness=min(RICHNESS, pool)))
            for pool in pools
        ),
    ]


def _step_row(point: Point, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    units = {BATCH: "samples per step", DEPTH: "layers each", ASVS: "ASVs per step"}
    row = {"experiment": point.experiment, "mode": "training step", "x": point.x}
    row["unit"] = units[point.experiment]
    if not found:
        return row
    measured = medians(found)
    if point.experiment == ASVS:
        row["x"] = measured["distinct_asvs"]
    if point.experiment == BATCH:
        row["x"] = measured["samples_per_step"]
    kept = ("step_ms_median", "step_ms_iqr", "samples_per_s", "peak_memory_mb", "timed_steps")
    names = ("time_ms_median", "time_ms_iqr", "samples_per_s", "peak_memory_mb", "count")
    return row | {name: measured[key] for name, key in zip(names, kept, strict=True)}


def _checkpoint_rows(cfg: Mapping[str, Any], parameters: int, folder: Path) -> list[dict[str, Any]]:
    state = checkpointing.made_up_state(
        parameters * BYTES_PER_PARAMETER / 1e6, cfg["pretraining"]["seed"]
    )
    measured = checkpointing.measure(CHECKPOINTS, state, folder, load_s=LOAD_S)
    return [
        {
            "experiment": CHECKPOINT,
            "mode": way,
            "x": measured["megabytes"],
            "unit": "MB",
            "time_ms_median": 1e3 * measured[way]["blocked_s"]["median"],
            "time_ms_iqr": 1e3 * measured[way]["blocked_s"]["iqr"],
            "count": measured["repeats"],
        }
        for way in checkpointing.WAYS
    ]


def _embedding_rows(cfg: Mapping[str, Any], setup: inference.Setup) -> list[dict[str, Any]]:
    measured = inference.embedding_times(setup, cfg["scaling"]["samples"], cfg["repeats"])
    return [
        {
            "experiment": EMBEDDING,
            "mode": f"{row['cache']} cache",
            "x": row["samples"],
            "unit": "samples",
            "time_ms_median": 1e3 * row["wall_s"],
            "time_ms_iqr": 1e3 * row["wall_s_iqr"],
            "samples_per_s": row["samples"] / row["wall_s"],
            "peak_memory_mb": row["peak_memory_mb"],
            "count": row["repeats"],
        }
        for row in measured
    ]


def _validation_rows(cfg: Mapping[str, Any], setup: inference.Setup) -> list[dict[str, Any]]:
    return [
        {
            "experiment": VALIDATION,
            "mode": "in blocks",
            "x": row["held_out"],
            "unit": "held-out samples",
            "time_ms_median": 1e3 * row["wall_s"],
            "samples_per_s": row["held_out"] / row["wall_s"],
            "peak_memory_mb": row["peak_mb"],
            "count": 1,
        }
        for row in inference.validation_memory(setup, cfg["scaling"]["held_out"])
    ]
