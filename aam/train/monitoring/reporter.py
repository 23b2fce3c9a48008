"""What a run says while it works: a bar on a terminal, plain lines with an estimate elsewhere."""

import logging
import sys
import time
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from aam.util.log import duration, has_console

logger = logging.getLogger(__name__)
WINDOW_STEPS = 50
"""Latest steps that the running estimate looks at."""
PROBED_STEPS = 5
"""Steps after which a run says how long it will take."""
LINE_EVERY_S = 10.0
"""Seconds between lines where there is no terminal."""
REDRAWN_EVERY_S = 0.1


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
        text += f", about {duration(step_s * count)}"
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
                left = duration(self.remaining_s())
                self.bar.update(self.bar.task_ids[0], completed=done, rate=self._rate(), left=left)
        elif now - self.t_line >= LINE_EVERY_S:
            self.t_line = now
            left = f"about {duration(self.remaining_s())} left"
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
