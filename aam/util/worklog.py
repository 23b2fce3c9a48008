"""One line at the end of a stage's log: when it was at work, and what that took."""

import logging
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from aam.util.machine import RSS_UNITS_PER_MB, peak_memory_mb

logger = logging.getLogger(__name__)
WORDS = "started at %.3f, at work from %.3f to %.3f, %.2f s of cores, memory %d MB at first, "
WORDS += "%d MB at most"
"""Times are since 1970, the first that of the process; memory its own, or its largest child's."""


@contextmanager
def at_work() -> Iterator[None]:
    """Log when the block began and ended, unless it ends with an error."""
    started_s = _started_s()
    begun_s = time.time()
    cores_s = _cores_s()
    first_mb = _peak_mb()
    yield
    spent_s = _cores_s() - cores_s
    logger.info(WORDS, started_s, begun_s, time.time(), spent_s, first_mb, _peak_mb())


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
