"""The state of a run beside its model and its optimizer, and how it is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn

from aam.train.checkpoint import Checkpoints
from aam.train.distributed import sharded
from aam.train.distributed.devices import Devices
from aam.train.early_stopping import EarlyStopping
from aam.train.micro_batches import Plan

Record = dict[str, Any]


class Sums:
    """Sums of device values, read when logging only."""

    def __init__(self) -> None:
        self.values: dict[str, Tensor] = {}
        self.steps = 0

    def add(self, values: dict[str, Tensor]) -> None:
        """Take in the values of one step."""
        for name, value in values.items():
            self.values[name] = self.values[name] + value if name in self.values else value
        self.steps += 1

    def mean_and_reset(self) -> dict[str, float]:
        """Return the means since the last call; nothing where no step was taken in."""
        means = {name: float(value) / self.steps for name, value in self.values.items()}
        self.values, self.steps = {}, 0
        return means


class Stateful(Protocol):
    """What a run keeps with its checkpoints."""

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs: tensors, and plain values."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""


@dataclass
class Progress:
    """State of the loop.

    Attributes
    ----------
    step, elapsed_s
        Steps done and seconds spent, over all starts of the run.
    history
        One record per value.
    sums
        What was not logged yet.
    stopping
        Follows the validations.
    plan
        The pieces that batches are worked in; None: not decided yet.
    parts
        What else is kept, by name.
    summary
        Means and peaks of this start.
    report
        What is written about the run beside its history: `optimization`, the options as they were
        carried out, and `stability`.
    """

    stopping: EarlyStopping
    step: int = 0
    elapsed_s: float = 0.0
    history: list[Record] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    plan: Plan | None = None
    parts: Mapping[str, Stateful] = field(default_factory=dict)
    summary: dict[str, float | None] = field(default_factory=dict)
    report: dict[str, dict[str, Any]] = field(default_factory=dict)

    def record(self, epoch: float, split: str, values: dict[str, float]) -> None:
        """Add values to the history."""
        for name, value in values.items():
            self.history.append(
                {"step": self.step, "epoch": epoch, "split": split, "name": name, "value": value}
            )

    def save(
        self, checkpoints: Checkpoints, model: nn.Module, optimizer: Any, devices: Devices
    ) -> None:
        """Write a checkpoint; where several processes work together, all have to call this."""
        # Pieces are chosen for what one process has, and by real steps: never by several.
        is_planned = self.plan is not None and devices.processes == 1
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scaling": devices.scaling(),
            "elapsed_s": self.elapsed_s,
            "history": self.history,
            "sums": self.sums.values,
            "summed_steps": self.sums.steps,
            "stopping": self.stopping.state(),
            "parts": {name: part.state() for name, part in self.parts.items()},
            "plan": self.plan.plain() if is_planned and self.plan is not None else None,
        }
        if devices.is_sharded:
            checkpoints.save_divided(self.step, state, devices)
        else:
            checkpoints.save(self.step, state)

    def resume(
        self, checkpoints: Checkpoints, model: nn.Module, optimizer: Any, devices: Devices
    ) -> bool:
        """Go on from the newest checkpoint, and return whether there is one."""
        if devices.processes > 1:
            # Whichever process finds a damaged one, all of them then see the same.
            checkpoints.set_damaged_aside()
            devices.barrier()
        state = checkpoints.load(model)
        step = -1 if state is None else int(state["step"])
        if devices.all_reduce_min(step) != -devices.all_reduce_min(-step):
            raise RuntimeError(
                "the processes found different checkpoints: a file system that lags? Run again"
            )
        if state is None:
            return False
        sharded.restore_module(model, state["model"])
        sharded.restore_optimizer(optimizer, state["optimizer"])
        devices.restore_scaling(state["scaling"])
        self.step, self.elapsed_s, self.history = (
            state["step"],
            state["elapsed_s"],
            state["history"],
        )
        self.sums.values, self.sums.steps = state["sums"], state["summed_steps"]
        self.stopping.restore(state["stopping"])
        self.plan = None if state["plan"] is None else Plan.from_plain(state["plan"])
        for name, part in self.parts.items():
            part.restore(state["parts"][name])
        return True
