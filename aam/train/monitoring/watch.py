"""Everything that looks at a training run from outside and never changes what it learns."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

import torch

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


@contextmanager
def watching(
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
    folder = runtime.log_dir
    reporter = Reporter(name, done, total, validations)
    curves = CurveWriter(folder and folder / "tensorboard", done)
    with (
        closing(reporter),
        closing(curves),
        Monitor(device, runtime.memory_threshold) as monitor,
        profiled(folder and folder / "profile", runtime.profile_steps, done) as profile_step,
    ):
        yield Watch(monitor, reporter, curves, profile_step)
