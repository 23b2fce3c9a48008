"""The processes that train one model together."""

import logging
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from filelock import FileLock, Timeout

from aam.util.errors import problem

logger = logging.getLogger(__name__)
_LOCKS: list[FileLock] = []


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
