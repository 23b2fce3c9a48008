"""The batches of a training run: a function of the step alone, so that a run can begin anywhere.

Shape suffixes: B samples of a batch, N samples, C columns of a target, F metadata columns, U ASVs
of a batch or of the token store, A ASVs of a row, E branches, D width, R rows of the store,
K parents.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from aam.batches.collate import (
    ACCELERATOR_SAMPLES_PER_BLOCK,
    assemble,
    entries_of,
    sample_blocks,
)
from aam.batches.masking import AsvDropout, Masker
from aam.config.metrics import FAITH_PD
from aam.config.sections.training import Pretraining
from aam.data.stores import SampleStore, TokenStore, places_of
from aam.distances.in_batch import BatchDistances
from aam.model.batch import CATEGORIES, EMBEDDING, Batch
from aam.util.seeds import generator, seed_of


@dataclass(frozen=True, eq=False)
class Subsampling:
    """Draws reads of every row in the first steps of a run.

    Rows have fewer ASVs then, so that the steps are faster. Their distances are computed from the
    reads that were drawn, whose number grows from step to step (`Pretraining.subsampled_reads`).
    """

    steps: int
    """Number of steps, from the first, in which rows are subsampled."""
    seed: int
    """Seed of the draws."""
    exact: BatchDistances
    """Computes the distances of subsampled rows."""

    def is_due(self, step: int) -> bool:
        """Return whether rows are subsampled in a step.

        Parameters
        ----------
        step
            Number of the step, from 0.
        """
        return step < self.steps

    def draw(self, store: SampleStore, rows_B: NDArray[np.int64], step: int) -> SampleStore:
        """Draw reads of some rows without replacement, as a rarefaction does.

        Parameters
        ----------
        store
            All samples.
        rows_B
            Rows of the store.
        step
            Number of the step, from 0.

        Returns
        -------
        SampleStore
            The rows as samples of one view, in their order.
        """
        # The first word is a part of the seed: another one would draw other reads.
        rng = generator("thinning", self.seed, step)
        done = step / self.steps
        drawn = [self._draw_row(store, row, done, rng) for row in rows_B]
        asvs, counts = zip(*drawn, strict=True)
        rows = len(rows_B)
        return SampleStore(
            sample_ids=[str(row) for row in rows_B],
            views=1,
            row_view=np.zeros(rows, np.int32),
            offsets=np.cumsum([0, *map(len, asvs)]),
            asvs=np.concatenate(asvs),
            counts=np.concatenate(counts),
            parent_offsets=np.arange(rows + 1),
            parents=np.arange(rows, dtype=np.int32),
            weights=np.ones(rows, np.float32),
        )

    def _draw_row(
        self, store: SampleStore, row: int, done: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the ASVs of a row that have reads after the draw, and these reads."""
        entries = slice(store.offsets[row], store.offsets[row + 1])
        asvs_A, reads_A = store.asvs[entries], store.counts[entries]
        wanted = Pretraining.subsampled_reads(int(reads_A.sum()), done)
        drawn_A = rng.multivariate_hypergeometric(reads_A, wanted, method="marginals")
        is_left_A = drawn_A > 0
        if self.exact.length_E.size and not self._height_U[asvs_A[is_left_A]].any():
            # Two rows without any length of branches would have the distance 0 / 0.
            return asvs_A, reads_A
        return asvs_A[is_left_A], drawn_A[is_left_A].astype(np.int32)

    @cached_property
    def _height_U(self) -> NDArray[np.float64]:
        """The distance of every ASV from the root."""
        return np.asarray(self.exact.above_FE @ self.exact.length_E)


