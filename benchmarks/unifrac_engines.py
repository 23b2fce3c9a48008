"""Engines of UniFrac in turns: time and memory of the whole stage, and how far distances differ.

`python -m benchmarks.unifrac_engines TABLE TREE` takes a rarefied table in BIOM and a tree whose
tips are its features, such as `rarefied/view0.biom` and `inputs/tree.nwk` of a study's results.
Every turn is a process of its own that reads both and writes the distances; no pair is computed
again to check it, which would cost every engine the same.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from aam.config.metrics import METRICS
from aam.data.table import read_biom, write_biom
from aam.data.trees import read_tree, write_newick
from aam.distances.store import distance_rows
from aam.stages.unifrac import compute_distances
from benchmarks.speed.tables import markdown_table

STAGE = "stage"
"""First argument of the process of a turn."""


def run_stage(arguments: Sequence[str]) -> None:
    """Compute a metric by an engine: the process of one turn."""
    engine, metric, table, tree, threads, output = arguments
    compute_distances(
        table=Path(table),
        tree=Path(tree),
        metric=metric,
        alpha=0.5,
        engine=engine,  # type: ignore[arg-type]
        checked_pairs=0,
        threads=int(threads),
        work=Path(output).parent / "work",
        distances_out=Path(output),
    )


def take_turn(arguments: Sequence[str]) -> tuple[float, float, float]:
    """Return seconds by the clock and of processors, and the peak memory in MB, of one turn."""
    command = [sys.executable, "-m", "benchmarks.unifrac_engines", STAGE, *arguments]
    begun_s = time.monotonic()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return time.monotonic() - begun_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def largest_difference(path: Path, other: Path) -> float:
    """Return the largest difference between two files of distances."""
    pairs = zip(distance_rows(path), distance_rows(other), strict=True)
    return max(float(np.abs(ours - theirs).max()) for (_, ours), (_, theirs) in pairs)


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main(arguments: Sequence[str]) -> None:
    """Measure the engines, and print a table."""
    if arguments[:1] == [STAGE]:
        run_stage(arguments[1:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("tree", type=Path)
    pairs = [name for name, facts in METRICS.items() if facts.phylogenetic and not facts.per_sample]
    parser.add_argument("--metric", choices=pairs, default="unweighted")
    parser.add_argument("--engines", nargs="+", default=["products", "ssu"])
    parser.add_argument("--samples", type=int, help="the first ones alone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = read_biom(given.table)
        table = table.select_samples(np.arange(given.samples or len(table.sample_ids)))
        tree = read_tree(given.tree, table.feature_ids)
        write_biom(folder / "table.biom", table, {})
        write_newick(folder / "tree.nwk", tree.shear(table.feature_ids, prune=False))
        files = [str(folder / "table.biom"), str(folder / "tree.nwk"), str(given.threads)]
        paths = {engine: folder / f"{engine}.parquet" for engine in given.engines}
        turns = {
            engine: [take_turn([engine, given.metric, *files, str(paths[engine])])]
            for engine in given.engines
        }
        for _ in range(given.repeats - 1):
            for engine, path in paths.items():
                turns[engine].append(take_turn([engine, given.metric, *files, str(path)]))
        rows = []
        for engine, taken in turns.items():
            clock_s, processor_s, memory_mb = zip(*taken, strict=True)
            difference = largest_difference(paths[given.engines[0]], paths[engine])
            rows.append(
                [engine, _spread(processor_s), _spread(clock_s), f"{max(memory_mb):.0f}"]
                + [f"{difference:.1e}"]
            )
    print(f"{len(table.sample_ids)} samples, {len(table.feature_ids)} features, {given.metric}")
    head = ["engine", "processor, s", "clock, s", "peak, MB", "largest difference to the first"]
    print(markdown_table(head, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
