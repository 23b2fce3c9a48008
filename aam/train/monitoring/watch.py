"""Everything that looks at a training run from outside and never changes what it learns."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

import torch

from aam.train.monitoring.monitor import Monitor
from aam.train.monitoring.profiling import profile_steps
from aam.train.monitoring.reporter import Reporter
from aam.train.monitoring.tensorboard import CurveWriter
from aam.util.run_options import RunOptions


@dataclass(frozen=True)
class Watch:
    """What the loop reports to, and reads measurements from; `watching` makes it."""

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
