"""Logging of a stage: to the rule's log file and to standard error, and the line that ends it.

The last line says when the stage was at work, and what that took; it is read by `read_work`.
"""

import logging
import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from aam.util.machine import RSS_UNITS_PER_MB, peak_memory_mb

logger = logging.getLogger(__name__)
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

CONSOLE = "AAM_CONSOLE"
"""The environment variable that is set where a console shows what happens, by the logs of jobs."""
WORK_WORDS = "started at %.3f, at work from %.3f to %.3f, %.2f s of cores, memory %d MB at first, "
WORK_WORDS += "%d MB at most"
"""Times are since 1970, the first that of the process; memory its own, or its largest child's."""
WORK_LINE = re.compile(re.sub(r"%\S*?[df]", r"([\\d.]+)", WORK_WORDS) + "$", re.MULTILINE)
"""The line in a log; its groups are the numbers."""


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


@dataclass(frozen=True)
class StageWork:
    """What a stage did between the start of its process and its end; times since 1970."""

    started_s: float
    """Start of its process; then Python starts and imports."""
    begun_s: float
    ended_s: float
    cores_s: float
    """Seconds that processor cores worked for it, in processes that it waited for too."""
    first_mb: int
    """Resident memory before the work: Python and what was imported."""
    peak_mb: int
    """The most that the process, or the largest of those it started, has had."""

    @property
    def seconds(self) -> float:
        """How long the work took."""
        return self.ended_s - self.begun_s


@contextmanager
def log_work() -> Iterator[None]:
    """Log when the block began and ended, unless it ends with an error."""
    started_s = _started_s()
    begun_s = time.time()
    cores_s = _cores_s()
    first_mb = _peak_mb()
    yield
    spent_s = _cores_s() - cores_s
    logger.info(WORK_WORDS, started_s, begun_s, time.time(), spent_s, first_mb, _peak_mb())


def read_work(log: str) -> StageWork | None:
    """Return what the log of a stage says of its work, by its last line on it.

    Parameters
    ----------
    log
        Text of the log.

    Returns
    -------
    StageWork or None
        None where the log has no such line: the stage has not finished.
    """
    finished = WORK_LINE.findall(log)
    if not finished:
        return None
    started, begun, ended, cores, first, peak = map(float, finished[-1])
    return StageWork(
        started_s=started,
        begun_s=begun,
        ended_s=ended,
        cores_s=cores,
        first_mb=int(first),
        peak_mb=int(peak),
    )


def _cores_s() -> float:
    return sum(os.times()[:4])


def _started_s() -> float:
    stat = Path("/proc/self/stat")
    if not stat.is_file():
        return psutil.Process().create_time()
    # psutil adds to the moment of boot, which the kernel tells in whole seconds.
    ticks = int(stat.read_text(encoding="ascii").rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s


def _peak_mb() -> float:
    """Return the peak of this process, or of the largest that it has waited for."""
    # The stage's work may be done by processes that it starts.
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / RSS_UNITS_PER_MB
    return max(peak_memory_mb(), children)
