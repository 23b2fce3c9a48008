"""Logging of a stage: to the rule's log file and to standard error."""

import logging
import os
import sys
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

CONSOLE = "AAM_CONSOLE"
"""The environment variable that is set where a console shows what happens, by the logs of jobs."""


def has_console() -> bool:
    """Return whether a console shows what a job logs, so that the job itself prints nothing."""
    return CONSOLE in os.environ


def start_log(log_file: Path | None) -> None:
    """Send log records and uncaught errors to standard error, to a file, or to both.

    Parameters
    ----------
    log_file
        File of the rule's log; None: there is none. Where a console shows the logs of jobs
        (`has_console`), the records of a job with a log go to this file alone.
    """
    handlers: list[logging.Handler] = []
    if log_file is None or not has_console():
        handlers.append(logging.StreamHandler(sys.stderr))
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(log_file, encoding="utf-8"))
    logging.basicConfig(
        level=logging.INFO, format=FORMAT, datefmt="%H:%M:%S", handlers=handlers, force=True
    )
    logging.captureWarnings(True)
    sys.excepthook = lambda *error: logging.getLogger("aam").critical(
        "stopped by an error", exc_info=error
    )


def format_duration(seconds: float) -> str:
    """Return a time in the two largest units that fit it: `42 s`, `3 min 20 s`, `2 h 5 min`.

    Parameters
    ----------
    seconds
        The time; it is rounded to minutes from an hour on, and to hours from a day on.
    """
    # A time that would be rounded up to a day, or to an hour, counts as one.
    finest_s = 3600 if seconds >= 86370 else 60 if seconds >= 3599.5 else 1
    whole_s = finest_s * max(0, round(seconds / finest_s))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, whole_s = divmod(whole_s, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts) or "0 s"
