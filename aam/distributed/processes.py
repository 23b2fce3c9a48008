"""The processes that train one model together, their devices, and the values that they exchange.

Shape suffixes: W processes, N rows.
"""

import logging
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from torch import Tensor

from aam.util.errors import problem

logger = logging.getLogger(__name__)
_LOCKS: list[FileLock] = []
T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """The processes that train one model together: one, unless said otherwise."""

    devices: int = 1
    """Processes on each node: one per accelerator, or so many on a CPU."""
    nodes: int = 1
    """Machines."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """Whether every process holds the whole model and its optimizer, or a shard of them."""

    @property
    def processes(self) -> int:
        """Number of processes."""
        return self.devices * self.nodes


@cache
def claim_accelerator() -> int:
    """Claim the first accelerator that no other job holds; this process holds it to its end.

    Returns
    -------
    int
        Number of the accelerator. Where no other one is left it may be shared: the first whose lock
        cannot be opened, or else 0.
    """
    unopened: dict[int, Path] = {}
    for device in range(torch.cuda.device_count()):
        uuid = torch.cuda.get_device_properties(device).uuid
        path = Path(tempfile.gettempdir(), f"aam-accelerator-{uuid}.lock")
        # The file stays when its job has ended, and the next job may be that of another user.
        lock = FileLock(path, mode=0o666)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        except PermissionError:
            unopened[device] = path
            continue
        _LOCKS.append(lock)
        torch.cuda.set_device(device)
        return device
    if unopened:
        device, path = next(iter(unopened.items()))
        logger.warning("%s cannot be opened: other jobs may use accelerator %d, too", path, device)
        torch.cuda.set_device(device)
        return device
    logger.warning("other jobs use all accelerators: sharing the first")
    return 0


def release_device() -> None:
    """Leave this process's accelerator to those that it starts."""
    for lock in _LOCKS:
        lock.release()


def check_granted(world: World) -> None:
    """Check that every process of a node gets an accelerator, where there are any.

    Parameters
    ----------
    world
        The processes.

    Raises
    ------
    InputError
        There are accelerators, but fewer than processes.
    """
    granted = torch.cuda.device_count()
    if torch.cuda.is_available() and granted < world.devices:
        raise problem(
            "runtime.devices",
            f"{world.devices}, but this job was granted {granted} of the accelerators",
            f"at most {granted}",
            "grant the job as many (under Snakemake `--resources gpu=N` must not be lower; on "
            "SLURM the node must have them), or set runtime.devices to what there is",
        )


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
        # Every process has to send as many rows. Padding can only be the last row of a shard, so
        # that it lies behind all others in the end.
        padded = shard_N.new_zeros(most, *shard_N.shape[1:])
        padded[: len(shard_N)] = shard_N
        all_WN = shard_N.new_empty(self.processes * most, *shard_N.shape[1:])
        dist.all_gather_single(all_WN, padded, group=self._host_group)
        # Process w holds the rows w, W + w, 2 W + w and so on: transposed, they are in their order.
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