def number_of_batches(samples: int, batch_size: int) -> int:
    """Return how many batches samples are split into.

    The batches are of nearly equal size, and each has two samples at least.

    Parameters
    ----------
    samples
        Number of samples.
    batch_size
        Most samples of a batch.

    Returns
    -------
    int
        1 at least.
    """
    return max(1, min(-(-samples // batch_size), samples // 2))


@dataclass(frozen=True, eq=False)
class BatchDataset(Dataset[Batch]):
    """The batches of a run: element i is the batch of step i."""

    store: SampleStore
    """All samples, with their augmented rows."""
    tokens: TokenStore
    """Their ASVs."""
    samples: NDArray[np.int64]
    """Positions of the training samples among the store's samples."""
    batch_size: int
    """Most samples of a batch."""
    epochs: int
    """Number of epochs; each training sample occurs once per epoch."""
    seed: int
    """Seed of the order of the samples, and of the choice of views and augmented rows."""
    masker: Masker | None = None
    """Masks nucleotides, by the epoch; None: none are masked."""
    distances: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Per metric the matrices [V, N, N] of all V views."""
    exact: BatchDistances | None = None
    """Computes the distances of a batch from the reads of its rows, in place of `distances`."""
    values: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Per name the targets [N, C] of all samples."""
    asv_dropout: AsvDropout | None = None
    """Leaves out ASVs, by the step; None: all stay."""
    category_NF: NDArray[np.int64] | None = None
    """Categories of all samples by their numbers; None: there are no covariates."""
    at_once: int | None = None
    """Most samples of a block; None: as many as suit a CPU."""
    subsampling: Subsampling | None = None
    """Draws reads of the rows in the first steps; None: all rows are whole."""

    def __post_init__(self) -> None:
        # A frozen dataclass refuses a plain assignment. This is no field: `replace` makes it again.
        object.__setattr__(self, "_augmented", augmented_rows(self.store, self.samples))

    @property
    def steps_per_epoch(self) -> int:
        """Batches that the samples are split into."""
        return number_of_batches(len(self.samples), self.batch_size)

    def __len__(self) -> int:
        """Return the number of steps of the whole run."""
        return self.steps_per_epoch * self.epochs

    def __getitem__(self, step: int) -> Batch:
        """Return the batch of one step."""
        rows_B, view = self.rows(step)
        if self.subsampling is not None and self.subsampling.is_due(step):
            return self._subsampled_batch(rows_B, step, self.subsampling)
        batch = self.assemble(rows_B, step)
        batch.values.update(self.targets(rows_B))
        if self.exact is not None:
            self._add_exact_distances(batch, rows_B, self.exact)
        else:
            self._add_mixed_distances(batch, rows_B, view)
        return batch

    def _subsampled_batch(
        self, rows_B: NDArray[np.int64], step: int, subsampling: Subsampling
    ) -> Batch:
        """Return the batch of some rows with a part of their reads, and the distances of these."""
        drawn = replace(self, store=subsampling.draw(self.store, rows_B, step), subsampling=None)
        # The drawn store numbers its rows from 0. Targets are those of the rows that they were
        # drawn from.
        drawn_rows_B = np.arange(len(rows_B))
        batch = drawn.assemble(drawn_rows_B, step)
        batch.values.update(self.targets(rows_B))
        drawn._add_exact_distances(batch, drawn_rows_B, subsampling.exact)
        return batch

    def whole(self) -> Self:
        """Return the same batches, in all of which the rows have all of their reads."""
        return replace(self, subsampling=None)

    def _add_exact_distances(
        self, batch: Batch, rows_B: NDArray[np.int64], exact: BatchDistances
    ) -> None:
        """Compute the distances of the batch from the reads of its rows."""
        counts_BF = self.store.counts_of(rows_B, len(self.tokens.lengths))
        for name, values in exact(counts_BF).items():
            # Faith's PD is a value of each sample, [B, 1]; the others are distances [B, B].
            targets = batch.values if name == FAITH_PD else batch.distances
            targets[name] = torch.from_numpy(values.astype(np.float32))

    def _add_mixed_distances(self, batch: Batch, rows_B: NDArray[np.int64], view: int) -> None:
        """Take the distances of the batch from the matrices of a view.

        The distances of a mixed row are the weighted means of its parents' distances.
        """
        parents, weight_BK = parent_shares(self.store, rows_B)
        for name, matrices in self.distances.items():
            parent_KK = matrices[view][np.ix_(parents, parents)]
            # Two products over the few distinct parents of the batch, in place of a sum for each
            # pair of rows.
            mixed_BB = weight_BK @ parent_KK @ weight_BK.T
            # A weighted mean over a mixed row's parents would put it at a distance from itself.
            np.fill_diagonal(mixed_BB, 0.0)
            batch.distances[name] = torch.from_numpy(mixed_BB.astype(np.float32))

    def assemble(self, rows_B: NDArray[np.int64], step: int) -> Batch:
        """Return the batch of some rows, without targets.

        Parameters
        ----------
        rows_B
            Rows of the store.
        step
            Number of the step, from 0; what is masked and left out depends on it.

        Returns
        -------
        Batch
            On the host; its samples are in the order of `rows_B`.
        """
        return assemble(
            self.store,
            self.tokens,
            rows_B,
            masker=self.masker,
            epoch=step // self.steps_per_epoch,
            asv_dropout=self.asv_dropout,
            step=step,
            at_once=self.at_once,
        )

    def for_device(self, device: torch.device) -> Self:
        """Return the same batches, in blocks that suit a device.

        Parameters
        ----------
        device
            Where the model computes on the batches.

        Returns
        -------
        BatchDataset
            The same object on a CPU.
        """
        if device.type == "cpu":
            return self
        return replace(self, at_once=ACCELERATOR_SAMPLES_PER_BLOCK)

    def rows(self, step: int) -> tuple[NDArray[np.int64], int]:
        """Return the rows of one step.

        A sample's row is that of the view or one of its augmented rows, all equally likely.

        Parameters
        ----------
        step
            Number of the step, from 0.

        Returns
        -------
        rows_B : numpy.ndarray
            Rows of the store, int64.
        view : int
            The view whose rows and distances the step uses.
        """
        epoch, position = divmod(step, self.steps_per_epoch)
        order = generator("order", self.seed, epoch).permutation(self.samples)
        members_B = np.array_split(order, self.steps_per_epoch)[position]
        view = seed_of("view", self.seed, step) % self.store.views
        starts, augmented = self._augmented  # type: ignore[attr-defined]
        number_B = starts[members_B + 1] - starts[members_B]
        view_row_B = view * len(self.store.sample_ids) + members_B
        if not number_B.any():
            return view_row_B, view
        # A sample has one choice for each of its augmented rows, and a last one for its row of the
        # view.
        draw_B = generator("row", self.seed, step).integers(0, number_B + 1)
        # The bound keeps the index valid where the view is chosen and the value is not used.
        index_B = np.minimum(starts[members_B] + draw_B, len(augmented) - 1)
        return np.where(draw_B == number_B, view_row_B, augmented[index_B]), view

    def targets(self, rows_B: NDArray[np.int64]) -> dict[str, torch.Tensor]:
        """Return targets and categories of some rows.

        Parameters
        ----------
        rows_B
            Rows of the store.

        Returns
        -------
        dict
            By name, the weighted means of the parents' values [B, C] and, as `CATEGORIES`, the
            categories [B, F] of the main parent.
        """
        parents, weight_BK = parent_shares(self.store, rows_B)
        targets = {
            name: torch.from_numpy(weight_BK @ values_NC[parents])
            for name, values_NC in self.values.items()
        }
        if self.category_NF is not None:
            main_B = parents[weight_BK.argmax(axis=1)]
            targets[CATEGORIES] = torch.from_numpy(self.category_NF[main_B])
        return targets


@dataclass(frozen=True, eq=False)
class EmbeddingDataset(BatchDataset):
    """For heads on a frozen encoder: embeddings of samples take the place of their ASVs."""

    embedding_RD: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    """Embeddings of all rows of the store."""

    def __getitem__(self, step: int) -> Batch:
        """Return embeddings and targets of one step, without ASVs and samples."""
        rows_B, _ = self.rows(step)
        embedding_BD = self.embedding_RD[torch.from_numpy(rows_B)]
        values = {**self.targets(rows_B), EMBEDDING: embedding_BD}
        order_B = torch.arange(len(rows_B))
        return Batch(asvs=[], samples=[], order_B=order_B, distances={}, values=values)


@dataclass(frozen=True, eq=False)
class AsvDataset(BatchDataset):
    """For training the sample level alone: embeddings of ASVs take the place of sequences."""

    asv_UD: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    """Embeddings of all ASVs of the token store."""

    def assemble(self, rows_B: NDArray[np.int64], step: int) -> Batch:
        """Return the batch of some rows, with embeddings instead of sequences.

        Parameters and result are those of `BatchDataset.assemble`.
        """
        entries, distinct_U, index = entries_of(self.store, rows_B, self.asv_dropout, step)
        samples, order_B = sample_blocks(index, entries, self.at_once)
        embedded_UD = self.asv_UD[torch.from_numpy(distinct_U.astype(np.int64))]
        return Batch(
            asvs=[],
            samples=samples,
            order_B=order_B,
            distances={},
            values={},
            embedded_UD=embedded_UD,
        )


def augmented_rows(
    store: SampleStore, samples: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return per sample the augmented rows whose first parent it is, in compressed form.

    Rows with a parent outside of `samples` are left out: they would leak held-out samples.

    Parameters
    ----------
    store
        Samples and their augmented rows.
    samples
        Positions of the training samples.

    Returns
    -------
    starts : numpy.ndarray
        Where the rows of each sample begin in `rows`; the last number is their total, [N + 1].
    rows : numpy.ndarray
        Augmented rows, sample after sample.
    """
    rows = np.flatnonzero(store.row_view < 0)
    is_allowed = np.isin(store.parents, samples)
    is_kept = np.zeros(len(rows), bool)
    for number, row in enumerate(rows):
        start, stop = store.parent_offsets[row : row + 2]
        is_kept[number] = is_allowed[start:stop].all()
    rows = rows[is_kept]
    first_parents = store.parents[store.parent_offsets[rows]]
    order = np.argsort(first_parents, kind="stable")
    starts = np.searchsorted(first_parents[order], np.arange(len(store.sample_ids) + 1))
    return starts, rows[order]


def parent_shares(
    store: SampleStore, rows_B: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the parents of some rows, and their weights.

    Parameters
    ----------
    store
        Samples and their augmented rows.
    rows_B
        Rows of the store.

    Returns
    -------
    parents : numpy.ndarray
        The K distinct parents of all these rows, int64.
    weight_BK : numpy.ndarray
        Weight of each parent in each row, fp32.
    """
    flat, number_B = places_of(store.parent_offsets, rows_B)
    parents, index = np.unique(store.parents[flat], return_inverse=True)
    weight_BK = np.zeros((len(rows_B), len(parents)), np.float32)
    row = np.repeat(np.arange(len(rows_B)), number_B)
    np.add.at(weight_BK, (row, index), store.weights[flat])
    return parents.astype(np.int64), weight_BK
