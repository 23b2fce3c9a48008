"""The batches of a training run: a function of the step alone, so that a run can begin anywhere.

Shape suffixes: B samples of a batch, N samples, C columns of a target, F metadata columns, U ASVs
of a batch or of the token store, D width, R rows of the store, K parents.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from aam.batches.asv_dropout import AsvDropout
from aam.batches.collate import SAMPLES_OF_ACCELERATOR, assemble, entries_of, sample_blocks
from aam.batches.masking import Masker
from aam.config.metrics import FAITH_PD
from aam.data.samples import SampleStore, places_of
from aam.data.tokens import TokenStore
from aam.model.batch import CATEGORIES, EMBEDDING, Batch
from aam.unifrac.in_batch import BatchDistances
from aam.util.seeds import generator, seed_of


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
    """Step to batch."""

    store: SampleStore
    tokens: TokenStore
    samples: NDArray[np.int64]
    """Positions of the training samples among the store's samples."""
    batch_size: int
    epochs: int
    seed: int
    masker: Masker | None = None
    distances: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Per metric the matrices [V, N, N] of all V views."""
    exact: BatchDistances | None = None
    """Computes the distances of a batch from the reads of its rows, in place of `distances`."""
    values: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Per name the targets [N, C] of all samples."""
    asv_dropout: AsvDropout | None = None
    category_NF: NDArray[np.int64] | None = None
    """Categories of all samples by their numbers."""
    at_once: int | None = None
    """Samples of a block at most; None: as many as suit a CPU."""

    def __post_init__(self) -> None:
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
        batch = self.assemble(rows_B, step)
        batch.values.update(self.targets(rows_B))
        if self.exact is not None:
            counts_BF = self.store.counts_of(rows_B, len(self.tokens.lengths))
            for name, exact in self.exact(counts_BF).items():
                # Faith's PD is a value of each sample, [B, 1]; the others are distances [B, B].
                targets = batch.values if name == FAITH_PD else batch.distances
                targets[name] = torch.from_numpy(exact.astype(np.float32))
            return batch
        parents, weight_BK = parent_shares(self.store, rows_B)
        for name, matrices in self.distances.items():
            # The distances of a mixed row are the weighted means of its parents' distances.
            mixed_BB = weight_BK @ matrices[view][np.ix_(parents, parents)] @ weight_BK.T
            np.fill_diagonal(mixed_BB, 0.0)
            batch.distances[name] = torch.from_numpy(mixed_BB.astype(np.float32))
        return batch

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
            Where the batches will be worked.

        Returns
        -------
        BatchDataset
            The same object on a CPU.
        """
        return self if device.type == "cpu" else replace(self, at_once=SAMPLES_OF_ACCELERATOR)

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
            The view that they come from.
        """
        epoch, position = divmod(step, self.steps_per_epoch)
        order = generator("order", self.seed, epoch).permutation(self.samples)
        members_B = np.array_split(order, self.steps_per_epoch)[position]
        view = seed_of("view", self.seed, step) % self.store.views
        starts, rows = self._augmented  # type: ignore[attr-defined]
        extra_B = starts[members_B + 1] - starts[members_B]
        base_B = view * len(self.store.sample_ids) + members_B
        if not extra_B.any():
            return base_B, view
        draw_B = generator("row", self.seed, step).integers(0, extra_B + 1)
        chosen_B = np.minimum(starts[members_B] + draw_B, len(rows) - 1)
        return np.where(draw_B == extra_B, base_B, rows[chosen_B]), view

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
    """For heads on a frozen encoder: `embedding_RD` are the embeddings of all rows of the store."""

    embedding_RD: torch.Tensor = field(default_factory=lambda: torch.empty(0))

    def __getitem__(self, step: int) -> Batch:
        """Return embeddings and targets of one step, without ASVs and samples."""
        rows_B, _ = self.rows(step)
        embedding_BD = self.embedding_RD[torch.from_numpy(rows_B)]
        values = {**self.targets(rows_B), EMBEDDING: embedding_BD}
        order_B = torch.arange(len(rows_B))
        return Batch(asvs=[], samples=[], order_B=order_B, distances={}, values=values)


@dataclass(frozen=True, eq=False)
class AsvDataset(BatchDataset):
    """For training the sample level alone: `asv_UD` are embeddings of the token store's ASVs."""

    asv_UD: torch.Tensor = field(default_factory=lambda: torch.empty(0))

    def assemble(self, rows_B: NDArray[np.int64], step: int) -> Batch:
        """Return the batch of some rows, with embeddings instead of sequences."""
        entries, distinct_U, place = entries_of(self.store, rows_B, self.asv_dropout, step)
        samples, order_B = sample_blocks(place, entries, self.at_once)
        embedded_UD = self.asv_UD[torch.from_numpy(distinct_U.astype(np.int64))]
        return Batch([], samples, order_B, {}, {}, embedded_UD)


def augmented_rows(
    store: SampleStore, samples: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return per sample the augmented rows whose first parent it is, in compressed form.

    Rows with a parent outside of `samples` are left out: they would leak held-out samples.
    """
    rows = np.flatnonzero(store.row_view < 0)
    is_allowed = np.isin(store.parents, samples)
    inside = [is_allowed[slice(*store.parent_offsets[row : row + 2])].all() for row in rows]
    rows = rows[np.array(inside, bool)]
    first = store.parents[store.parent_offsets[rows]]
    order = np.argsort(first, kind="stable")
    starts = np.searchsorted(first[order], np.arange(len(store.sample_ids) + 1))
    return starts, rows[order]


def parent_shares(
    store: SampleStore, rows_B: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the K distinct parents of some rows and the weight of each in each row [B, K]."""
    flat, number_B = places_of(store.parent_offsets, rows_B)
    parents, place = np.unique(store.parents[flat], return_inverse=True)
    weight_BK = np.zeros((len(rows_B), len(parents)), np.float32)
    np.add.at(weight_BK, (np.repeat(np.arange(len(rows_B)), number_B), place), store.weights[flat])
    return parents.astype(np.int64), weight_BK
