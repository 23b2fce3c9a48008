"""Everything that looks at a training run from outside and never changes what it learns."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import torch

from aam.model.batch import Batch
from aam.runtime.run_options import RunOptions
from aam.train.monitoring.monitor import Monitor
from aam.train.monitoring.profiling import StepProfiler, profiled
from aam.train.monitoring.reporter import Reporter
from aam.train.monitoring.tensorboard import CurveWriter


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
    name: str, runtime: RunOptions, device: torch.device, *, done: int, total: int, validations: int
) -> Iterator[Watch]:
    """Yield progress lines, curves, measurements and the profile of one run.

    Parameters
    ----------
    name
        What is trained.
    runtime
        What is written, and how often.
    device
        Where it is trained.
    done, total
        Steps done before this start; steps of the whole run.
    validations
        Validations still to come.
    """
    reporter = Reporter(name, done, total, runtime.log_every_s, validations)
    folder = _below(runtime.log_dir, "tensorboard") if runtime.tensorboard else None
    curves = CurveWriter(folder, done)
    with (
        closing(reporter),
        closing(curves),
        Monitor(device) as monitor,
        profiled(_below(runtime.log_dir, "profile"), runtime.profile_steps, done) as profiler,
    ):
        yield Watch(monitor, reporter, curves, profiler)


def _below(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / name
