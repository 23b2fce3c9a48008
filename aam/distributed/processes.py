"""Values that the processes which train one model exchange, on the host.

Shape suffixes: W processes, N rows.
"""

from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from aam.distributed.world import World

T = TypeVar("T")


class Processes:
    """The processes that train one model together, as one of them sees them.

    All of them have to call each method that exchanges values.

    Parameters
    ----------
    world
        How many processes there are.
    rank
        Number of this process, from 0.
    host_group
        The group of torch.distributed that exchanges values on the host; None: the default one.

    Attributes
    ----------
    world
        How many processes there are.
    rank
        Number of this process, from 0.
    """

    def __init__(self, world: World, rank: int = 0, host_group: Any = None) -> None:
        self.world = world
        self.rank = rank
        self._host_group = host_group

    @property
    def processes(self) -> int:
        """Number of processes that work together."""
        return self.world.processes

    def shard(self, all_N: NDArray[Any]) -> NDArray[Any]:
        """Return every W-th row of an array: the rows of this process.

        Parameters
        ----------
        all_N
            Rows of all processes.

        Returns
        -------
        numpy.ndarray
            A view of the array.
        """
        return all_N[self.rank :: self.processes]

    def all_gather(self, shard_N: Tensor, number: int) -> Tensor:
        """Return the rows of all processes in their order.

        Parameters
        ----------
        shard_N
            What this process computed for the rows that `shard` chose, on the host.
        number
            Number of rows of all processes.

        Returns
        -------
        torch.Tensor
            All rows, [number, ...].
        """
        if self.processes == 1:
            return shard_N
        most = -(-number // self.processes)
        padded = shard_N.new_zeros(most, *shard_N.shape[1:])
        padded[: len(shard_N)] = shard_N
        all_WN = shard_N.new_empty(self.processes * most, *shard_N.shape[1:])
        dist.all_gather_single(all_WN, padded, group=self._host_group)
        by_row = all_WN.unflatten(0, (self.processes, most)).transpose(0, 1)
        return by_row.flatten(0, 1)[:number]

    def all_reduce_sum(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of an array of counts over all processes.

        Parameters
        ----------
        counts
            Counts of this process, int64.

        Returns
        -------
        numpy.ndarray
            int64, the same in all processes.
        """
        return self._all_reduce(torch.from_numpy(counts.copy()), dist.ReduceOp.SUM).numpy()

    def all_reduce_min(self, number: int) -> int:
        """Return the smallest of the numbers that the processes have.

        Parameters
        ----------
        number
            Number of this process.

        Returns
        -------
        int
            The same in all processes.
        """
        return int(self._all_reduce(torch.tensor(number), dist.ReduceOp.MIN))

    def _all_reduce(self, value: Tensor, operation: Any) -> Tensor:
        if self.processes > 1:
            dist.all_reduce(value, operation, group=self._host_group)
        return value

    def broadcast(self, value: T) -> T:
        """Return the value of the first process; no accelerator is waited for.

        Parameters
        ----------
        value
            Plain values. Those of other processes than the first are ignored.

        Returns
        -------
        Any
            The same in all processes.
        """
        if self.processes == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, 0, group=self._host_group)
        return values[0]

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.processes > 1:
            dist.barrier(group=self._host_group)
