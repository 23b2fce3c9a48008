"""Made-up samples of real ASVs, to vary how many of a batch's ASVs are distinct.

Shape suffixes: B samples of a batch, A ASVs in a sample.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aam.model.batch import Batch
from aam.train.data.collate import assemble
from aam.train.data.dataset import BatchDataset
from aam.util.seeds import generator


@dataclass(frozen=True, eq=False)
class PooledDataset(BatchDataset):
    """A dataset whose samples draw their ASVs from a pool, to vary how many are distinct.

    Attributes
    ----------
    pool
        Number of ASVs to draw from: the first of the token store.
    richness
        Number A of ASVs in every sample.
    """

    pool: int = 1024
    richness: int = 64

    def assemble(self, rows_B: NDArray[np.int64], epoch: int) -> Batch:
        """Return a batch of made-up samples; nothing of the rows but their number matters."""
        size = len(rows_B)
        draws = [generator("pool", self.seed, epoch, row) for row in rows_B.tolist()]
        chosen_BA = [np.sort(d.choice(self.pool, self.richness, replace=False)) for d in draws]
        store = replace(
            self.store,
            sample_ids=[str(row) for row in rows_B],
            views=1,
            row_view=np.zeros(size, np.int32),
            offsets=np.arange(size + 1, dtype=np.int64) * self.richness,
            asvs=np.concatenate(chosen_BA).astype(np.int32),
            counts=np.ones(size * self.richness, np.int32),
            parent_offsets=np.arange(size + 1, dtype=np.int64),
            parents=np.arange(size, dtype=np.int32),
            weights=np.ones(size, np.float32),
        )
        return assemble(store, self.tokens, np.arange(size), masker=self.masker, epoch=epoch)
