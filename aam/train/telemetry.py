"""What a run says while it works: plain lines with an estimate, or a bar on a terminal."""

import logging
import sys
import time

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

logger = logging.getLogger(__name__)


class Reporter:
    """Progress of one run of `total` steps.

    Parameters
    ----------
    name
        What is trained.
    done, total
        Steps done before this start; steps of the whole run.
    every_s
        Seconds between lines where there is no terminal.
    """

    def __init__(self, name: str, done: int, total: int, every_s: float) -> None:
        self.name = name
        self.first, self.total, self.every_s = done, total, every_s
        self.t0 = self.t_line = time.monotonic()
        self.bar: Progress | None = None
        if sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self.bar = Progress(*columns, transient=True)
            self.bar.start()
            self.bar.add_task(name, total=total, completed=done)

    def step(self, done: int) -> None:
        """Note that `done` steps are done; prints nothing most of the time."""
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done)
            return
        now = time.monotonic()
        if now - self.t_line >= self.every_s and done > self.first:
            self.t_line = now
            left_s = (now - self.t0) / (done - self.first) * (self.total - done)
            logger.info("%s: step %d of %d, about %.0f s left", self.name, done, self.total, left_s)

    def values(self, done: int, values: dict[str, float]) -> None:
        """Print measured values."""
        text = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        # A line written while the bar stands would end up beside it.
        if self.bar is not None:
            self.bar.stop()
        logger.info("%s: step %d of %d: %s", self.name, done, self.total, text)
        if self.bar is not None:
            self.bar.start()

    def close(self) -> None:
        """End the bar."""
        if self.bar is not None:
            self.bar.stop()
