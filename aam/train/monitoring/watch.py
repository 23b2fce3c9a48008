"""What looks at a training run from outside and never changes what it learns.

It says how far the run is, by a bar on a terminal and by plain lines elsewhere, and writes curves
for TensorBoard in addition to those that history.parquet keeps.
"""

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from aam.train.monitoring.monitor import Monitor, profile_steps
from aam.util.log import format_duration, has_console
from aam.util.run_options import RunOptions

logger = logging.getLogger(__name__)
WINDOW_STEPS = 50
"""Latest steps that the running estimate looks at."""
PROBED_STEPS = 5
"""Steps after which a run says how long it will take."""
LINE_EVERY_S = 10.0
"""Seconds between lines where there is no terminal."""
REDRAWN_EVERY_S = 0.1
FLUSHED_EVERY_S = 10
"""Seconds between writes to the file, so that an open TensorBoard can follow."""


class Reporter:
    """Progress of a run: a bar on a terminal, lines elsewhere.

    A bar that is not closed hides the cursor.

    Parameters
    ----------
    name
        Name of the run.
    done
        Steps that were done before.
    total
        Steps of the whole run.
    validations
        Validations that are still to come.
    """

    def __init__(self, name: str, done: int, total: int, validations: int = 0) -> None:
        self.name = name
        self.first = done
        self.done = done
        self.total = total
        self.validations_left = validations
        self.t_last = time.monotonic()
        self.t_line = self.t_last
        self._latest: deque[tuple[float, int]] = deque(maxlen=WINDOW_STEPS)
        self._validation_s = 0.0
        self._said_estimate = False
        if 0 < done < total:
            logger.info("%s: going on from step %d of %d", name, done, total)
        elif done:
            logger.info("%s: all %d steps were done before", name, total)
        self.bar = _bar(name, done, total)

    def estimate(self, step_s: float) -> None:
        """Say how long the run will take, in place of the estimate after the first steps.

        Parameters
        ----------
        step_s
            Seconds of a step.
        """
        self._said_estimate = True
        count = self.total - self.first
        validations = self.validations_left
        text = f"{count} of {self.total} steps" if self.first else f"{count} steps"
        text += f", about {format_duration(step_s * count)}"
        if validations:
            text += f", and {validations} validation{'s' if validations > 1 else ''}"
        self._say(text)

    def step(self, done: int, samples: int = 0) -> None:
        """Note that `done` steps are done, the last with `samples`; prints little."""
        now = time.monotonic()
        if done - self.first == 2:
            # The first step holds the start of everything.
            self._latest.clear()
        self._latest.append((now - self.t_last, samples))
        self.t_last = now
        self.done = done
        if not self._said_estimate and done - self.first == PROBED_STEPS < self.total - self.first:
            self.estimate(self._step_s())
        if self.bar is not None:
            if now - self.t_line >= REDRAWN_EVERY_S or done == self.total:
                self.t_line = now
                left = format_duration(self.remaining_s())
                self.bar.update(self.bar.task_ids[0], completed=done, rate=self._rate(), left=left)
        elif now - self.t_line >= LINE_EVERY_S:
            self.t_line = now
            left = f"about {format_duration(self.remaining_s())} left"
            parts = [f"step {done} of {self.total}", self._rate(), left]
            self._say(", ".join(filter(None, parts)))

    def values(self, done: int, values: dict[str, float]) -> None:
        """Print what a validation measured; the time since the last step was the validation's."""
        now = time.monotonic()
        self._validation_s = now - self.t_last
        self.t_last = now
        self.validations_left = max(0, self.validations_left - 1)
        text = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        self._say(f"step {done} of {self.total}: {text}")

    def close(self) -> None:
        """End the bar."""
        if self.bar is not None:
            self.bar.stop()

    def remaining_s(self) -> float:
        """Return the seconds to the end, if steps go on as lately and validations as the last."""
        steps_s = self._step_s() * (self.total - self.done)
        return steps_s + self.validations_left * self._validation_s

    def _step_s(self) -> float:
        return sum(seconds for seconds, _ in self._latest) / max(1, len(self._latest))

    def _rate(self) -> str:
        seconds = sum(seconds for seconds, _ in self._latest)
        samples = sum(samples for _, samples in self._latest)
        if not samples or seconds <= 0:
            return ""
        rate = samples / seconds
        return f"{rate:,.0f} samples/s" if rate >= 10 else f"{rate:.2g} samples/s"

    def _say(self, text: str) -> None:
        # A line that is written while the bar stands would end up next to it.
        if self.bar is not None:
            self.bar.stop()
        logger.info("%s: %s", self.name, text)
        if self.bar is not None:
            self.bar.start()


