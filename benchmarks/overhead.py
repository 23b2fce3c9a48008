"""Snakemake's overhead: the fraction of a run's wall time in which no stage was at work.

Run as `python -m benchmarks.overhead [--results DIR] -- snakemake ...`. A stage is at work while
its `run` is; every stage notes that in its log, and when its process started: what remains without
the starts of stages (Python and its imports) is Snakemake alone.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.worklog import Work, read_work


@dataclass(frozen=True)
class WallTime:
    """Where the wall time of a run went, all in seconds."""

    wall_s: float
    """Of the whole command."""
    worked_s: float
    """In which at least one stage was at work."""
    starting_s: float
    """In which none was, but at least one was starting."""
    before_s: float
    """In which no stage had a process: before the first, ..."""
    between_s: float
    after_s: float

    @property
    def idle(self) -> float:
        """The fraction of the wall time in which no stage was at work."""
        return 1.0 - self.worked_s / self.wall_s

    @property
    def without_process(self) -> float:
        """The fraction of the wall time in which no stage had a process."""
        return (self.before_s + self.between_s + self.after_s) / self.wall_s


def wall_time(works: Sequence[Work], begun_s: float, ended_s: float) -> WallTime:
    """Return where the time between two moments, in seconds since 1970, went for some stages."""
    first = min(work.started_s for work in works)
    last = max(work.ended_s for work in works)
    worked = union_s((work.begun_s, work.ended_s) for work in works)
    there = union_s((work.started_s, work.ended_s) for work in works)
    return WallTime(
        wall_s=ended_s - begun_s,
        worked_s=worked,
        starting_s=there - worked,
        before_s=first - begun_s,
        between_s=last - first - there,
        after_s=ended_s - last,
    )


def union_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of some intervals."""
    total, reached = 0.0, float("-inf")
    for begun, ended in sorted(spans):
        total += max(0.0, ended - max(begun, reached))
        reached = max(reached, ended)
    return total


def report(works: Sequence[Work], found: WallTime) -> str:
    """Return the lines that the command prints."""
    work_s = sum(work.seconds for work in works)
    start_s = sum(work.begun_s - work.started_s for work in works)
    lines = [
        ("wall time", found.wall_s, ""),
        ("a stage at work", found.worked_s, f"{len(works)} stages, {work_s:.1f} s in all"),
        ("none, but one starting", found.starting_s, f"{start_s:.1f} s in all: imports"),
        ("no stage, at first", found.before_s, "start of Snakemake, graph of jobs"),
        ("no stage, between", found.between_s, "scheduling, records"),
        ("no stage, at last", found.after_s, "records, end of Snakemake"),
    ]
    rows = [f"{name:<24}{seconds:9.1f} s   {words}".rstrip() for name, seconds, words in lines]
    idle = f"no stage at work: {100 * found.idle:.1f} % of the wall time"
    rows.append(f"{idle}; not even starting: {100 * found.without_process:.1f} %")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, print where its time went, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"), help="its results_dir")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- snakemake ...")
    given = parser.parse_args(arguments)
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("a command is needed, behind --")
    begun_s = time.time()
    done = subprocess.run(command, check=False)
    ended_s = time.time()
    noted = (read_work(path) for path in sorted(given.results.glob("*/logs/**/*.log")))
    works = [work for work in noted if work is not None and work.started_s >= begun_s]
    if works:
        print(report(works, wall_time(works, begun_s, ended_s)))
    else:
        print(f"no stage was at work below {given.results}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
