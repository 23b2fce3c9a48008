"""What the logs of stages say of their work."""

import re
from dataclasses import dataclass
from pathlib import Path

from aam.util.worklog import WORDS

LINE = re.compile(re.sub(r"%\S*?[df]", r"([\\d.]+)", WORDS) + "$", re.MULTILINE)


@dataclass(frozen=True)
class Work:
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


def read_work(log_file: Path) -> Work | None:
    """Return what a stage's log says of its work; None where it says nothing."""
    finished = LINE.findall(log_file.read_text(encoding="utf-8"))
    if not finished:
        return None
    started, begun, ended, cores, first, peak = map(float, finished[-1])
    return Work(started, begun, ended, cores, int(first), int(peak))
