"""Everything that looks at a training run from outside and never changes what it learns."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from aam.model.batch import Batch
from aam.train.monitor import Monitor
from aam.train.profiling import StepProfiler, profiled
from aam.train.telemetry import Reporter
from aam.train.tensorboard import CurveWriter


@dataclass(frozen=True)
class Notes:
    """What is written about a run beside its results.

    Attributes
    ----------
    folder
        Where curves and profiles go; None: neither is written.
    every_s
        Seconds between progress lines.
    tensorboard
        Write curves.
    profile_steps
        Steps to record with torch.profiler.
    """

    folder: Path | None = None
    every_s: float = 10.0
    tensorboard: bool = False
    profile_steps: int = 0


class Watch:
    """What the loop tells of its run, and asks of it; made by `watching`."""

    def __init__(
        self,
        monitor: Monitor,
        reporter: Reporter,
        curves: CurveWriter,
        profiler: StepProfiler,
    ) -> None:
        self._monitor, self._reporter = monitor, reporter
        self._curves, self._profiler = curves, profiler

    def expect(self, step_s: float) -> None:
        """Say how long the run will take, from the seconds of one step."""
        self._reporter.estimate_before(step_s)

    def batches(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches, measuring how long they are waited for."""
        return self._monitor.timed(batches)

    def aside(self) -> AbstractContextManager[None]:
        """Leave a block out of the measured pace."""
        return self._monitor.pause()

    def step(self, done: int, samples: int) -> None:
        """Note a step."""
        self._monitor.step(samples)
        self._reporter.step(done, samples)
        self._profiler.step()

    def values(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Note values of training or of a validation."""
        for name, value in values.items():
            self._curves.add(step, f"{split}/{name}", value)
        if split == "validation":
            self._reporter.values(step, dict(values))

    def system(self, step: int) -> dict[str, float]:
        """Return what was measured since the last call, without what could not be."""
        measured = self._monitor.read_and_reset()
        values = {name: value for name, value in measured.items() if value is not None}
        self.values(step, "system", values)
        return values

    def summary(self) -> dict[str, float | None]:
        """Return means and peaks of this start of the run."""
        return self._monitor.summary()


@contextmanager
def watching(
    name: str, notes: Notes, device: torch.device, *, done: int, total: int, validations: int
) -> Iterator[Watch]:
    """Yield progress lines, curves, measurements and the profile of one run.

    Parameters
    ----------
    name
        What is trained.
    notes
        What is written.
    device
        Where it is trained.
    done, total
        Steps done before this start; steps of the whole run.
    validations
        Validations still to come.
    """
    reporter = Reporter(name, done, total, notes.every_s, validations)
    curves = CurveWriter(_below(notes.folder, "tensorboard") if notes.tensorboard else None, done)
    with (
        closing(reporter),
        closing(curves),
        Monitor(device) as monitor,
        profiled(_below(notes.folder, "profile"), notes.profile_steps, done) as profiler,
    ):
        yield Watch(monitor, reporter, curves, profiler)


def _below(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / name
