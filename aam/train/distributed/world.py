"""The processes that train one model together."""

from dataclasses import dataclass
from typing import Literal

import torch

from aam.util.errors import problem


@dataclass(frozen=True)
class World:
    """The processes that train one model together.

    Attributes
    ----------
    devices
        Processes on each node: one per accelerator, or so many on a CPU.
    nodes
        Machines.
    strategy
        - ``ddp``: every process holds the whole model and its optimizer
        - ``fsdp``: weights, gradients and moments are divided among the processes
    """

    devices: int = 1
    nodes: int = 1
    strategy: Literal["ddp", "fsdp"] = "ddp"

    @property
    def processes(self) -> int:
        """Number of processes."""
        return self.devices * self.nodes


ONE_PROCESS = World()
"""One process."""


def check_granted(world: World) -> None:
    """Stop where there are accelerators, but fewer than processes.

    Raises
    ------
    InputError
        In that case.
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
