"""The sample store: rarefied views, then augmented rows.

An augmented row depends on the order of the ASVs within the rows it is made of, which is that of
the feature IDs, whatever the columns of the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.stores import AUGMENTED, SampleStore
from aam.data.table import FeatureTable
from aam.util.errors import problem
from aam.util.seeds import generator, seed_of


@dataclass(frozen=True)
class Augmentation:
    """Which rows to add to the views, and how they are drawn."""

    asv_dropout: float
    """Fraction of the ASVs left out in one more row per sample and view; 0: no such rows."""
    cutmix: float
    """Rows mixed of two samples, per sample and view."""
    seed: int
    """Seed of the draws."""


class Row(NamedTuple):
    """The ASVs of a sample, ascending, and their reads, all above 0."""

    asvs: NDArray[np.int64]
    counts: NDArray[np.int64]


def asv_dropout(row: Row, fraction: float, rng: np.random.Generator) -> Row:
    """Leave out a fraction of the ASVs, with all of their reads; at least one stays.

    Parameters
    ----------
    row
        The ASVs of a sample.
    fraction
        Fraction of them to leave out; the number is rounded.
    rng
        Source of the draw.
    """
    asvs = len(row.asvs)
    # Halves are rounded up; Python's `round` would take them to the nearest even number.
    kept = max(asvs - int(fraction * asvs + 0.5), 1)
    # The ASVs of a row are ascending in the store, and a draw has no order.
    chosen = np.sort(rng.choice(asvs, size=kept, replace=False, shuffle=False))
    return Row(row.asvs[chosen], row.counts[chosen])


def cutmix(first: Row, second: Row, rng: np.random.Generator) -> tuple[Row, float]:
    """Mix two samples: every ASV, with its reads, comes from one of them or the other.

    Compositional CutMix of Gordon-Rodriguez, E., Quinn, T. P. & Cunningham, J. P. (2022), Data
    augmentation for compositional data: advancing predictive models of the microbiome, NeurIPS.
    The probability of the first parent is uniform between 0 and 1. A mix without a single ASV is
    drawn again, with the same probability.

    Parameters
    ----------
    first, second
        The parents.
    rng
        Source of the draws.

    Returns
    -------
    mixed : Row
        The mix.
    weight : float
        Weight of the first parent: the probability that an ASV came from it.
    """
    asvs = np.union1d(first.asvs, second.asvs)
    counts_of_first = _aligned(first, asvs)
    counts_of_second = _aligned(second, asvs)
    weight = float(rng.uniform())
    while True:
        from_first = rng.random(len(asvs)) < weight
        counts = np.where(from_first, counts_of_first, counts_of_second)
        present = counts > 0
        if present.any():
            return Row(asvs[present], counts[present]), weight


def _aligned(row: Row, asvs: NDArray[np.int64]) -> NDArray[np.int64]:
    counts = np.zeros(len(asvs), dtype=np.int64)
    counts[np.searchsorted(asvs, row.asvs)] = row.counts
    return counts


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows of the store that were made alike."""

    view: int
    counts: csr_array
    """int64 [rows, U], columns in the order of the token store, indices sorted."""
    parents: NDArray[np.int32]
    """Positions of the samples, [rows, parents]."""
    weights: NDArray[np.float32]
    """Fractions of the parents, [rows, parents]."""

    @classmethod
    def from_samples(cls, view: int, counts: csr_array) -> "_Block":
        """Return a block whose row i is made of sample i alone."""
        rows = counts.shape[0]
        parent = np.arange(rows, dtype=np.int32)[:, None]
        return cls(view, counts, parent, np.ones((rows, 1), dtype=np.float32))


class _Columns:
    """The two orders of the U ASVs: of the token store, and of their IDs."""

    def __init__(self, feature_ids: Sequence[str]) -> None:
        self.position = {name: column for column, name in enumerate(feature_ids)}
        self.by_id = np.array(sorted(range(len(feature_ids)), key=feature_ids.__getitem__))
        self.rank = np.argsort(self.by_id)

    def counts(self, table: FeatureTable) -> csr_array:
        """Return the counts of a table with the columns of the token store."""
        columns = np.array([self.position[name] for name in table.feature_ids], dtype=np.int64)
        return self._reordered(table.counts, columns)

    def rows(self, counts: csr_array) -> list[Row]:
        """Return the rows with the ASVs as ranks of their IDs, ascending."""
        ranked = self._reordered(counts, self.rank)
        bounds = zip(ranked.indptr[:-1], ranked.indptr[1:], strict=True)
        return [Row(ranked.indices[i:j], ranked.data[i:j]) for i, j in bounds]

    def matrix(self, rows: Sequence[Row]) -> csr_array:
        """Return the counts of rows in the order of the token store, int64 [rows, U].

        Parameters
        ----------
        rows
            Rows whose ASVs are ranks of their IDs.
        """
        offsets = np.cumsum([0, *(len(row.asvs) for row in rows)])
        asvs = np.concatenate([row.asvs for row in rows])
        counts = np.concatenate([row.counts for row in rows])
        ranked = csr_array((counts, asvs, offsets), shape=(len(rows), len(self.by_id)))
        return self._reordered(ranked, self.by_id)

    def _reordered(self, counts: csr_array, columns: NDArray[np.int64]) -> csr_array:
        moved = csr_array(
            (counts.data.copy(), columns[counts.indices], counts.indptr),
            shape=(counts.shape[0], len(self.by_id)),
        )
        moved.sort_indices()
        return moved


