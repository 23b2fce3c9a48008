"""A study as every command and stage sees it: read once from the user's files, at one depth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.importing.counts import import_counts
from aam.data.importing.metadata import metadata_of
from aam.data.importing.taxonomy import taxonomy_of
from aam.data.importing.tree import load_cut_tree
from aam.data.rarefaction import too_deep
from aam.data.roles import is_blank, says_kind_of_sample
from aam.data.study.read_starts import warn_of_odd_reads
from aam.data.table import FeatureTable
from aam.data.trees.rooting import outlier_branches, warn_of_long_branches
from aam.util.notes import Note, collect_notes


@dataclass(frozen=True, eq=False)
class Study:
    """The content of a study's files, without what every run leaves out.

    `aam init` and `aam check` read all files at once by `read`. The stages of a run read one file
    each, by the same functions.
    """

    table: FeatureTable
    """Reads, without what `import_counts` leaves out."""
    left_out: pd.DataFrame
    """`what`, `id` and `why` of what it leaves out."""
    sequences: Mapping[str, str]
    """Sequence by feature ID."""
    metadata: pd.DataFrame
    """Text by sample ID, a row per sample of the table, None where missing."""
    taxa: Mapping[str, str] | None = None
    """Taxon by feature ID; None: no taxonomy is given."""
    has_tree: bool = False
    """Whether a tree is given; it has a tip for every feature then."""
    behind_long_branches: frozenset[str] = frozenset()
    """Features behind outlier branches of that tree."""
    notes: tuple[Note, ...] = ()
    """What was decided for the user while the files were read."""

    @classmethod
    def read(
        cls,
        *,
        table: Path,
        sequences: Path | None = None,
        tree: Path | None = None,
        metadata: Path | None = None,
        taxonomy: Path | None = None,
        is_rooted: bool = True,
    ) -> "Study":
        """Read and check all files of a study.

        Parameters
        ----------
        table
            The user's table.
        sequences, tree, metadata, taxonomy
            Further files of the user, where there are any.
        is_rooted
            Whether the tree keeps the root of its file.

        Raises
        ------
        InputError
            A file cannot be read, or does not belong to the table.
        """
        with collect_notes() as notes:
            counts = import_counts(table, sequences)
            sample_ids = counts.table.sample_ids
            feature_ids = counts.table.feature_ids
            warn_of_odd_reads(table, counts.table, counts.sequences)
            rows = pd.DataFrame(index=pd.Index(sample_ids))
            if metadata is not None:
                rows = metadata_of(metadata, sample_ids)
            taxa = None
            if taxonomy is not None:
                taxa = taxonomy_of(taxonomy, feature_ids, counts.other_names)
            outliers: set[str] = set()
            if tree is not None:
                cut = load_cut_tree(tree, feature_ids, counts.other_names, is_rooted=is_rooted)
                warn_of_long_branches(cut)
                for names, _ in outlier_branches(cut):
                    outliers.update(names)
        return cls(
            table=counts.table,
            left_out=counts.left_out,
            sequences=counts.sequences,
            metadata=rows,
            taxa=taxa,
            has_tree=tree is not None,
            behind_long_branches=frozenset(outliers),
            notes=tuple(notes),
        )

    @property
    def blanks(self) -> list[str]:
        """IDs of samples that are blanks, by their ID or by what the metadata call them."""
        is_blank_N = np.array([is_blank(name) for name in self.metadata.index], bool)
        for name in map(str, self.metadata):
            if says_kind_of_sample(name):
                values = self.metadata[name]
                called = [value for value in values.dropna().unique() if is_blank(value)]
                is_blank_N |= values.isin(called).to_numpy()
        return list(self.metadata.index[is_blank_N])

    def reads_that_matter(self, columns: Sequence[str] = ()) -> NDArray[np.int64]:
        """Return the reads of the samples that a rarefaction depth should keep.

        Parameters
        ----------
        columns
            Columns to predict; none: all columns count.

        Returns
        -------
        numpy.ndarray
            Reads of the samples with a value in one of the columns that are no blanks; of all
            samples where there are no such samples.
        """
        values = self.metadata[list(columns)] if columns else self.metadata
        matters = values.notna().any(axis=1).to_numpy() & ~self.metadata.index.isin(self.blanks)
        reads = self.table.reads
        return reads[matters] if matters.any() else reads

    def at_depth(self, depth: int, *, drops_long_branches: bool = False) -> pd.DataFrame:
        """Return the metadata of the samples that rarefaction keeps: what tasks are made of.

        Parameters
        ----------
        depth
            Reads that are drawn from each sample.
        drops_long_branches
            Whether features behind outlier branches of the given tree are left out first. Those of
            a tree that a run makes are not known yet.

        Returns
        -------
        pandas.DataFrame
            Rows of `metadata`.

        Raises
        ------
        InputError
            No sample has enough reads.
        """
        table = self.table
        if drops_long_branches:
            table = table.without_features(self.behind_long_branches)
        reads = pd.Series(table.reads, index=table.sample_ids)
        kept = [name for name in self.metadata.index if reads.get(name, 0) >= depth]
        if not kept:
            raise too_deep(table.sample_ids, table.reads, depth)
        rows = self.metadata.loc[kept]
        rows.attrs = dict(self.metadata.attrs)
        return rows
