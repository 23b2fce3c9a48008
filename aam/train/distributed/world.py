"""The processes that train one model together."""

from dataclasses import dataclass
from typing import Literal

import torch

from aam.util.errors import problem


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


def check_granted(world: World) -> None:
    """Raise InputError where there are accelerators, but fewer than processes."""
    granted = torch.cuda.device_count()
    if torch.cuda.is_available() and granted < world.devices:
        got = f"{world.devices}, but this job was granted {granted} of the accelerators"
        hint = "grant the job as many (under Snakemake `--resources gpu=N` must not be lower; on "
        hint += "SLURM the node must have them), or set runtime.devices to what there is"
        raise problem("runtime.devices", got, f"at most {granted}", hint)
