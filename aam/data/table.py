"""The feature table: counts per sample and feature, and its file format (BIOM 2.1)."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import biom
import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from aam.util.atomic import atomic_path

# A constant date, so that the same table is the same bytes.
_CREATION_DATE = datetime(2000, 1, 1)


@dataclass(frozen=True)
class FeatureTable:
    """Counts of features (ASVs) in samples; what a user hands over is checked by the importers."""

    sample_ids: list[str]
    """IDs of the N samples, in row order."""
    feature_ids: list[str]
    """IDs of the F features, in column order."""
    counts: csr_array
    """Counts, int64, [N, F], with sorted indices and no explicit zeros."""

    def __post_init__(self) -> None:
        assert self.counts.shape == (len(self.sample_ids), len(self.feature_ids))
        assert self.counts.dtype == np.int64
        assert self.counts.has_sorted_indices

    @property
    def reads(self) -> NDArray[np.int64]:
        """Return the sum of the counts of every sample, [N]."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

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
        table = FeatureTable(self.sample_ids, [self.feature_ids[column] for column in kept], counts)
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
        return FeatureTable(self.sample_ids, kept, counts)


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
        aligned.append(FeatureTable([*sample_ids], [*features], counts))
    return aligned


def read_biom(path: Path) -> FeatureTable:
    """Read a table of the package.

    Parameters
    ----------
    path
        A file that `write_biom` wrote.
    """
    with h5py.File(path, "r") as handle:
        table = biom.Table.from_hdf5(handle)
    counts = csr_array(table.matrix_data.T.tocsr()).astype(np.int64)
    counts.eliminate_zeros()
    counts.sort_indices()
    samples = [str(name) for name in table.ids("sample")]
    features = [str(name) for name in table.ids("observation")]
    return FeatureTable(samples, features, counts)


def write_biom(path: Path, table: FeatureTable, provenance: Mapping[str, str]) -> None:
    """Write a table as BIOM 2.1, atomically.

    Parameters
    ----------
    path
        File to write.
    table
        The table.
    provenance
        What made it; it is kept as JSON in `generated-by`.
    """
    # BIOM holds features in rows and counts as float64. Its library wants a matrix, not a sparse
    # array.
    matrix = csr_matrix(table.counts.T.tocsr(), dtype=np.float64)
    matrix.sort_indices()
    content = biom.Table(matrix, table.feature_ids, table.sample_ids, type="OTU table")
    with atomic_path(path) as partial, h5py.File(partial, "w") as handle:
        content.to_hdf5(
            handle, json.dumps(dict(provenance), sort_keys=True), creation_date=_CREATION_DATE
        )
