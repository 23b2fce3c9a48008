"""How near distances on the tree of full-length sequences come to those on a study's own tree.

    aam reference get greengenes
    python -m benchmarks.placing ../shared/data

The own tree of mackerels and houses is one of MAFFT and FastTree, and their own ASVs are left out
of v4, which was made of them among others. ASVs that no gene lies near are left out of all. It
prints r of the distances of samples for each study and tree.

Shape suffixes: N samples, F features.
"""

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.references import GET_GREENGENES, GREENGENES, REFERENCES, TREE, gene_references
from aam.data.importing.table import load_table
from aam.data.importing.tree import cut_tree, load_tree
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable
from aam.data.tree_building import build_tree
from aam.data.trees import find_branches
from aam.distances.in_batch import BatchDistances
from aam.reference_tree.equals import Paths, choose_among_equals
from aam.reference_tree.genes import GeneReference, nearest_sequences
from aam.reference_tree.search import SequenceSearch
from aam.reference_tree.tree import PER_DIFFERENCE, KnownTips, ReferenceTree, place_reads
from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator

WITH_TREE = ("moving-pictures", "ecam", "oral")
OF_CORPUS = ("mackerel", "westernization")
SAMPLES = 200
SAMPLES_OF_CORPUS = 100
DEPTH = 1000
METRICS = ("unweighted", "weighted_normalized", "generalized")
ALPHA = 0.5
COLUMNS = ("study", "ASVs", "tree", *METRICS)
THREADS = 2


@dataclass(frozen=True, eq=False)
class Greengenes:
    """The reference, and what the benchmarks ask of it."""

    genes: GeneReference

    @classmethod
    def open(cls) -> Self:
        """Open the reference of this machine."""
        if GREENGENES not in gene_references():
            sys.exit(f"Get the reference first: {GET_GREENGENES}")
        return cls(GeneReference.open(gene_references()[GREENGENES]))

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Number of each gene by its name."""
        return {name: row for row, name in enumerate(self.genes.names)}

    @cached_property
    def lineages(self) -> list[str]:
        """Lineage of each gene."""
        return self.genes.lineages

    @cached_property
    def tree(self) -> KnownTips:
        """Its tree."""
        return self.genes.tips

    @cached_property
    def paths(self) -> Paths:
        """Distances in it."""
        return Paths(self.tree)

    @cached_property
    def search(self) -> SequenceSearch:
        """Its sequences."""
        return self.genes.search


def main(data: Path) -> None:
    """Print the table.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    pd.set_option("display.width", 200)
    rows: list[tuple[object, ...]] = []
    greengenes = Greengenes.open()
    for study in (*WITH_TREE, *OF_CORPUS):
        rows += study_rows(study, data, greengenes)
        print(pd.DataFrame(rows, columns=COLUMNS).tail(5).to_string(), flush=True)
    table = pd.DataFrame(rows, columns=COLUMNS)
    print(table.to_markdown(index=False, floatfmt=".3f"))


def study_rows(study: str, data: Path, greengenes: Greengenes) -> list[tuple[object, ...]]:
    """Return a row per tree of a study.

    Parameters
    ----------
    study
        Its name.
    data
        Folder of the studies.
    greengenes
        The reference.
    """
    table, v4 = read_study(study, data)
    hits = find_hits(table.feature_ids, greengenes)
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
    sequences: Sequence[str], greengenes: Greengenes, left_out: Collection[str] = frozenset()
) -> pd.DataFrame:
    """Return what is near some sequences, in their order.

    Parameters
    ----------
    sequences
        The sequences, which are their own names.
    greengenes
        The reference.
    left_out
        Names of genes that are passed over.

    Returns
    -------
    pandas.DataFrame
        Columns `query`, `row` (of the reference) and `distance` (differences per base), by query
        and row.
    """
    is_left_out_U = np.zeros(len(greengenes.row_of), bool)
    is_left_out_U[[greengenes.row_of[name] for name in left_out]] = True
    hits = nearest_sequences(greengenes.genes, sequences, THREADS, is_left_out_U)
    found = {"number": hits.query_H, "row": hits.row_H, "distance": hits.distance_H}
    table = pd.DataFrame(found).sort_values(["number", "row"])
    table.insert(0, "query", [sequences[number] for number in table["number"].tolist()])
    return table.drop(columns="number")


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
    main(Path(sys.argv[1]))
