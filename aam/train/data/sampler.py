"""Which samples meet in a batch, where the distances of any with any are too far apart on a disk.

Shape suffixes: N samples of the store.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aam.util.seeds import generator

BLOCK = 256
"""Samples of a block: a tile of the distances between two blocks is 256 KiB."""
POOL = 16
"""Blocks of a pool: its distances are 64 MiB per metric and view."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Samples in a line, cut into blocks of neighbours that stay together in every epoch.

    An epoch puts the blocks into pools, anew in each, and batches are drawn within a pool. The line
    is random, so that a batch of the first epoch is like any other random one; of two samples of
    one block it is only more likely than of others that they meet again. `line_N` has the
    `training` samples first; a block has `size` samples, and a pool `pool` blocks.
    """

    line_N: NDArray[np.int64]
    training: int
    size: int = BLOCK
    pool: int = POOL

    @classmethod
    def of(cls, samples: NDArray[np.int64], number: int, seed: int) -> "Blocks":
        """Draw a line of `number` samples, of which only those of training are shuffled.

        The others lie behind them together, where validation reads them.
        """
        drawn = generator("line", seed).permutation(samples)
        others = np.setdiff1d(np.arange(number), samples)
        return cls(np.concatenate([drawn, others]), len(samples))

    @cached_property
    def place_N(self) -> NDArray[np.int64]:
        """Where in the line every sample of the store is."""
        return np.argsort(self.line_N)

    @property
    def training_line(self) -> NDArray[np.int64]:
        """The training samples in the order of the line."""
        return self.line_N[: self.training]

    def order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """Return the training samples in the order of an epoch: pool after pool, each shuffled."""
        rng = generator("order of blocks", seed, epoch)
        blocks = -(-self.training // self.size)
        pools = -(-blocks // self.pool)
        # Pools of nearly equal numbers of blocks: in a pool of one block no others would meet.
        pool_of_block = rng.permutation(np.arange(blocks) * pools // blocks)
        places = rng.permutation(self.training)
        by_pool = np.argsort(pool_of_block[places // self.size], kind="stable")
        return self.line_N[places[by_pool]]
