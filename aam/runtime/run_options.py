"""What a run is granted and how it reports: nothing here changes a result."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class RunOptions:
    """Options of one run, which never change its result."""

    threads: int = 1
    """Cores granted."""
    workers: int = 0
    """Processes that assemble batches for an accelerator; a CPU assembles its own."""
    work: Path | None = None
    """Folder for checkpoints and scratch files, outside of the declared outputs."""
    deadline: float | None = None
    """Instant of `time.time` to leave by, with a checkpoint; None: none."""
    checkpoint_every_s: float = 60.0
    """Seconds between checkpoints."""
    max_memory_gb: float | None = None
    """Memory that a training step may take; None: what is free."""
    devices: int = 1
    """Processes that pretrain together on each node."""
    nodes: int = 1
    """Nodes that pretrain together."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """Whether each of them holds the whole model (ddp), or a shard of it (fsdp)."""
    launched: bool = False
    """This process is one of them."""
    log_dir: Path | None = None
    """Folder for curves and profiles, beside the log; None: neither is written."""
    profile_steps: int = 0
    """Steps to record with torch.profiler."""
