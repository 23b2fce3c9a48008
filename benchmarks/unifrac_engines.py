"""The engines of UniFrac in turns: time of the whole stage, and how far their distances differ.

Run as `python -m benchmarks.unifrac_engines results/oral`, after the target `data`. Every turn is a
process of its own that reads the table and the tree, and writes the Parquet file; the recomputed
pairs are left out, which cost every engine the same.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from aam.config.metrics import METRICS
from aam.data.table import read_biom, write_biom
from aam.distances.engines import Setting
from aam.distances.store import read_distances, read_faith_pd
from aam.stages.unifrac import compute_distances

ENGINES: tuple[Setting, ...] = ("unifrac", "ssu", "products", "scikit-bio")


@dataclass(frozen=True)
class Turn:
    """What one run of the stage took, in seconds."""

    wall_s: float
    processor_s: float
    """User and system time of all its processes."""


def take_turn(
    engine: str, metric: str, inputs: dict[str, Path], output: Path, threads: int
) -> Turn:
    """Run the stage in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(
        target=run_stage, args=(engine, metric, inputs, output, threads)
    )
    before_s = _processor_s()
    begun_s = time.monotonic()
    process.start()
    process.join()
    wall_s = time.monotonic() - begun_s
    if process.exitcode != 0:
        sys.exit(f"the stage with the engine {engine} ended with code {process.exitcode}")
    return Turn(wall_s, _processor_s() - before_s)


def run_stage(
    engine: Setting, metric: str, inputs: dict[str, Path], output: Path, threads: int
) -> None:
    """Compute a metric by an engine, with the default parameters."""
    compute_distances(
        table=inputs["table"],
        tree=inputs.get("tree"),
        metric=metric,
        alpha=0.5,
        engine=engine,
        checked_pairs=0,
        threads=threads,
        work=output.parent / "work",
        distances_out=output,
    )


def report(turns: dict[str, list[Turn]], difference: dict[str, float]) -> str:
    """Return the table that the command prints."""
    lines = [
        "| engine | wall time, s: median (least to most) | processor time, s | difference |",
        "|---|---|---|---|",
    ]
    for engine, taken in turns.items():
        wall = _spread([turn.wall_s for turn in taken])
        processor = _spread([turn.processor_s for turn in taken])
        lines.append(f"| {engine} | {wall} | {processor} | {difference[engine]:.1e} |")
    return "\n".join(lines)


def _spread(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})"


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the engines, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.unifrac_engines", description=__doc__
    )
    parser.add_argument("results", type=Path, help="results of a dataset: results/oral")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    with_tree = [name for name, facts in METRICS.items() if facts.phylogenetic]
    parser.add_argument("--metric", choices=with_tree, default="unweighted")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, help="the first ones alone")
    given = parser.parse_args(arguments)
    if "products" in given.engines and given.metric != "unweighted":
        parser.error("products compute unweighted UniFrac alone: leave them out of --engines")
    read = read_faith_pd if METRICS[given.metric].per_sample else read_distances
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = {
            "table": given.results / "rarefied" / "view0.biom",
            "tree": given.results / "inputs" / "tree.nwk",
        }
        if given.samples is not None:
            table = read_biom(inputs["table"])
            inputs["table"] = folder / "table.biom"
            write_biom(inputs["table"], table.select_samples(np.arange(given.samples)), {})
        turns: dict[str, list[Turn]] = {engine: [] for engine in given.engines}
        for _ in range(given.repeats):
            for engine in given.engines:
                output = folder / f"{engine}.parquet"
                turns[engine].append(take_turn(engine, given.metric, inputs, output, given.threads))
        values = {engine: read(folder / f"{engine}.parquet")[1] for engine in given.engines}
    first = values[given.engines[0]]
    difference = {engine: float(np.abs(own - first).max()) for engine, own in values.items()}
    print(report(turns, difference))
    return 0


if __name__ == "__main__":
    sys.exit(main())
