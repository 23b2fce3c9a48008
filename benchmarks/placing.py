"""How near distances on the tree of full-length sequences come to those on a study's own tree.

    python -m benchmarks.placing ARCHIVE [../shared/data]

ARCHIVE is qiime-default-reference-0.1.3.tar.gz of PyPI: Greengenes 13_8 at 97 %. vsearch finds the
sequences that are near each ASV. The own tree of mackerels and houses is one of MAFFT and FastTree,
and their own ASVs are left out of v4, which was made of them among others. ASVs that vsearch finds
nothing near are left out of all. It prints r of the distances of samples for each study and tree.

Shape suffixes: N samples, F features.
"""

import gzip
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.references import REFERENCES, TREE
from aam.data.importing.table import load_table
from aam.data.importing.tree import cut_tree, load_tree
from aam.data.rarefaction import rarefy
from aam.data.sequences import read_fasta
from aam.data.table import FeatureTable
from aam.data.tree_building import build_tree
from aam.data.trees import find_branches, parse_newick
from aam.distances.in_batch import BatchDistances
from aam.reference_tree.equals import Paths, choose_among_equals
from aam.reference_tree.tree import PER_DIFFERENCE, KnownTips, ReferenceTree, place_reads
from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator

ROOT = "qiime-default-reference-0.1.3/qiime_default_reference/gg_13_8_otus"
WITH_TREE = ("moving-pictures", "ecam", "oral")
OF_CORPUS = ("mackerel", "westernization")
SAMPLES = 200
SAMPLES_OF_CORPUS = 100
DEPTH = 1000
METRICS = ("unweighted", "weighted_normalized", "generalized")
ALPHA = 0.5
COLUMNS = ("study", "ASVs", "tree", *METRICS)
VSEARCH = (
    "vsearch --id 0.7 --maxaccepts 48 --maxrejects 48 --strand plus --qmask none --dbmask none "
    "--threads 1 --quiet --userfields query+target+mism+gaps+alnlen"
)


@dataclass(frozen=True, eq=False)
class Greengenes:
    """Names, lineages and tree of the reference, and its FASTA file."""

    fasta: Path
    row_of: dict[str, int]
    lineages: list[str]
    paths: Paths

    @property
    def tree(self) -> KnownTips:
        """The tree; the sequences are in the file only."""
        return self.paths.tree


def main(archive: Path, data: Path) -> None:
    """Print the table.

    Parameters
    ----------
    archive
        The package of Greengenes.
    data
        Folder of the studies.
    """
    pd.set_option("display.width", 200)
    rows: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        greengenes = read_greengenes(archive, Path(folder))
        for study in (*WITH_TREE, *OF_CORPUS):
            rows += study_rows(study, data, greengenes, Path(folder))
            print(pd.DataFrame(rows, columns=COLUMNS).tail(5).to_string(), flush=True)
    table = pd.DataFrame(rows, columns=COLUMNS)
    print(table.to_markdown(index=False, floatfmt=".3f"))


def read_greengenes(archive: Path, folder: Path) -> Greengenes:
    """Unpack sequences and tree.

    Parameters
    ----------
    archive
        The package.
    folder
        Where to write the FASTA file.
    """
    fasta = folder / "greengenes.fasta"
    with tarfile.open(archive) as package:
        fasta.write_bytes(unpack(package, "rep_set/97_otus.fasta.gz"))
        tree = parse_newick(unpack(package, "trees/97_otus.tree.gz").decode("ascii"))
        lines = unpack(package, "taxonomy/97_otu_taxonomy.txt.gz").decode("ascii").splitlines()
    lineage_of = dict(line.split("\t") for line in lines)
    number = {id(tree): 0}
    parents = [-1]
    lengths = [0.0]
    tips = {}
    for node in tree.preorder(include_self=False):
        number[id(node)] = len(parents)
        if node.is_tip():
            tips[node.name] = len(parents)
        parents.append(number[id(node.parent)])
        lengths.append(node.length or 0.0)
    arrays = ReferenceTree(
        bases_US=np.zeros((len(tips), 0), np.uint8),
        tip_U=np.array(list(tips.values()), np.int32),
        parent_B=np.array(parents, np.int32),
        length_B=np.array(lengths, np.float32),
    )
    lineages = [lineage_of[name] for name in tips]
    return Greengenes(fasta, {name: row for row, name in enumerate(tips)}, lineages, Paths(arrays))


def unpack(package: tarfile.TarFile, name: str) -> bytes:
    """Return a file of the package."""
    packed = package.extractfile(f"{ROOT}/{name}")
    assert packed is not None
    return gzip.decompress(packed.read())


def study_rows(
    study: str, data: Path, greengenes: Greengenes, folder: Path
) -> list[tuple[object, ...]]:
    """Return a row per tree of a study.

    Parameters
    ----------
    study
        Its name.
    data
        Folder of the studies.
    greengenes
        The reference.
    folder
        Folder for scratch files.
    """
    table, v4 = read_study(study, data)
    hits = find_hits(table.feature_ids, greengenes, folder)
    table = table.without_features(set(table.feature_ids) - set(hits["query"]))
    names = table.feature_ids
    sequences = {name: name for name in names}
    reads_F = np.asarray(table.counts.sum(axis=0)).ravel()
    made = build_tree(sequences, 1, None)
    path = data / study / "tree.nwk"
    own = cut_tree(load_tree(path), names, path) if study in WITH_TREE else made
    trees = {
        "v4": place_reads(v4, sequences, reads_F)[0].to_tree(),
        "first of equals": on_greengenes(names, hits, greengenes, takes_first=True),
        "among most equals": on_greengenes(names, hits, greengenes, takes_first=False),
    }
    if study in WITH_TREE:
        trees["MAFFT and FastTree"] = made
    expected = distances(table, own)
    rows: list[tuple[object, ...]] = []
    for title, tree in trees.items():
        found = distances(table, tree)
        r = [correlate(found[metric], expected[metric]) for metric in METRICS]
        rows.append((study, len(names), title, *r))
    return rows


