"""Rows with a part of their reads: a function of seed and step.

Shape suffixes: B rows of a batch, A ASVs of a row, F ASVs of the token store.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aam.config.sections.training import Pretraining
from aam.data.stores import SampleStore
from aam.distances.in_batch import BatchDistances
from aam.util.seeds import generator


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
        if self.exact.length_E.size and not self._height_F[asvs_A[is_left_A]].any():
            # Two rows without any length of branches would have the distance 0 / 0.
            return asvs_A, reads_A
        return asvs_A[is_left_A], drawn_A[is_left_A].astype(np.int32)

    @cached_property
    def _height_F(self) -> NDArray[np.float64]:
        """The distance of every ASV from the root."""
        return np.asarray(self.exact.above_FE @ self.exact.length_E)
