"""Time and memory of a training step against batch size, depth and distinct ASVs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from aam.bench.ablation import interleaved, probe_hardware, steps_request
from aam.bench.subprocess_runner import Measure
from aam.bench.tables import Cells, measured_table, page, spread
from aam.bench.timing import medians
from aam.bench.variants import Hardware, usual
from aam.data.tokens import TokenStore
from aam.evaluate.labels import quantity
from aam.runtime.run_options import RunOptions

BATCH, DEPTH, ASVS = "batch size", "depth", "distinct ASVs"
UNITS = {BATCH: "samples per step", DEPTH: "layers each", ASVS: "ASVs per step"}
COUNTED = {BATCH: "samples_per_step", ASVS: "distinct_asvs"}
"""Experiments whose `x` is counted while they run."""
COLUMNS = {
    "time_ms_median": "step_ms_median",
    "time_ms_iqr": "step_ms_iqr",
    "samples_per_s": "samples_per_s",
    "peak_memory_mb": "peak_memory_mb",
    "count": "timed_steps",
}
"""Columns of the table, and what they are called where steps are timed."""
FIGURES: Cells = {
    "time, ms (IQR)": lambda row: spread(row["time_ms_median"], row["time_ms_iqr"]),
    "samples/s": lambda row: quantity(row["samples_per_s"]),
    "peak memory, MB": lambda row: f"{row['peak_memory_mb']:.0f}",
    "measurements": lambda row: f"{row['count']:.0f}",
}
RICHNESS = 64
"""ASVs of every made-up sample; fewer where the pool is smaller."""
NOTES = """\
- Training steps are of the configured model and run in processes of their own; depth and distinct
  ASVs are varied at the batch size of the pretraining, the latter with made-up samples."""


@dataclass(frozen=True)
class ScalingPoint:
    """One training step to time, of so many samples, layers, or ASVs that are drawn from."""

    experiment: str
    x: int

    def __str__(self) -> str:
        return f"{self.experiment} {self.x}"


def scale(
    measure: Measure, cfg: Mapping[str, Any], inputs: Mapping[str, Any], runtime: RunOptions
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table of the slice `aam.config.slices.scaling`, and words on where it is from.

    It has one row per experiment and `x`, which counts `unit`; what could not run has no figures.
    """
    hardware, about = probe_hardware(measure, [cfg], runtime)
    requests = step_requests(cfg, inputs, hardware, runtime)
    rows = []
    for point, found in interleaved(measure, requests, cfg["repeats"]).items():
        row = {"experiment": point.experiment, "mode": "training step", "x": point.x}
        row["unit"] = UNITS[point.experiment]
        if found:
            measured = medians(found)
            row |= {column: measured[key] for column, key in COLUMNS.items()}
            row["x"] = measured.get(COUNTED.get(point.experiment, ""), point.x)
        rows.append(row)
    return pd.DataFrame(rows, columns=["experiment", "mode", "x", "unit", *COLUMNS]), about


def step_requests(
    cfg: Mapping[str, Any], inputs: Mapping[str, Any], hardware: Hardware, runtime: RunOptions
) -> dict[ScalingPoint, dict[str, Any]]:
    """Return the training steps to time; those with more ASVs than the table has are left out."""
    mode, batch_size = usual(cfg, hardware), cfg["pretraining"]["batch_size"]
    points, available = cfg["scaling"], len(TokenStore.open(inputs["tokens"]).lengths)

    def request(size: int = batch_size, layers: int | None = None, **pool: int) -> dict[str, Any]:
        depth = {} if layers is None else {"asv_layers": layers, "sample_layers": layers}
        changed = {**cfg, "model": {**cfg["model"], **depth}}
        return steps_request(changed, inputs, mode, size, runtime, **pool)

    return {
        **{ScalingPoint(BATCH, size): request(size) for size in points["batch_sizes"]},
        **{ScalingPoint(DEPTH, layers): request(layers=layers) for layers in points["layers"]},
        **{
            ScalingPoint(ASVS, pool): request(pool=pool, richness=min(RICHNESS, pool))
            for pool in points["asvs"]
            if pool <= available
        },
    }


def scaling_page(table: pd.DataFrame, about: Mapping[str, str]) -> str:
    """Return the Markdown page of a scaling table, one section per experiment."""
    parts = [NOTES]
    for experiment, rows in table.groupby("experiment", sort=False):
        names: Cells = {
            UNITS[str(experiment)]: lambda row: quantity(row["x"]),
            "what": lambda row: str(row["mode"]),
        }
        title = f"## {str(experiment)[0].upper()}{str(experiment)[1:]}"
        parts += [title, measured_table(rows, names, FIGURES)]
    return page("Scaling", *parts, about=about)