def read_study(study: str, data: Path) -> tuple[FeatureTable, ReferenceTree]:
    """Return some samples of a study, rarefied, and v4 without its ASVs if v4 has these of it.

    Parameters
    ----------
    study
        Its name.
    data
        Folder of the studies.
    """
    v4 = ReferenceTree.read(REFERENCES["v4"] / TREE)
    if study in WITH_TREE:
        deep = rarefy(load_table(data / study / "table.biom"), DEPTH, 0, 0)
        return draw_samples(deep, study, SAMPLES), v4
    corpus = load_table(data / "corpus/table.biom")
    is_study_N = np.array([name.startswith(f"{study}.") for name in corpus.sample_ids])
    others = set(corpus.select_samples(np.flatnonzero(~is_study_N)).feature_ids)
    is_left_out_U = np.array([name not in others for name in v4.sequences()])
    deep = rarefy(corpus.select_samples(np.flatnonzero(is_study_N)), DEPTH, 0, 0)
    return draw_samples(deep, study, SAMPLES_OF_CORPUS), v4.without(is_left_out_U)


def draw_samples(table: FeatureTable, study: str, most: int) -> FeatureTable:
    """Return at most so many samples of a table."""
    chosen = generator("left out", study).permutation(len(table.sample_ids))[:most]
    return table.select_samples(np.sort(chosen))


def find_hits(
    sequences: Sequence[str],
    greengenes: Greengenes,
    folder: Path,
    left_out: Collection[str] = frozenset(),
) -> pd.DataFrame:
    """Return what is near some sequences, in their order.

    Parameters
    ----------
    sequences
        The sequences, which are their own names.
    greengenes
        The reference.
    folder
        Folder for scratch files.
    left_out
        Names of sequences of the reference that are passed over.

    Returns
    -------
    pandas.DataFrame
        Columns `query`, `row` (of the reference) and `distance` (differences per base).
    """
    queries = folder / "queries.fasta"
    queries.write_text("".join(f">{number}\n{text}\n" for number, text in enumerate(sequences)))
    found = folder / "hits.tsv"
    known = folder / "known.fasta"
    known.write_text(
        "".join(
            f">{name}\n{text}\n"
            for name, text in read_fasta(greengenes.fasta).items()
            if name not in left_out
        )
    )
    command = [*VSEARCH.split(), "--db", str(known)]
    command += ["--usearch_global", str(queries), "--userout", str(found)]
    subprocess.run(command, check=True)
    columns = ["query", "target", "mismatches", "gaps", "length"]
    hits = pd.read_csv(found, sep="\t", names=columns, dtype={"target": str})
    hits["row"] = hits["target"].map(greengenes.row_of)
    hits["distance"] = (hits["mismatches"] + hits["gaps"]) / hits["length"]
    hits = hits.sort_values(["query", "row"])
    hits["query"] = [sequences[number] for number in hits["query"].tolist()]
    return hits


def on_greengenes(
    names: Sequence[str], hits: pd.DataFrame, greengenes: Greengenes, *, takes_first: bool
) -> TreeNode:
    """Return the tree of ASVs below the nearest sequences.

    Parameters
    ----------
    names
        The ASVs; all have hits.
    hits
        Of `find_hits`.
    greengenes
        The reference.
    takes_first
        Whether the first of the nearest is taken, or the one among most of them.
    """
    count_Q = hits["query"].value_counts().reindex(list(names)).to_numpy()
    assert hits["query"].drop_duplicates().tolist() == list(names)
    offset_Q = np.cumsum([0, *count_Q])
    row_H = hits["row"].to_numpy()
    distance_H = hits["distance"].to_numpy()
    nearest_Q = np.minimum.reduceat(distance_H, offset_Q[:-1])
    if takes_first:
        first = hits[distance_H <= np.repeat(nearest_Q, count_Q) + 1e-9].drop_duplicates("query")
        row_Q = first["row"].to_numpy()
    else:
        row_Q = choose_among_equals(greengenes.paths, offset_Q, row_H, distance_H)
    return greengenes.tree.tree_of(names, row_Q, PER_DIFFERENCE * nearest_Q)


def distances(table: FeatureTable, tree: TreeNode) -> dict[str, NDArray[np.float64]]:
    """Return the distances of the samples, by metric."""
    above_FE, length_E = find_branches(tree, table.feature_ids)
    measure = BatchDistances(METRICS, ALPHA, above_FE.astype(np.float64), length_E)
    return measure(table.counts)


def correlate(one_NN: NDArray[np.float64], other_NN: NDArray[np.float64]) -> float:
    """Return Pearson's r of the pairs of samples."""
    above = np.triu_indices(len(one_NN), 1)
    return float(np.corrcoef(one_NN[above], other_NN[above])[0, 1])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "../shared/data"))
