"""The feature table: reads or amounts per sample and feature, and its file format (BIOM 2.1)."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import biom
import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from aam.util.atomic import atomic_path

# A constant date, so that the same table is the same bytes.
_CREATION_DATE = datetime(2000, 1, 1)
_FACTS = "aam-facts"
"""Attribute of a file whose table is another one than reads of ASVs with sequences."""
_LINEAGE = "taxonomy"
"""Name that BIOM files have for the lineages of features."""


@dataclass(frozen=True)
class TableFacts:
    """What a table holds and can do, which is decided once: where the user's file is imported."""

    is_counted: bool = True
    """Whether it holds reads, whole numbers, that can be rarefied; else amounts, whose samples are
    scaled to one."""
    has_sequences: bool = True
    """Whether every feature has a sequence."""
    has_lineages: bool = False
    """Whether features have lineages of their own: their IDs, or a column of the table."""
    noun: str = "ASV"
    """What one feature is called, a key of `aam.data.nouns.PLURALS`."""


ASV_READS = TableFacts()
"""Facts of a table of reads of ASVs, which are those of most studies."""


@dataclass(frozen=True)
class FeatureTable:
    """Features in samples; what a user hands over is checked by the importers."""

    sample_ids: list[str]
    """IDs of the N samples, in row order."""
    feature_ids: list[str]
    """IDs of the F features, in column order."""
    counts: csr_array
    """Reads, int64, or amounts, float64, [N, F], with sorted indices and no explicit zeros."""
    facts: TableFacts = ASV_READS
    """What the table holds and can do."""

    def __post_init__(self) -> None:
        assert self.counts.shape == (len(self.sample_ids), len(self.feature_ids))
        assert self.counts.dtype == (np.int64 if self.facts.is_counted else np.float64)
        assert self.counts.has_sorted_indices

    @property
    def reads(self) -> NDArray[Any]:
        """Return the sum of every sample, [N]: whole numbers of reads, or amounts."""
        return np.asarray(self.counts.sum(axis=1), dtype=self.counts.dtype)

    def select_samples(self, rows: NDArray[np.int64]) -> "FeatureTable":
        """Return some samples and the features that they have.

        Parameters
        ----------
        rows
            Numbers of the samples, in the order of the table that is returned; none is below 0,
            which is what pandas returns for a name that it does not find.
        """
        assert (rows >= 0).all(), "a sample is missing"
        counts = self.counts[rows]
        # Features that only other samples have would be columns of zeros.
        present = np.unique(counts.indices)
        counts = csr_array(counts[:, present])
        counts.sort_indices()
        return FeatureTable(
            [self.sample_ids[row] for row in rows],
            [self.feature_ids[column] for column in present],
            counts,
            self.facts,
        )

    def without_features(self, names: Collection[str]) -> "FeatureTable":
        """Return the same samples without some features, and without features that have no reads.

        Parameters
        ----------
        names
            IDs of the features to leave out.
        """
        kept = [column for column, name in enumerate(self.feature_ids) if name not in names]
        counts = csr_array(self.counts[:, kept])
        features = [self.feature_ids[column] for column in kept]
        table = FeatureTable(self.sample_ids, features, counts, self.facts)
        return table.select_samples(np.arange(len(self.sample_ids)))

    def merge_features(self, name_of: Mapping[str, str]) -> "FeatureTable":
        """Return the same samples with the reads of some features added up.

        Parameters
        ----------
        name_of
            By each feature the one whose reads its own are added to, itself where it is kept.
        """
        kept = [name for name in self.feature_ids if name_of[name] == name]
        column_of = {name: column for column, name in enumerate(kept)}
        columns = np.array([column_of[name_of[name]] for name in self.feature_ids])
        reads = self.counts.tocoo()
        shape = (len(self.sample_ids), len(kept))
        counts = csr_array((reads.data, (reads.row, columns[reads.col])), shape)
        counts.sum_duplicates()
        return FeatureTable(self.sample_ids, kept, counts, self.facts)

    def with_facts(self, **changes: Any) -> "FeatureTable":
        """Return the same table with other facts; amounts are float64, reads int64.

        Parameters
        ----------
        **changes
            Fields of `TableFacts`.
        """
        facts = replace(self.facts, **changes)
        counts = self.counts.astype(np.int64 if facts.is_counted else np.float64)
        return replace(self, counts=counts, facts=facts)


