"""The state of a run, and how it is kept and restored with its model and its optimizer."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from aam.distributed import sharded
from aam.distributed.devices import Devices
from aam.train.checkpoint import Checkpoints, NotSaved
from aam.train.early_stopping import EarlyStopping
from aam.util.errors import InputError

logger = logging.getLogger(__name__)
Record = dict[str, Any]


class TimeIsUp(InputError):
    """The time limit came before the end; the checkpoint lets the next run go on."""


@dataclass
class Sums:
    """Sums of device values, read when logging only."""

    values: dict[str, Tensor] = field(default_factory=dict)
    steps: int = 0

    def add(self, values: dict[str, Tensor]) -> None:
        """Take in the values of one step."""
        for name, value in values.items():
            self.values[name] = self.values[name] + value if name in self.values else value
        self.steps += 1

    def mean_and_reset(self) -> dict[str, float]:
        """Return the means since the last call."""
        means = {name: float(value) / self.steps for name, value in self.values.items()}
        self.values = {}
        self.steps = 0
        return means


@dataclass
class Progress:
    """State of the loop.

    Attributes
    ----------
    stopping
        Early stopping of the run.
    parts
        Other objects with `state` and `restore`, by name.
    step, elapsed_s
        Steps done and seconds spent, over all starts of the run.
    history
        One record per value.
    sums
        What was not logged yet.
    summary
        Means and peaks of this start alone.
    report
        What is written about the run in addition to its history.
    """

    stopping: EarlyStopping
    parts: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0
    elapsed_s: float = 0.0
    history: list[Record] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    summary: dict[str, float | None] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)

    def record(self, epoch: float, split: str, values: dict[str, float]) -> None:
        """Add values to the history, as records of the current step.

        Parameters
        ----------
        epoch
            Passes over the training samples that are done, with a fraction.
        split
            What the values belong to: ``train``, ``validation`` or ``system``.
        values
            Values by name.
        """
        common = {"step": self.step, "epoch": epoch, "split": split}
        self.history += [{**common, "name": name, "value": value} for name, value in values.items()]

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs."""
        return {
            "step": self.step,
            "elapsed_s": self.elapsed_s,
            "history": self.history,
            "sums": self.sums.values,
            "summed_steps": self.sums.steps,
            "stopping": self.stopping.state(),
            "parts": {name: part.state() for name, part in self.parts.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.step = state["step"]
        self.elapsed_s = state["elapsed_s"]
        self.history = state["history"]
        self.sums.values = state["sums"]
        self.sums.steps = state["summed_steps"]
        self.stopping.restore(state["stopping"])
        for name, part in self.parts.items():
            part.restore(state["parts"][name])


@dataclass
class Saver:
    """Keeps a run in its checkpoints; a save that fails does not stop the training.

    Where several processes work together, all of them have to call each method.

    Attributes
    ----------
    name
        Name of the run in messages.
    checkpoints
        Where the state is written.
    progress
        State of the loop.
    model, optimizer
        What is saved and restored with it.
    devices
        Where the model is trained.
    """

    name: str
    checkpoints: Checkpoints
    progress: Progress
    model: nn.Module
    optimizer: Any
    devices: Devices
    _warned: bool = False

    def save(self) -> bool:
        """Write a checkpoint, and return whether that has not failed so far.

        A background thread writes the file, whose failure the next save reports.
        """
        # A failure of the write before this one is reported here, and does not prevent this one.
        self.attempt(self.checkpoints.join)
        state = {
            **self.progress.state(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaling": self.devices.scaling(),
        }
        step = self.progress.step
        if self.devices.is_sharded:
            return self.attempt(lambda: self.checkpoints.save_sharded(step, state, self.devices))
        return self.attempt(lambda: self.checkpoints.save(step, state))

    def save_best(self, state: dict[str, Any]) -> None:
        """Keep the best weights so far."""
        self.attempt(self.checkpoints.join)
        self.checkpoints.save_best(self.progress.step, state)

    def resume(self) -> bool:
        """Go on from the newest checkpoint, and return whether there is one."""
        if self.devices.processes > 1:
            # Only the process that writes renames damaged ones: the others wait to see the same.
            self.checkpoints.set_damaged_aside()
            self.devices.barrier()
        state = self.checkpoints.load(self.model)
        step = -1 if state is None else int(state["step"])
        earliest = self.devices.all_reduce_min(step)
        latest = -self.devices.all_reduce_min(-step)
        if earliest != latest:
            raise RuntimeError(
                "the processes found different checkpoints: a file system that lags? Run again"
            )
        if state is None:
            return False
        sharded.restore_module(self.model, state["model"])
        sharded.restore_optimizer(self.optimizer, state["optimizer"])
        self.devices.restore_scaling(state["scaling"])
        self.progress.restore(state)
        return True

    def roll_back(self, reason: Exception) -> None:
        """Go back to the newest checkpoint.

        Parameters
        ----------
        reason
            Why the run cannot go on.

        Raises
        ------
        InputError
            There is no checkpoint.
        """
        elapsed_s = self.progress.elapsed_s
        self.optimizer.zero_grad(set_to_none=True)
        self.attempt(self.checkpoints.wait)
        self.devices.barrier()
        # The steps since that checkpoint are done again, and their losses summed again.
        self.progress.sums = Sums()
        if not self.resume():
            raise InputError(
                f"{self.name}: {reason}, and there is no checkpoint to go back to. "
                "Hint: run the same command again"
            ) from reason
        self.progress.elapsed_s = elapsed_s

    def leave(self, total: int, *, is_saved: bool) -> str:
        """Return the message of a run that has to leave, when its last checkpoint is written."""
        is_saved = self.attempt(self.checkpoints.wait) and is_saved
        # The first process that ends takes the others with it.
        self.devices.barrier()
        outcome = "the checkpoint is written"
        if not is_saved:
            outcome = (
                "no checkpoint could be written, so that the steps since the last one are lost"
            )
        return (
            f"{self.name}: the time limit came at step {self.progress.step} of {total}; {outcome}. "
            "Hint: run the same command again"
        )

    def attempt(self, write: Callable[[], None]) -> bool:
        """Write, or wait for a write, and warn once in a run where that fails.

        Parameters
        ----------
        write
            Raises `NotSaved` where a checkpoint could not be written.

        Returns
        -------
        bool
            Whether no `NotSaved` was raised.
        """
        try:
            write()
        except NotSaved as error:
            if not self._warned:
                logger.warning(
                    "%s: %s; training goes on, the checkpoints before stay, "
                    "each later one is tried",
                    self.name,
                    error,
                )
            self._warned = True
            return False
        return True
