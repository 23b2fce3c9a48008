"""Everything that looks at a training run from outside and never changes what it learns."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from aam.model.batch import Batch
from aam.runtime.run_options import RunOptions
from aam.train.monitoring.monitor import Monitor
from aam.train.monitoring.profiling import profiled
from aam.train.monitoring.reporter import Reporter
from aam.train.monitoring.tensorboard import CurveWriter


@dataclass(frozen=True)
class Watch:
    """What the loop tells of its run, and asks of it; made by `watching`."""

    monitor: Monitor
    reporter: Reporter
    curves: CurveWriter
    profile_step: Callable[[], None]

    def expect(self, step_s: float) -> None:
        """Say how long the run will take, from the seconds of one step."""
        self.reporter.estimate(step_s)

    def batches(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches, measuring how long they are waited for."""
        return self.monitor.timed(batches)

    def aside(self) -> AbstractContextManager[None]:
        """Leave a block out of the measured pace."""
        return self.monitor.pause()

    def step(self, done: int, samples: int) -> None:
        """Note a step."""
        self.monitor.step(samples)
        self.reporter.step(done, samples)
        self.profile_step()

    def values(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Note values of training or of a validation."""
        for name, value in values.items():
            self.curves.add(step, f"{split}/{name}", value)
        if split == "validation":
            self.reporter.values(step, dict(values))

    def system(self, step: int) -> dict[str, float]:
        """Return what was measured since the last call, without what could not be."""
        measured = self.monitor.read_and_reset()
        values = {name: value for name, value in measured.items() if value is not None}
        self.values(step, "system", values)
        return values

    def summary(self) -> dict[str, float | None]:
        """Return the means of this start of the run."""
        return self.monitor.summary()


@contextmanager
def watching(
    name: str, runtime: RunOptions, device: torch.device, *, done: int, total: int, validations: int
) -> Iterator[Watch]:
    """Watch the run `name`: `done` of `total` steps, `validations` still to come."""

    def folder(kind: str) -> Path | None:
        return None if runtime.log_dir is None else runtime.log_dir / kind

    reporter = Reporter(name, done, total, runtime.log_every_s, validations)
    curves = CurveWriter(folder("tensorboard") if runtime.tensorboard else None, done)
    with (
        closing(reporter),
        closing(curves),
        Monitor(device) as monitor,
        profiled(folder("profile"), runtime.profile_steps, done) as profile_step,
    ):
        yield Watch(monitor, reporter, curves, profile_step)