def _bar(name: str, done: int, total: int) -> Progress | None:
    """Return a bar that stands on standard error, None where that is no terminal.

    There is none either under a console that shows the whole run: it reads the lines of the log.
    """
    console = Console(stderr=True)
    if has_console() or not (sys.stderr.isatty() and console.is_interactive):
        return None
    bar = Progress(
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", style="progress.data.speed"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", style="progress.remaining"),
        console=console,
        transient=True,
    )
    bar.add_task(name, total=total, completed=done, rate="", left="")
    bar.start()
    return bar


class CurveWriter:
    """Writes scalars for TensorBoard, until `close`.

    What cannot be written costs the curves and one warning, never the run.

    Parameters
    ----------
    folder
        Folder of the curves; None: nothing is written.
    first_step
        Steps that were done before. TensorBoard hides what an earlier start wrote behind this step,
        so that a run that goes on has one curve. With 0 the curves of an earlier run are removed.
    """

    def __init__(self, folder: Path | None, first_step: int) -> None:
        self._writer: Any = None
        if folder is None:
            return
        try:
            # The package takes seconds to load, and not every run wants it.
            from torch.utils.tensorboard import SummaryWriter

            if first_step == 0:
                for left in folder.glob("events.out.tfevents.*"):
                    left.unlink()
            self._writer = SummaryWriter(
                str(folder), purge_step=first_step + 1, flush_secs=FLUSHED_EVERY_S
            )
        except (ImportError, OSError) as error:
            logger.warning("no curves for TensorBoard: %s", error)

    def add(self, step: int, name: str, value: float | None) -> None:
        """Add one point to a curve; None: nothing is added."""
        if self._writer is not None and value is not None:
            self._try(self._writer.add_scalar, name, value, step)

    def close(self) -> None:
        """Write out what waits, and close the file."""
        if self._writer is not None:
            self._try(self._writer.close)
            self._writer = None

    def _try(self, write: Any, *arguments: object) -> None:
        try:
            write(*arguments)
        except OSError as error:
            logger.warning("no more curves for TensorBoard: %s", error)
            self._writer = None


@dataclass(frozen=True)
class Watch:
    """What the loop reports to, and reads measurements from; `watch_run` makes it."""

    monitor: Monitor
    reporter: Reporter
    curves: CurveWriter
    profile_step: Callable[[], None]

    def note_step(self, done: int, samples: int) -> None:
        """Note that a step is done.

        Parameters
        ----------
        done
            Steps that are done by now.
        samples
            Samples of the last one.
        """
        self.monitor.step(samples)
        self.reporter.step(done, samples)
        self.profile_step()

    def note_values(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Note values of training or of a validation.

        Parameters
        ----------
        step
            Steps that are done by now.
        split
            ``train``, ``validation`` or ``system``.
        values
            Values by name.
        """
        for name, value in values.items():
            self.curves.add(step, f"{split}/{name}", value)
        if split == "validation":
            self.reporter.values(step, dict(values))

    def read_system(self, step: int) -> dict[str, float]:
        """Note and return what the run has taken since the last call.

        Parameters
        ----------
        step
            Steps that are done by now.

        Returns
        -------
        dict
            Values by name, without those that could not be measured.
        """
        measured = self.monitor.read_and_reset()
        values = {name: value for name, value in measured.items() if value is not None}
        self.note_values(step, "system", values)
        return values


@contextmanager
def watch_run(
    name: str, runtime: RunOptions, device: torch.device, *, done: int, total: int, validations: int
) -> Iterator[Watch]:
    """Watch a run while the block works.

    Parameters
    ----------
    name
        Name of the run.
    runtime
        What is logged, and where.
    device
        Where the model is trained.
    done
        Steps that were done before.
    total
        Steps of the whole run.
    validations
        Validations that are still to come.

    Yields
    ------
    Watch
        What the loop reports to.
    """
    curves_folder = None
    profile_folder = None
    if runtime.log_dir is not None:
        curves_folder = runtime.log_dir / "tensorboard"
        profile_folder = runtime.log_dir / "profile"
    reporter = Reporter(name, done, total, validations)
    curves = CurveWriter(curves_folder, done)
    with (
        closing(reporter),
        closing(curves),
        Monitor(device, threshold=runtime.memory_threshold) as monitor,
        profile_steps(profile_folder, runtime.profile_steps, done) as profile_step,
    ):
        yield Watch(monitor, reporter, curves, profile_step)