def reads_of_samples(table: FeatureTable) -> pd.Series | None:
    """Return the reads of every sample by its ID; None for a table of amounts, which has none.

    Parameters
    ----------
    table
        The table before rarefaction.
    """
    if not table.facts.is_counted:
        return None
    return pd.Series(table.reads, index=pd.Index(table.sample_ids))


def align_features(tables: Iterable[FeatureTable], sample_ids: Sequence[str]) -> list[FeatureTable]:
    """Return the reads of some samples in several tables, with the same columns in all.

    Parameters
    ----------
    tables
        Tables that all have the samples.
    sample_ids
        IDs of the samples, in the order of the rows.

    Returns
    -------
    list of FeatureTable
        One for each table; their features are those of any table, sorted.
    """
    given = list(tables)
    features = pd.Index(sorted({name for table in given for name in table.feature_ids}))
    aligned = []
    for table in given:
        rows = pd.Index(table.sample_ids).get_indexer(pd.Index(sample_ids))
        assert (rows >= 0).all(), "a sample is missing"
        reads = table.counts[rows].tocoo()
        columns = features.get_indexer(pd.Index(table.feature_ids))[reads.col]
        counts = csr_array((reads.data, (reads.row, columns)), (len(rows), len(features)))
        counts.sort_indices()
        aligned.append(FeatureTable([*sample_ids], [*features], counts, table.facts))
    return aligned


def read_biom(path: Path) -> FeatureTable:
    """Read a table of the package.

    Parameters
    ----------
    path
        A file that `write_biom` wrote.
    """
    facts = ASV_READS
    with h5py.File(path, "r") as handle:
        table = biom.Table.from_hdf5(handle)
        if _FACTS in handle.attrs:
            facts = TableFacts(**json.loads(handle.attrs[_FACTS]))
    dtype = np.int64 if facts.is_counted else np.float64
    counts = csr_array(table.matrix_data.T.tocsr()).astype(dtype)
    counts.eliminate_zeros()
    counts.sort_indices()
    samples = [str(name) for name in table.ids("sample")]
    features = [str(name) for name in table.ids("observation")]
    return FeatureTable(samples, features, counts, facts)


def read_lineages(path: Path) -> dict[str, str]:
    """Return the lineages that a table of the package has for its features, by their IDs.

    Parameters
    ----------
    path
        A file that `write_biom` wrote.
    """
    with h5py.File(path, "r") as handle:
        table = biom.Table.from_hdf5(handle)
    features = table.ids("observation")
    metadata = table.metadata(axis="observation") or [{}] * len(features)
    lineages = {}
    for name, about in zip(features, metadata, strict=True):
        # `biom` reads lineages back as lists of their ranks.
        ranks = about.get(_LINEAGE) or []
        if any(ranks):
            lineages[str(name)] = "; ".join(ranks)
    return lineages


def write_biom(
    path: Path,
    table: FeatureTable,
    provenance: Mapping[str, str],
    lineages: Mapping[str, Sequence[str]] = {},
) -> None:
    """Write a table as BIOM 2.1, atomically.

    Parameters
    ----------
    path
        File to write.
    table
        The table.
    provenance
        What made it; it is kept as JSON in `generated-by`.
    lineages
        The ranks of features by their IDs, the highest first; those of others are not known.
    """
    # BIOM holds features in rows and counts as float64. Its library wants a matrix, not a sparse
    # array.
    matrix = csr_matrix(table.counts.T.tocsr(), dtype=np.float64)
    matrix.sort_indices()
    about = None
    if lineages:
        about = []
        for name in table.feature_ids:
            ranks = [*lineages.get(name, ())]
            # The library leaves out empty ranks when it reads: ranks around one are one text.
            about.append({_LINEAGE: ranks if ranks and all(ranks) else ["; ".join(ranks)]})
    content = biom.Table(
        matrix, table.feature_ids, table.sample_ids, observation_metadata=about, type="OTU table"
    )
    with atomic_path(path) as partial, h5py.File(partial, "w") as handle:
        content.to_hdf5(
            handle, json.dumps(dict(provenance), sort_keys=True), creation_date=_CREATION_DATE
        )
        if table.facts != ASV_READS:
            handle.attrs[_FACTS] = json.dumps(asdict(table.facts), sort_keys=True)
