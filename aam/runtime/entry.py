"""The door between a Snakemake script and a stage."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aam.config.sections.execution import Runtime
from aam.runtime.run_options import RunOptions
from aam.util import log
from aam.util.errors import InputError
from aam.util.leftovers import remove_leftovers
from aam.util.worklog import at_work

Files = Mapping[str, Any]
"""Paths by name; a name with several files maps to a list of paths."""


MARGIN_S = 180.0
"""Seconds kept before a time limit for the checkpoint and the scheduler."""


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
    deadline = None
    if isinstance(minutes, int | float):
        deadline = time.time() + 60.0 * minutes - MARGIN_S
    context = RunOptions(
        threads=snakemake.threads,
        workers=settings.workers,
        work=Path(work) if work else None,
        deadline=deadline,
        checkpoint_every_s=settings.checkpoint_every_s,
        max_memory_gb=settings.max_memory_gb,
        devices=settings.devices,
        nodes=settings.nodes,
        strategy=settings.strategy,
        log_dir=log_file.with_suffix("") if log_file is not None else None,
        tensorboard=True,
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
