"""What a tree and names of sequences of another region cost, beside MAFFT and FastTree.

    aam reference get greengenes
    python -m benchmarks.region_times trees
    python -m benchmarks.region_times pages ../shared/data FOLDER

`trees` places and names 1000, 10 000 and 50 000 pieces of genes, cut at the primers of V3-V4, with
one base in a hundred replaced, and makes a tree of as many, but not of 50 000, by MAFFT and
FastTree. `pages` runs the first answer to the delivery of infant guts from files to the
page, `REPEATS` times in turn: of V4 and of V3-V4, with Greengenes on the machine and without. The
genes of both regions are those that the study's ASVs lie next to (`benchmarks.regions`).
"""

import argparse
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from aam.config.references import GREENGENES, gene_references
from aam.data.importing.table import load_table
from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, write_biom
from aam.data.tree_building import build_tree
from aam.reference_tree.gene_placement import place_in_genes
from aam.reference_tree.genes import GeneReference
from aam.util.atomic import write_text
from aam.util.seeds import generator
from benchmarks.placing import Greengenes
from benchmarks.qiime import CORES, run
from benchmarks.regions import cut_gene, simulate

COUNTS = (1000, 10_000, 50_000)
MOST_ALIGNED = 10_000
"""Pieces that MAFFT and FastTree are tried on at most: these took them 15 minutes."""
REGION = "V3-V4"
REPLACED = 0.01
"""Fraction of the bases that differ from those of a gene."""
REPEATS = 3
STUDY = "ecam"
TASK = {
    "column": "delivery",
    "kind": "classification",
    "where": {"mom_child": "C"},
    "folds": {"k": 5, "groups": "host_subject_id", "stratified": True},
}


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, dest="table")
    commands.add_parser("trees")
    pages = commands.add_parser("pages")
    pages.add_argument("data", type=Path)
    pages.add_argument("folder", type=Path)
    given = parser.parse_args()
    rows = tree_rows() if given.table == "trees" else page_rows(given.data, given.folder)
    print(rows.to_markdown(index=False, floatfmt=".1f"))


def tree_rows() -> pd.DataFrame:
    """Return what the trees of some numbers of pieces cost."""
    greengenes = Greengenes.open()
    rng = generator("region_times")
    order = rng.permutation(len(greengenes.genes.names)).tolist()
    pieces: dict[str, str] = {}
    for row in order:
        piece = cut_gene(greengenes.search.text(row), REGION)
        if piece is not None:
            pieces[f"s{len(pieces)}"] = replace_bases(piece, rng)
        if len(pieces) == max(COUNTS):
            break
    makers: Mapping[str, Callable[[dict[str, str]], None]] = {
        GREENGENES: _place,
        "MAFFT and FastTree": _build,
    }
    rows = []
    for title, make in makers.items():
        for count in COUNTS:
            if make is _build and count > MOST_ALIGNED:
                break
            some = dict([*pieces.items()][:count])
            rows.append({"tree": title, "sequences": len(some), **measure(make, some)})
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def replace_bases(text: str, rng: np.random.Generator) -> str:
    """Return a sequence with `REPLACED` of its bases drawn anew."""
    letters = np.array(list(text))
    is_drawn = rng.random(len(letters)) < REPLACED
    letters[is_drawn] = rng.choice(list("ACGT"), is_drawn.sum())
    return "".join(letters)


def measure(make: Callable[[dict[str, str]], None], texts: dict[str, str]) -> dict[str, float]:
    """Return what a call costs in a process of its own."""
    with ProcessPoolExecutor(max_workers=1) as pool:
        return pool.submit(_measured, make, texts).result()


def _measured(make: Callable[[dict[str, str]], None], texts: dict[str, str]) -> dict[str, float]:
    started = time.perf_counter()
    make(texts)
    clock_s = time.perf_counter() - started
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "clock, s": clock_s,
        "processor, s": sum(usage.ru_utime + usage.ru_stime for usage in used),
        "largest process, MB": max(usage.ru_maxrss for usage in used) / 1024,
    }


def _place(texts: dict[str, str]) -> None:
    genes = GeneReference.open(gene_references()[GREENGENES])
    placement = place_in_genes(genes, texts, CORES)
    placement.to_tree()
    placement.to_frame()


def _build(texts: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        build_tree(texts, CORES, Path(scratch))


def page_rows(data: Path, folder: Path) -> pd.DataFrame:
    """Return what the first answer costs, by region and by what is on the machine."""
    write_studies(data, folder)
    rows = []
    for repeat in range(REPEATS):
        for region in ("V4", REGION):
            for home in (None, folder / "empty"):
                work = folder / "run"
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir(parents=True)
                dataset = {"table": f"{region}.biom", "sequences": f"{region}.fasta"}
                config = {
                    "data_dir": str(folder.resolve()),
                    "datasets": {"study": dataset | {"metadata": "metadata.tsv"}},
                    "models": {},
                    "tasks": {"task": {"dataset": "study", **TASK}},
                }
                write_text(work / "config.yaml", yaml.safe_dump(config))
                command = [sys.executable, "-m", "aam", "run", "config.yaml", "first"]
                environment = [] if home is None else ["env", f"XDG_DATA_HOME={home.resolve()}"]
                cost = run([*environment, *command, "--cores", str(CORES)], work)
                reference = GREENGENES if home is None else "none"
                rows.append(
                    {
                        "region": region,
                        "on the machine": reference,
                        "clock, s": cost.clock_s,
                        "processor, s": cost.processor_s,
                        "repeat": repeat,
                    }
                )
                print(rows[-1], flush=True)
    by_case = pd.DataFrame(rows).groupby(["region", "on the machine"])
    return by_case[["clock, s", "processor, s"]].agg(["median", "min", "max"]).reset_index()


def write_studies(data: Path, folder: Path) -> None:
    """Write the same samples as tables of two regions, with their metadata."""
    (folder / "empty").mkdir(parents=True, exist_ok=True)
    table = load_table(data / STUDY / "table.biom")
    genes, _, pieces = simulate(table, Greengenes.open())
    rng = generator("region_times", "pages")
    for region in ("V4", REGION):
        texts = {
            name: replace_bases(piece, rng)
            for name, piece in zip(genes.feature_ids, pieces[region], strict=True)
        }
        named = FeatureTable(genes.sample_ids, genes.feature_ids, genes.counts, genes.facts)
        write_biom(folder / f"{region}.biom", named, {})
        write_fasta(folder / f"{region}.fasta", texts)
    shutil.copyfile(data / STUDY / "metadata.tsv", folder / "metadata.tsv")


if __name__ == "__main__":
    main()
