"""The door between a Snakemake script and a stage."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aam.config.sections.execution import Runtime
from aam.util import log
from aam.util.errors import InputError
from aam.util.leftovers import remove_leftovers
from aam.util.worklog import at_work

Files = Mapping[str, Any]
"""Paths by name; a name with several files maps to a list of paths."""


@dataclass(frozen=True)
class RunContext:
    """Means of one run, which never change its result."""

    threads: int = 1
    """Cores granted."""
    workers: int = 0
    """Processes that assemble batches."""
    work: Path | None = None
    """Folder for checkpoints and scratch files, outside of the declared outputs."""
    time_limit_s: float | None = None
    """Wall-clock seconds that a scheduler granted; None: no limit."""
    log_every_s: float = 10.0
    """Seconds between progress lines."""
    checkpoint_every_s: float = 60.0
    """Seconds between checkpoints."""
    max_memory_gb: float | None = None
    """Memory that a training step may take; None: what is free."""
    devices: int = 1
    """Processes that pretrain together on each node."""
    nodes: int = 1
    """Nodes that pretrain together."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """Whether each of them holds the whole model."""
    launched: bool = False
    """This process is one of them."""
    notes: Path | None = None
    """Folder for curves and profiles, beside the log; None: neither is written."""
    tensorboard: bool = False
    """Write curves for TensorBoard."""
    profile_steps: int = 0
    """Steps to record with torch.profiler."""


def main(run: Callable[..., None], snakemake: Any) -> None:
    """Run a stage on behalf of a Snakemake script.

    A problem of the user's input ends as one message and exit code 1, without a traceback.

    Parameters
    ----------
    run
        The stage's `run` function.
    snakemake
        The object that Snakemake puts into the script.
    """
    log_file = Path(snakemake.log[0]) if snakemake.log else None
    log.start(log_file)
    settings = Runtime.model_validate(snakemake.config.get("runtime") or {})
    work = snakemake.params.get("work")
    # Only a scheduler ends a job at its limit: on a workstation a long training goes on.
    minutes = snakemake.resources.get("runtime") if "SLURM_JOB_ID" in os.environ else None
    context = RunContext(
        threads=snakemake.threads,
        workers=settings.workers,
        work=Path(work) if work else None,
        time_limit_s=60.0 * minutes if isinstance(minutes, int | float) else None,
        log_every_s=settings.log_every_s,
        checkpoint_every_s=settings.checkpoint_every_s,
        max_memory_gb=settings.max_memory_gb,
        devices=settings.devices,
        nodes=settings.nodes,
        strategy=settings.strategy,
        notes=log_file.with_suffix("") if log_file is not None else None,
        tensorboard=settings.tensorboard,
        profile_steps=settings.profile_steps,
    )
    outputs = _paths(snakemake.output)
    remove_leftovers(outputs.values())
    try:
        with at_work():
            run(
                snakemake.params.cfg,
                inputs=_paths(snakemake.input),
                outputs=outputs,
                runtime=context,
            )
    except InputError as error:
        # A cluster job's standard error is far away: its log is where Snakemake points to.
        if log_file is not None:
            with log_file.open("a", encoding="utf-8") as handle:
                handle.write(f"{error}\n")
        sys.exit(f"\n{error}\n")


def _paths(names: Any) -> dict[str, Any]:
    return {
        name: Path(value) if isinstance(value, str) else [Path(item) for item in value]
        for name, value in names.items()
    }
