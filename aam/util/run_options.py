"""What a run is granted and how it reports: nothing here changes a result."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class RunOptions:
    """Options of one run, which never change its result.

    Those without a word here are explained in `aam.config.sections.execution.Runtime`.
    """

    threads: int = 1
    """Cores granted."""
    workers: int = 0
    work: Path | None = None
    """Folder for checkpoints and scratch files, outside of the declared outputs."""
    deadline: float | None = None
    """Instant of `time.time` to leave by, with a checkpoint; None: none."""
    checkpoint_every_s: float = 60.0
    max_memory_gb: float | None = None
    memory_threshold: float = 0.8
    devices: int = 1
    nodes: int = 1
    strategy: Literal["ddp", "fsdp"] = "ddp"
    launched: bool = False
    """This process is one of several that pretrain together."""
    log_dir: Path | None = None
    """Folder for curves and profiles, next to the log; None: neither is written."""
    profile_steps: int = 0
