"""Time and memory of the reference tree, compared with trees that are made.

`python -m benchmarks.reference_speed ../shared/data` measures, each in a process of its own:
placing 10 000 ASVs, and unweighted UniFrac of 500 samples of mackerels from files to the matrix, on
the reference tree and on a tree of MAFFT and FastTree; `--many` adds 20 000 samples on the
reference, drawn from those of the corpus. Seconds of processor time and of the clock, program start
included, and the peak memory of the largest process.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, vstack

import aam
from aam.data.importing.table import load_table
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable, read_biom, write_biom
from aam.data.tree_building import build_tree
from aam.distances.engines import choose_engine
from aam.util.seeds import generator
from benchmarks.speed.tables import markdown_table

STUDY = "mackerel"
SAMPLES = 500
ASVS = 10_000
MANY = 20_000
DEPTH = 500
THREADS = 2
CHANGED = 3
"""Bases of a sequence to place that are other ones."""
WAYS = ("place", "reference", "made", "many")


def sequences_to_place() -> dict[str, str]:
    """Return sequences near known ones, of 150 bases."""
    rng = generator("placing")
    known_bases_US = aam.reference("v4").tree_of_known.bases_US
    bases = known_bases_US[rng.choice(len(known_bases_US), ASVS, replace=False)].copy()
    columns = rng.integers(0, bases.shape[1], (ASVS, CHANGED))
    bases[np.arange(ASVS)[:, None], columns] = rng.integers(0, 4, columns.shape)
    letters = np.frombuffer(b"ACGTN", np.uint8)[bases]
    return {str(row): text.tobytes().decode() + "ACGT" * 15 for row, text in enumerate(letters)}


def study_table(data: Path) -> FeatureTable:
    """Return some samples of one study."""
    table = load_table(data / "corpus/table.biom")
    rows = [row for row, name in enumerate(table.sample_ids) if name.startswith(STUDY)]
    return table.select_samples(np.array(rows[:SAMPLES]))


def many_samples(data: Path) -> FeatureTable:
    """Return samples of the corpus, each drawn several times."""
    table = load_table(data / "corpus/table.biom")
    draws = [rarefy(table, DEPTH, 0, draw) for draw in range(4)]
    order = {name: column for column, name in enumerate(table.feature_ids)}
    parts = []
    for draw in draws:
        columns = np.array([order[name] for name in draw.feature_ids])
        ones = np.ones(len(columns), np.int64)
        rows = np.arange(len(columns))
        placed = csr_array((ones, (rows, columns)), shape=(len(columns), len(order)))
        parts.append(draw.counts @ placed)
    counts = csr_array(vstack(parts)[:MANY])
    counts.sort_indices()
    names = [f"s{row}" for row in range(counts.shape[0])]
    return FeatureTable(names, table.feature_ids, counts).select_samples(np.arange(len(names)))


def run(way: str, path: Path) -> None:
    """Do what is measured."""
    if way == "place":
        aam.reference("v4").place(json.loads(path.read_text()))
        return
    table = read_biom(path)
    if way == "made":
        tree = build_tree({name: name for name in table.feature_ids}, THREADS, None)
        samples = len(table.sample_ids)
        engine, _ = choose_engine("auto", samples=samples, metric="unweighted", threads=THREADS)
        with engine.compute(table, tree, "unweighted", {}) as values:
            assert np.isfinite(values[:]).all()
        return
    frame = aam.reference("v4").distances(table, threads=THREADS)
    assert np.isfinite(frame.to_numpy()).all()


def measure(way: str, path: Path) -> list[str]:
    """Return a row of the table: one way, in a fresh process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", __spec__.name, str(path), "--run", way], check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [way, f"{processor:.1f}", f"{wall:.1f}", f"{after.ru_maxrss / 2**20:.2f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table; the ways come in the order of their memory, as its peak only grows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--run", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, default=Path("results/reference_speed"))
    given = parser.parse_args(arguments)
    if given.run is not None:
        run(given.run, given.data)
        return
    given.scratch.mkdir(parents=True, exist_ok=True)
    to_place = given.scratch / "sequences.json"
    to_place.write_text(json.dumps(sequences_to_place()))
    table = given.scratch / "table.biom"
    write_biom(table, study_table(given.data), {})
    rows = []
    for _ in range(given.repeats):
        rows.append(measure("place", to_place))
        rows.append(measure("reference", table))
        rows.append(measure("made", table))
    if given.many:
        many = given.scratch / "many.biom"
        write_biom(many, many_samples(given.data), {})
        rows.append(measure("many", many))
    print(markdown_table(["what", "processor, s", "clock, s", "peak so far, GiB"], rows))


if __name__ == "__main__":
    main()
