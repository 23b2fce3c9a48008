"""One line at the end of a stage's log: when it was at work, and what that took."""

import logging
import os
import re
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)
WORDS = "at work from %.3f to %.3f, %.2f s of cores, memory %d MB at first, %d MB at most"
LINE = re.compile(re.sub(r"%\S*?[df]", r"([\\d.]+)", WORDS) + "$", re.MULTILINE)


@dataclass(frozen=True)
class Work:
    """What a stage did between the start of its process and its end.

    Attributes
    ----------
    begun_s, ended_s
        Seconds since 1970.
    cores_s
        Seconds that processor cores worked for it, in processes that it waited for too.
    first_mb
        Resident memory before the work: Python and what was imported.
    peak_mb
        The most resident memory that the process, or the largest of those it started, has had.
    """

    begun_s: float
    ended_s: float
    cores_s: float
    first_mb: int
    peak_mb: int

    @property
    def seconds(self) -> float:
        """How long the work took."""
        return self.ended_s - self.begun_s


@contextmanager
def at_work() -> Iterator[None]:
    """Log when the block began and ended, unless it ends with an error."""
    begun_s, cores_s, first_mb = time.time(), _cores_s(), _peak_mb()
    yield
    spent_s = _cores_s() - cores_s
    logger.info(WORDS, begun_s, time.time(), spent_s, first_mb, _peak_mb())


def read_work(log_file: Path) -> Work | None:
    """Return what a stage's log says of its work; None where it says nothing."""
    found = LINE.findall(log_file.read_text(encoding="utf-8"))
    if not found:
        return None
    begun, ended, cores, first, peak = found[-1]
    return Work(float(begun), float(ended), float(cores), int(first), int(peak))


def _cores_s() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _peak_mb() -> int:
    status = Path("/proc/self/status")
    if status.is_file():
        # The kernel's `ru_maxrss` of a process begins with that of the process that started it.
        lines = status.read_text(encoding="ascii").splitlines()
        own_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    else:
        own_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(own_kb, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) // 1024
