"""The state of a run: its step, its scores and when these have stopped rising, and its history.

It is kept and restored with the model and the optimizer.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from torch import Tensor, nn

from aam.config.sections.training import EarlyStoppingSettings as Settings
from aam.distributed import sharded_weights
from aam.distributed.devices import Devices
from aam.train.checkpoint import Checkpoints, NotSaved
from aam.util.errors import InputError
from aam.util.parquet import write_table

logger = logging.getLogger(__name__)
Record = dict[str, Any]
HISTORY = pa.schema(
    [
        ("step", pa.int64()),
        ("epoch", pa.float64()),
        ("split", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
    ]
)


@dataclass
class EarlyStopping:
    """Follows a score of which higher is better.

    Patience starts again at a value more than `min_delta` above the one at which it last started:
    many small steps add up to an improvement. The best value is the highest.

    Attributes
    ----------
    settings
        Patience and `min_delta`; None: no value is the best, and nothing stops.
    best
        Highest value so far.
    reference
        Value at which patience last started.
    waited
        Validations since then.
    """

    settings: Settings | None
    best: float | None = None
    reference: float | None = None
    waited: int = 0

    def update(self, value: float) -> bool:
        """Take the next score; NaN counts as the worst.

        Parameters
        ----------
        value
            Score of a validation.

        Returns
        -------
        bool
            Whether the score is the best so far.
        """
        if self.settings is None:
            return False
        value = -math.inf if math.isnan(value) else float(value)
        if self.reference is None or value > self.reference + self.settings.min_delta:
            self.reference = value
            self.waited = 0
        else:
            self.waited += 1
        if self.best is not None and value <= self.best:
            return False
        self.best = value
        return True

    @property
    def should_stop(self) -> bool:
        """Whether `patience` validations in a row brought no improvement."""
        return self.settings is not None and self.waited >= self.settings.patience

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs, as plain types."""
        return {"best": self.best, "reference": self.reference, "waited": self.waited}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned, in a run with the same settings."""
        vars(self).update(state)


@dataclass(frozen=True)
class Validation:
    """What is scored in the course of a run."""

    score: Callable[[], dict[str, float]]
    """Returns named values of the model as it is."""
    times: int
    """How often the model is scored, the last time after the last step."""
    watched: str
    """Name of the value that early stopping follows, the higher the better."""
    stopping: EarlyStopping
    """Follows that value."""

    def steps(self, total: int) -> set[int]:
        """Return the steps after which the model is scored.

        Parameters
        ----------
        total
            Number of steps of the run.

        Returns
        -------
        set of int
            Steps counted from 1, evenly spread; the last is `total`.
        """
        return {max(1, round(total * part / self.times)) for part in range(1, self.times + 1)}


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
    facts
        What is written about the run in addition to its history.
    """

    stopping: EarlyStopping
    parts: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0
    elapsed_s: float = 0.0
    history: list[Record] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    summary: dict[str, float | None] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

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
        sharded_weights.restore_module(self.model, state["model"])
        sharded_weights.restore_optimizer(self.optimizer, state["optimizer"])
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


def write_history(
    path: Path,
    history: Sequence[Mapping[str, Any]],
    provenance: Mapping[str, str],
    extra: Sequence[tuple[str, pa.DataType]] = (),
) -> None:
    """Write the records of a run to a Parquet file.

    Parameters
    ----------
    path
        File to write.
    history
        Records with the fields of `HISTORY` and of `extra`.
    provenance
        Facts that are written to the file's metadata.
    extra
        Names and types of columns in addition to those of `HISTORY`. They come first.
    """
    schema = pa.schema([*extra, *HISTORY])
    columns = {name: [record[name] for record in history] for name in schema.names}
    write_table(path, columns, provenance, schema)
