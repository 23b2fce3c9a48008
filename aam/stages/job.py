"""What surrounds the work of every Snakemake script: options, digests, the log, errors."""

import errno
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from aam.config.sections.execution import Runtime
from aam.util import log
from aam.util.atomic import remove_partial
from aam.util.errors import InputError, problem
from aam.util.log import log_work
from aam.util.records import check_digests, forget_digests, write_digests
from aam.util.run_options import RunOptions

Files = Mapping[str, Any]
"""Paths by name, or lists of them."""
MARGIN_S = 180.0
"""Seconds kept before a time limit for the checkpoint and the scheduler."""


@dataclass(frozen=True)
class Job:
    """What a rule gives its script."""

    settings: Any
    """The part of the configuration that the rule depends on: a model of `aam.config.settings`,
    read from `params.settings`, or these themselves."""
    inputs: Files
    outputs: Files
    runtime: RunOptions


@contextmanager
def run_job(snakemake: Any, model: type[BaseModel] | None = None) -> Iterator[Job]:
    """Surround what a script does: log, digests of inputs and outputs, partial files, errors.

    Parameters
    ----------
    snakemake
        The object that Snakemake puts into every script.
    model
        What the settings of the rule are read as; None: they are plain.

    Yields
    ------
    Job
        Settings, files and options of the job.

    Raises
    ------
    SystemExit
        After an InputError, with exit code 1: an input is no longer what its stage wrote, the disk
        is full, or a file of the user has a problem. The message is the last thing in the log.
    """
    log_file = Path(snakemake.log[0]) if snakemake.log else None
    log.start_log(log_file)
    settings = snakemake.params.settings
    job = Job(
        settings=settings if model is None else model.model_validate(settings),
        inputs=_paths(snakemake.input),
        outputs=_paths(snakemake.output),
        runtime=_run_options(snakemake, log_file),
    )
    remove_partial(job.outputs.values())
    forget_digests(_listed(job.outputs))
    try:
        check_digests(_listed(job.inputs))
        with log_work(), _room():
            yield job
        write_digests(_listed(job.outputs))
    except InputError as error:
        # A cluster job's standard error is far away: its log is where Snakemake points to.
        if log_file is not None:
            with suppress(OSError), log_file.open("a", encoding="utf-8") as handle:
                handle.write(f"{error}\n")
        # A console shows what the log ends with.
        sys.exit(1 if log_file is not None and log.has_console() else f"\n{error}\n")


@contextmanager
def _room() -> Iterator[None]:
    """Turn what is raised on a full disk into an InputError."""
    try:
        yield
    except Exception as error:  # Libraries have errors of their own for it.
        if not any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT)):
            raise
        where = getattr(error, "filename", None) or "disk"
        hint = "free some, and run it again"
        raise problem(where, "no room on the disk", "some for the results", hint) from error


def _run_options(snakemake: Any, log_file: Path | None) -> RunOptions:
    """Return the options of the configuration's section `runtime`, and those of the job."""
    settings = Runtime.model_validate(snakemake.config.get("runtime") or {}).model_dump()
    names = {field.name for field in fields(RunOptions)}
    work = snakemake.params.get("work")
    # Only a scheduler ends a job at its limit: on a workstation a long training goes on.
    minutes = snakemake.resources.get("runtime") if "SLURM_JOB_ID" in os.environ else None
    deadline = None
    if isinstance(minutes, int | float):
        deadline = time.time() + 60.0 * minutes - MARGIN_S
    return RunOptions(
        **{name: settings[name] for name in names & settings.keys() - {"threads"}},
        threads=snakemake.threads,
        work=Path(work) if work else None,
        deadline=deadline,
        log_dir=log_file.with_suffix("") if log_file is not None else None,
    )


def _listed(files: Files) -> list[Path]:
    paths = []
    for value in files.values():
        paths += value if isinstance(value, list) else [value]
    return paths


def _paths(names: Any) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for name, value in names.items():
        paths[name] = Path(value) if isinstance(value, str) else list(map(Path, value))
    return paths