def build_store(
    feature_ids: Sequence[str], views: Sequence[FeatureTable], settings: Augmentation
) -> SampleStore:
    """Put the views of some samples, and augmented rows, into one store.

    The views come first, then, view by view, the rows with ASVs left out and the mixed rows. They
    depend on samples and seed, not on any order.

    Parameters
    ----------
    feature_ids
        The U ASVs of the token store.
    views
        V rarefied tables of the same N samples in the same order.
    settings
        Which rows are added.

    Raises
    ------
    InputError
        Samples are to be mixed, and there is only one.
    """
    sample_ids = views[0].sample_ids
    assert all(view.sample_ids == sample_ids for view in views), "views of different samples"
    columns = _Columns(feature_ids)
    base = [_Block.from_samples(view, columns.counts(table)) for view, table in enumerate(views)]
    blocks = list(base)
    for block in base:
        if settings.asv_dropout > 0:
            blocks.append(_with_dropped_asvs(block, sample_ids, columns, settings))
        if round(settings.cutmix * len(sample_ids)):
            blocks.append(_mixed(block, sample_ids, columns, settings))
    return _joined(sample_ids, len(views), blocks)


def _with_dropped_asvs(
    block: _Block, sample_ids: list[str], columns: _Columns, settings: Augmentation
) -> _Block:
    """Leave out ASVs of every sample of one view."""
    made = []
    for row, sample in zip(columns.rows(block.counts), sample_ids, strict=True):
        rng = generator("asv_dropout", settings.seed, block.view, sample)
        made.append(asv_dropout(row, settings.asv_dropout, rng))
    return _Block.from_samples(AUGMENTED, columns.matrix(made))


def _mixed(
    block: _Block, sample_ids: list[str], columns: _Columns, settings: Augmentation
) -> _Block:
    """Mix samples of one view; the first parents take turns, in an order drawn by the seed."""
    samples = len(sample_ids)
    if samples < 2:
        raise problem(
            "augmentation.cutmix",
            f"{settings.cutmix} with {samples} sample",
            "two samples at least to mix",
            "set augmentation.cutmix to 0, or add samples",
        )
    by_id = sorted(range(samples), key=sample_ids.__getitem__)
    name = ("cutmix", settings.seed, block.view)
    turns = sorted(range(samples), key=lambda position: seed_of(*name, sample_ids[by_id[position]]))
    rows = columns.rows(block.counts)
    made = []
    parents = []
    weights = []
    for number in range(round(settings.cutmix * samples)):
        position = turns[number % samples]
        first = by_id[position]
        rng = generator(*name, number // samples, sample_ids[first])
        # It is any of the other samples, but never the first one itself.
        second = by_id[(position + 1 + int(rng.integers(samples - 1))) % samples]
        mixed, weight = cutmix(rows[first], rows[second], rng)
        made.append(mixed)
        parents.append((first, second))
        weights.append((weight, 1 - weight))
    return _Block(
        AUGMENTED,
        columns.matrix(made),
        np.array(parents, dtype=np.int32),
        np.array(weights, dtype=np.float32),
    )


def _joined(sample_ids: list[str], views: int, blocks: Sequence[_Block]) -> SampleStore:
    rows = [block.counts.shape[0] for block in blocks]
    parents_per_row = np.repeat([block.parents.shape[1] for block in blocks], rows)
    asvs_per_row = np.concatenate([np.diff(block.counts.indptr) for block in blocks])
    return SampleStore(
        sample_ids=list(sample_ids),
        views=views,
        row_view=np.repeat(np.array([block.view for block in blocks], dtype=np.int32), rows),
        offsets=np.append(0, np.cumsum(asvs_per_row, dtype=np.int64)),
        asvs=np.concatenate([block.counts.indices for block in blocks]).astype(np.int32),
        counts=np.concatenate([block.counts.data for block in blocks]).astype(np.int32),
        parent_offsets=np.append(0, np.cumsum(parents_per_row, dtype=np.int64)),
        parents=np.concatenate([block.parents.ravel() for block in blocks]),
        weights=np.concatenate([block.weights.ravel() for block in blocks]),
    )
