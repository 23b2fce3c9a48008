"""Time and memory of a training step against batch size, depth and distinct ASVs.

Run as `python -m benchmarks.scaling config/<file>.yaml ...` where the results of its first dataset
are: it times its first model and prints a table. Later files are laid over earlier ones.
"""

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aam.config import slices
from aam.config.configuration import load
from aam.config.settings.training import SpeedSettings
from aam.data.stores import SampleStore, TokenStore, write_samples
from aam.report.labels import format_quantity
from aam.util.run_options import RunOptions
from aam.util.seeds import generator
from benchmarks.accelerator import inputs_of, laid_together
from benchmarks.speed.ablation import measure_in_turns, medians, probe_hardware, steps_request
from benchmarks.speed.subprocess_runner import Measure, SubprocessRunner
from benchmarks.speed.tables import about_run, markdown_table, page
from benchmarks.speed.variants import Hardware, usual

BATCH = "batch size"
DEPTH = "depth"
ASVS = "distinct ASVs"
UNITS = {BATCH: "samples per step", DEPTH: "layers each", ASVS: "ASVs per step"}
COUNTED = {BATCH: "sizes", ASVS: "distinct_asvs"}
"""Experiments whose `x` is counted in the steps."""
COLUMNS = {
    "time_ms_median": "step_ms_median",
    "time_ms_iqr": "step_ms_iqr",
    "samples_per_s": "samples_per_s",
    "peak_memory_mb": "peak_memory_mb",
    "count": "timed_steps",
}
"""Columns of the table, and what they are called where steps are timed."""
RICHNESS = 64
"""ASVs of every made-up sample; fewer where the pool is smaller."""
NOTES = """\
- Steps are of the configured model and run in processes of their own; depth and distinct ASVs are
  varied at the batch size of the pretraining, the latter with made-up samples."""
Point = tuple[str, int]


def scale(measure: Measure, requests: Mapping[Point, Any], repeats: int) -> pd.DataFrame:
    """Return one row per experiment and `x`, which counts `unit`; NaN where it could not run."""
    rows = []
    for (experiment, x), results in measure_in_turns(measure, requests, repeats).items():
        row = {"experiment": experiment, "mode": "training step", "x": x, "unit": UNITS[experiment]}
        if results:
            measured = medians(results)
            counted = COUNTED.get(experiment)
            row |= {column: measured[key] for column, key in COLUMNS.items()}
            if counted is not None:
                row["x"] = np.median(np.concatenate([result[counted] for result in results]))
        rows.append(row)
    return pd.DataFrame(rows, columns=["experiment", "mode", "x", "unit", *COLUMNS])


def step_requests(
    given: argparse.Namespace,
    settings: SpeedSettings,
    inputs: Mapping[str, Any],
    hardware: Hardware,
    runtime: RunOptions,
    folder: Path,
) -> dict[Point, Any]:
    """Return the steps to time, their made-up samples in `folder`, of ASVs that the table has."""
    training = settings.training
    mode = usual(training, hardware)
    usual_size = training.pretraining.planned_batch_size

    def request(size: int = usual_size, *, samples: Path = inputs["samples"], **model: int) -> Any:
        shape = training.model.model_copy(update=model)
        changed = training.model_copy(update={"model": shape})
        files = {**inputs, "samples": samples}
        return steps_request(changed, files, mode, size, settings.seconds, runtime)

    requests = {(BATCH, size): request(size) for size in given.batch_sizes}
    for layers in given.layers:
        requests[DEPTH, layers] = request(asv_layers=layers, sample_layers=layers)
    store = SampleStore.open(inputs["samples"])
    tokens = TokenStore.open(inputs["tokens"])
    for pool in given.asvs:
        if pool <= len(tokens.lengths):
            write_samples(folder / f"{pool}.arrow", made_up(store, pool), {})
            requests[ASVS, pool] = request(samples=folder / f"{pool}.arrow")
    return requests


def made_up(store: SampleStore, pool: int) -> SampleStore:
    """Return a store of as many rows, `RICHNESS` ASVs in each, drawn from the first `pool`."""
    rng = generator("pool", pool)
    rows = len(store.row_view)
    richness = min(RICHNESS, pool)
    chosen = [np.sort(rng.choice(pool, richness, replace=False)) for _ in range(rows)]
    return replace(
        store,
        offsets=np.arange(rows + 1) * richness,
        asvs=np.concatenate(chosen).astype(np.int32),
        counts=np.ones(rows * richness, np.int32),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what `scale` finds, as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("configuration", type=Path, nargs="+")
    points = {"batch-sizes": [8, 32, 128], "layers": [2, 4, 8], "asvs": [256, 1024, 4096]}
    for name, usual_points in points.items():
        parser.add_argument(f"--{name}", type=int, nargs="*", default=usual_points)
    given = parser.parse_args(arguments)
    config = load(laid_together(given.configuration))
    dataset = next(iter(config.datasets))
    model = next(iter(config.models))
    settings = slices.benchmark(config, dataset, model)
    inputs = inputs_of(config, dataset, model, Path(config.results_dir, dataset))
    runtime = RunOptions(len(os.sched_getaffinity(0)), workers=config.runtime.workers)
    with tempfile.TemporaryDirectory() as name, SubprocessRunner() as measure:
        hardware, device = probe_hardware(measure, [settings.training], runtime)
        requests = step_requests(given, settings, inputs, hardware, runtime, Path(name))
        table = scale(measure, requests, settings.repeats)
    cells = table.map(lambda value: value if isinstance(value, str) else format_quantity(value))
    about = about_run(settings.plain(), inputs, device, runtime.threads)
    shown = markdown_table(list(table.columns), cells.to_numpy().tolist())
    print(page("Scaling", NOTES, shown, about=about))


if __name__ == "__main__":
    main()
