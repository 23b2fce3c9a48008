"""`aam.reference`: a tree for studies without one, the same tree for all of them.

Shape suffixes: N samples, Q features, B branches of the reference.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.config.metrics import FAITH_PD, METRICS
from aam.config.references import (
    GET_GREENGENES,
    GREENGENES,
    REFERENCES,
    TREE,
    gene_references,
)
from aam.data.importing.sequences import feature_sequences, load_sequences, read_sequence_file
from aam.data.importing.table import read_table_file, without_empty
from aam.data.lineages import LEVELS, read_rank
from aam.data.nouns import split_lineage
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable
from aam.distances.engines import Engine, Sparse, choose_engine
from aam.reference_tree.gene_placement import GenePlacement, place_in_genes
from aam.reference_tree.genes import GeneReference
from aam.reference_tree.tree import KnownTips, Placement, ReferenceTree, place_reads
from aam.util.errors import count_names, problem
from aam.util.missing_files import expand_home
from aam.util.scikit_bio import TreeNode

Table = str | Path | FeatureTable
Sequences = str | Path | Mapping[str, str]
FEATURE_READS = 1000
"""Reads that a sample has in `ReferencePhylogeny.features`, whatever its depth."""
ROWS_AT_ONCE = 256
UNASSIGNED = "unassigned"
"""Column of reads that nothing is called."""


@dataclass(frozen=True, eq=False)
class ReferencePhylogeny:
    """A reference tree, for tables of any study of its region, or of any region of its genes.

    Every sequence lies next to the known one that it is most like, on a branch whose length follows
    from their differences. On this tree all distances are exact.
    """

    tree_of_known: ReferenceTree | GeneReference
    threads: int = 1
    """Processes that look for genes."""

    @classmethod
    def load(cls, name: str | Path, threads: int = 1) -> Self:
        """Read a reference.

        Parameters
        ----------
        name
            A reference that comes with the package or that `aam reference list` names, or a file of
            `ReferenceTree.write`.
        threads
            Processes that look for whole genes.

        Returns
        -------
        ReferencePhylogeny
            Ready for tables of any study.

        Raises
        ------
        InputError
            There is no such reference, or its file is damaged.
        """
        if str(name) in (genes := gene_references()):
            return cls(GeneReference.open(genes[str(name)]), threads)
        folder = REFERENCES.get(str(name))
        path = expand_home(name) if folder is None else folder / TREE
        if not path.is_file():
            expected = f"a file, or one of {', '.join([*REFERENCES, *genes])}"
            hint = f"get it: {GET_GREENGENES}" if name == GREENGENES else "correct the name"
            raise problem("reference", str(name), expected, hint)
        return cls(ReferenceTree.read(path))

    @property
    def tips(self) -> KnownTips:
        """The tree of the known sequences."""
        known = self.tree_of_known
        return known.tips if isinstance(known, GeneReference) else known

    def place(self, sequences: Sequences) -> pd.DataFrame:
        """Return where sequences lie.

        Parameters
        ----------
        sequences
            FASTA or .qza, or sequences by feature ID. Sequences of the other strand are recognized,
            and a warning says so; in a reference of one region also those that begin up to 20 bases
            before or behind it.

        Returns
        -------
        pandas.DataFrame
            A row per sequence: see `aam.reference_tree.tree.Placement.to_frame`, and of whole
            genes, which also name the sequences,
            `aam.reference_tree.gene_placement.GenePlacement.to_frame`.

        Raises
        ------
        InputError
            The file cannot be read.
        """
        return self.placement(sequences).to_frame()

    def tree(self, sequences: Sequences) -> TreeNode:
        """Return the tree of some sequences.

        Parameters
        ----------
        sequences
            As for `place`.

        Returns
        -------
        skbio.TreeNode
            Tips are named by feature ID.

        Raises
        ------
        InputError
            The file cannot be read.
        """
        return self.placement(sequences).to_tree()

    def placement(self, sequences: Sequences) -> Placement | GenePlacement:
        """Return the places of some sequences, for a table and a tree of them.

        Parameters
        ----------
        sequences
            As for `place`.

        Returns
        -------
        aam.reference_tree.tree.Placement or aam.reference_tree.gene_placement.GenePlacement
            With `to_frame` and `to_tree`.

        Raises
        ------
        InputError
            The file cannot be read.
        """
        texts = _read_sequences(sequences)
        return self._placement(texts, np.ones(len(texts), np.int64))

    def distances(
        self,
        table: Table,
        sequences: Sequences | None = None,
        metric: str = "unweighted",
        *,
        depth: int | None = None,
        seed: int = 0,
        alpha: float = 0.5,
        threads: int = 1,
    ) -> pd.DataFrame:
        """Return the distances of all pairs of samples.

        Parameters
        ----------
        table
            Read counts: BIOM, TSV or .qza, or a table in memory.
        sequences
            FASTA or .qza, or sequences by feature ID, where the IDs are not the sequences. Metrics
            that need no tree do not read them.
        metric
            One of `aam.config.metrics.METRICS` that compares samples.
        depth
            Reads that are drawn of every sample first; shallower ones are left out. None: all are
            taken as they are.
        seed
            Seed of that draw.
        alpha
            Exponent of generalized UniFrac.
        threads
            Threads of the engine that computes UniFrac.

        Returns
        -------
        pandas.DataFrame
            Symmetric, zero on the diagonal, samples by samples.

        Raises
        ------
        InputError
            A file cannot be read, features have no sequence, or there is no such metric.
        """
        names = [name for name, facts in METRICS.items() if not facts.per_sample]
        if metric not in names:
            raise problem("metric", metric, f"one of {', '.join(names)}", "choose one of them")
        engine: Engine
        if METRICS[metric].phylogenetic:
            counts, placement = self._read(table, sequences, depth, seed)
            tree = placement.to_tree()
            samples = len(counts.sample_ids)
            engine = choose_engine("auto", samples=samples, metric=metric, threads=threads)[0]
        else:
            counts = _rarefied(_read_table(table, sequences)[0], depth, seed)
            tree = None
            samples = len(counts.sample_ids)
            engine = Sparse()
        parameters = {"alpha": alpha} if METRICS[metric].parameters else {}
        matrix_NN = np.empty((samples, samples))
        # A few rows at a time: engines may hold the distances in files, as float32.
        with engine.compute(counts, tree, metric, parameters) as values:
            for first in range(0, samples, ROWS_AT_ONCE):
                rows = slice(first, first + ROWS_AT_ONCE)
                matrix_NN[rows] = values[rows]
        index = pd.Index(counts.sample_ids, name="sample-id", dtype=object)
        return pd.DataFrame(matrix_NN, index=index, columns=index.rename(None))

    def faith_pd(
        self,
        table: Table,
        sequences: Sequences | None = None,
        *,
        depth: int | None = None,
        seed: int = 0,
    ) -> pd.Series:
        """Return Faith's phylogenetic diversity of every sample.

        Parameters
        ----------
        table, sequences, depth, seed
            As for `distances`.

        Returns
        -------
        pandas.Series
            In substitutions per site, by sample ID.

        Raises
        ------
        InputError
            A file cannot be read, or features have no sequence.
        """
        counts, placement = self._read(table, sequences, depth, seed)
        engine = choose_engine("auto", samples=len(counts.sample_ids), metric=FAITH_PD)[0]
        with engine.compute(counts, placement.to_tree(), FAITH_PD, {}) as values:
            index = pd.Index(counts.sample_ids, name="sample-id", dtype=object)
            return pd.Series(np.asarray(values[:]), index=index, name=FAITH_PD)

    def features(
        self,
        table: Table,
        sequences: Sequences | None = None,
        *,
        depth: int | None = None,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Return what each sample has below each branch, for other methods to learn from.

        With the fraction p of its reads below a branch of length b, a sample has
        log(1 + 2000 p) sqrt(b): 0 without reads, otherwise nearly the logarithm of the reads below
        the branch, of 1000 in all. Long branches count more, and related ASVs count together.

        Parameters
        ----------
        table, sequences, depth, seed
            As for `distances`.

        Returns
        -------
        pandas.DataFrame
            Sparse, samples by the numbers of those branches that have reads. A branch has the same
            number in every study, so that tables of several studies can be joined, with 0 where a
            study lacks a branch. Branches to placed sequences alone are not among them.

        Raises
        ------
        InputError
            A file cannot be read, or features have no sequence.
        """
        counts, placement = self._read(table, sequences, depth, seed)
        near = np.flatnonzero(placement.row_Q >= 0)
        above_QB = self.tips.branch_matrix(placement.row_Q[near])
        below_NB = csr_array(counts.counts[:, near].astype(np.float64) @ above_QB)
        below_NB.sort_indices()
        reads = np.repeat(counts.reads, np.diff(below_NB.indptr))
        # In float64, because float32 would lose digits that the logarithms have.
        sqrt_length_B = np.sqrt(self.tips.length_B.astype(np.float64))
        logs = np.log1p(2 * FEATURE_READS * below_NB.data / reads)
        logs = logs * sqrt_length_B[below_NB.indices]
        columns = np.unique(below_NB.indices)
        matrix = csr_array((logs, below_NB.indices, below_NB.indptr), shape=below_NB.shape)
        index = pd.Index(counts.sample_ids, name="sample-id", dtype=object)
        accessor: Any = pd.DataFrame.sparse
        return pd.DataFrame(accessor.from_spmatrix(matrix[:, columns], index, columns))

    def taxa(
        self,
        table: Table,
        sequences: Sequences | None = None,
        rank: str = "genus",
        *,
        depth: int | None = None,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Return the reads of each sample by taxon, as the genes near the sequences are called.

        Parameters
        ----------
        table, sequences, depth, seed
            As for `distances`.
        rank
            Rank that the reads are summed to: one of `aam.data.lineages.LEVELS`, such as `family`.

        Returns
        -------
        pandas.DataFrame
            Samples by lineages down to that rank, ascending. What is not named so far down counts
            under its lowest name; the column of reads without any is called `unassigned`.

        Raises
        ------
        InputError
            A file cannot be read, features have no sequence, there is no such rank, or the
            reference names nothing.
        """
        if rank not in LEVELS:
            raise problem("rank", rank, f"one of {', '.join(LEVELS)}", "choose one of them")
        counts, placement = self._read(table, sequences, depth, seed)
        if not isinstance(placement, GenePlacement) or not any(placement.reference.lineages):
            expected = f"one with lineages, such as {GREENGENES}"
            raise problem("reference", "a reference without names", expected, GET_GREENGENES)
        named = [_down_to(rank, name.taxon) or UNASSIGNED for name in placement.name_Q]
        taxa, column_Q = np.unique(named, return_inverse=True)
        reads_NQ = counts.counts.tocoo()
        sums = csr_array(
            (reads_NQ.data, (reads_NQ.row, column_Q[reads_NQ.col])),
            shape=(len(counts.sample_ids), len(taxa)),
        )
        index = pd.Index(counts.sample_ids, name="sample-id", dtype=object)
        return pd.DataFrame(sums.toarray(), index=index, columns=taxa.tolist())

    def _read(
        self, table: Table, sequences: Sequences | None, depth: int | None, seed: int
    ) -> tuple[FeatureTable, Placement | GenePlacement]:
        """Return a table without what is empty, rarefied if there is a depth, and its placement."""
        whole, column = _read_table(table, sequences)
        where = Path("the table") if isinstance(table, FeatureTable) else Path(table)
        texts = table_sequences(whole, where, sequences, column)
        counts = _rarefied(whole, depth, seed)
        kept_texts = {name: texts[name] for name in counts.feature_ids}
        reads_Q = np.asarray(counts.counts.sum(axis=0)).ravel()
        return counts, self._placement(kept_texts, reads_Q)

    def _placement(
        self, texts: Mapping[str, str], reads_Q: NDArray[np.int64]
    ) -> Placement | GenePlacement:
        if isinstance(self.tree_of_known, ReferenceTree):
            return place_reads(self.tree_of_known, texts, reads_Q)[0]
        placement = place_in_genes(self.tree_of_known, texts, self.threads)
        placement.warn(reads_Q)
        return placement


def _down_to(rank: str, taxon: str) -> str:
    """Return a lineage without the ranks below one."""
    above = LEVELS[: LEVELS.index(rank) + 1]
    parts = split_lineage(taxon)
    kept = [part for place, part in enumerate(parts) if read_rank(part, place)[0] in above]
    return "; ".join(kept)


def _read_table(
    table: Table, sequences: Sequences | None
) -> tuple[FeatureTable, Mapping[str, str]]:
    """Return a table without what has no reads, and the sequences of a column of its file."""
    if isinstance(table, FeatureTable):
        return without_empty(table)[0], {}
    # Which axis holds the features is told by a file of their sequences, too.
    given = read_sequence_file(Path(sequences)) if isinstance(sequences, str | Path) else None
    file = read_table_file(Path(table), sequences=given)
    return without_empty(file.table)[0], file.sequences


def _rarefied(table: FeatureTable, depth: int | None, seed: int) -> FeatureTable:
    """Return a table rarefied to a depth, or as it is where there is none."""
    return table if depth is None else rarefy(table, depth, seed)


def table_sequences(
    table: FeatureTable,
    where: Path,
    sequences: Sequences | None,
    column: Mapping[str, str] = {},
) -> dict[str, str]:
    """Return the sequence of every feature of a table.

    Parameters
    ----------
    table
        The table.
    where
        Its file, for messages.
    sequences
        As for `ReferencePhylogeny.distances`.
    column
        Sequence by feature ID from a column of the table, which are taken where there is no file.

    Raises
    ------
    InputError
        A file cannot be read, or features have no sequence.
    """
    if not isinstance(sequences, Mapping):
        path = None if sequences is None else Path(sequences)
        return feature_sequences(table, where, path, column)
    missing = [name for name in table.feature_ids if name not in sequences]
    if missing:
        raise problem(
            "sequences",
            f"no sequence for {count_names('feature', missing)} of {len(table.feature_ids)} in "
            f"{where}",
            "a sequence for every feature",
            "add the sequences of these features, or leave the features out of the table",
        )
    return {name: sequences[name] for name in table.feature_ids}


def _read_sequences(sequences: Sequences) -> Mapping[str, str]:
    if isinstance(sequences, Mapping):
        return sequences
    return load_sequences(Path(sequences))
