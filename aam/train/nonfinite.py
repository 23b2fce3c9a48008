"""What is done about a loss or a gradient that is not finite."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aam.batches.dataset import BatchDataset, parent_shares
from aam.distributed.devices import Devices
from aam.train.options import StepOptions
from aam.util.errors import InputError, count_names, problem

logger = logging.getLogger(__name__)
NAMED = 64
"""Most samples of a batch that a message names."""
NO_STEP = 2**62
"""Stands for a step that was not bad."""
KEPT = ("skipped", "in_row", "restored", "overflowed")
"""Attributes that a checkpoint keeps: how many updates were left out, how many of these in a row at
the end, how often the run went back, and how many gradients overflowed in fp16."""
LEAST_SCALE = 2.0**-14
"""Scale of fp16's gradients below which it is not the scale that makes them overflow."""


class Rollback(Exception):
    """The run has to go back to its last checkpoint."""


class NonFiniteGuard:
    """Looks at every step, and acts on a loss or gradient that is not finite.

    A single process on a CPU looks at each step immediately. Otherwise the first bad step is noted
    on the device. It is read when the losses are read and before a checkpoint, so that no step
    waits for the device. The policy ``skip`` has to know before each update, and therefore waits.
    All processes of a run decide alike.

    Parameters
    ----------
    options
        Options of a step: the policy, as in `Optimization.nonfinite`, and its limit.
    dataset
        Batches of the run: a message names the samples of the bad batch.
    devices
        Where the model is trained.
    """

    def __init__(self, options: StepOptions, dataset: BatchDataset, devices: Devices) -> None:
        self._options = options
        self.policy = options.nonfinite
        self.limit = options.nonfinite_limit
        self.skipped = 0
        self.in_row = 0
        self.restored = 0
        self.overflowed = 0
        self._dataset = dataset
        self._devices = devices
        self._is_scaled = devices.precision == "fp16"
        is_alone_on_cpu = devices.device.type == "cpu" and devices.processes == 1
        self._at_once = is_alone_on_cpu or self.policy == "skip"
        self._first_bad_step: Tensor | int = NO_STEP
        self._overflows: Tensor | int = 0
        self._buffers: list[tuple[Tensor, Tensor]] = []

    @property
    def rate(self) -> float:
        """Learning rate in units of the configured one."""
        return 0.5**self.restored

    def passes(self, losses: Mapping[str, Tensor], norm: Tensor, step: int) -> bool:
        """Return whether the update of a step may be made.

        In fp16 the scaler itself leaves out the update of a gradient that overflows.

        Parameters
        ----------
        losses
            Named losses of the step.
        norm
            Norm of its gradient.
        step
            Number of the step, from 0.

        Returns
        -------
        bool
            False: the update is left out, by the policy ``skip``.

        Raises
        ------
        Rollback
            The policy ``restore`` sends the run back to its last checkpoint.
        InputError
            The policy allows no more bad steps.
        """
        total = losses["loss"].detach()
        # In fp16 a gradient that overflows is no fault: the scaler lowers its scale.
        checked = total if self._is_scaled else total + norm
        finite = torch.isfinite(checked)
        if self._is_scaled:
            self._overflows = self._overflows + ~torch.isfinite(norm)
        if not self._at_once:
            bad_step = torch.where(finite, NO_STEP, step)
            if isinstance(self._first_bad_step, int):
                self._first_bad_step = bad_step
            else:
                self._first_bad_step = self._first_bad_step.minimum(bad_step)
            return True
        if self._devices.all_reduce_min(int(finite)):
            self.in_row = 0
            return True
        self._act(step, _bad_names({**losses, "gradient_norm": norm}))
        return False

    def keep(self, model: nn.Module) -> None:
        """Copy the buffers before a step that may be left out, so that `undo` can restore them."""
        if self.policy == "skip":
            self._buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]

    def undo(self) -> None:
        """Restore the buffers, and tell the scaler of fp16, after an update was left out."""
        for buffer, value in self._buffers:
            buffer.copy_(value)
        self._devices.leave_out()

    def look(self, sums: Mapping[str, Tensor]) -> None:
        """Read the first bad step since the last call from the device, and act on it.

        Parameters
        ----------
        sums
            Sums of the losses since the last call; they say which losses were not finite.

        Raises
        ------
        Rollback
            See `passes`.
        InputError
            See `passes`, or fp16 overflows at any scale.
        """
        first_bad_step = self._first_bad_step
        self._first_bad_step = NO_STEP
        if not self._at_once:
            step = self._devices.all_reduce_min(int(first_bad_step))
            if step != NO_STEP:
                self._act(step, _bad_names(sums))
        if self._is_scaled:
            self.overflowed += int(self._overflows)
            self._overflows = 0
            if self._devices.loss_scale < LEAST_SCALE:
                raise self.error(None, ["gradient_norm, at any scale in fp16,"])

    def counts(self) -> dict[str, float | None]:
        """Return what has happened so far."""
        return {
            "skipped_steps": self.skipped,
            "restores": self.restored,
            "overflowed_steps": self.overflowed,
            "loss_scale": self._devices.loss_scale if self._is_scaled else None,
        }

    def describe(self) -> dict[str, Any]:
        """Return policies and counts."""
        return {
            "clipping": self._options.clipping,
            "gradient_clip": self._options.clipping_limit,
            "nonfinite": self.policy,
            **self.counts(),
        }

    def state(self) -> dict[str, Any]:
        """Return the counts for `restore`."""
        return {name: getattr(self, name) for name in KEPT}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned, here or in an earlier start of the run.

        Rollbacks since then still count.
        """
        restored = self.restored
        vars(self).update({name: state[name] for name in KEPT})
        self.restored = max(self.restored, restored)
        self._first_bad_step = NO_STEP
        self._overflows = 0

    def error(self, step: int | None, names: list[str], reason: str = "") -> InputError:
        """Return the error for a step in which some values were not finite.

        Parameters
        ----------
        step
            Number of the step, from 0; None: it is not known.
        names
            Names of the values.
        reason
            What torch said.

        Returns
        -------
        InputError
            Its message names the samples of the step's batch, and what may help.
        """
        fault = f"{', '.join(names)} not finite"
        if reason:
            fault += f" ({reason})"
        if step is not None:
            fault += f", in a batch of {self._samples(step)}"
        if self.skipped or self.restored:
            fault += f", after {self.skipped} steps left out and {self.restored} returns"
        return problem(
            "training" if step is None else f"training step {step + 1}",
            fault,
            "finite losses and gradients",
            "try precision fp32 or a lower learning_rate; optimization.anomaly names the operation "
            "that made the first NaN; see docs/explanation/stability.md",
        )

    def _act(self, step: int, names: list[str]) -> None:
        """Do what the policy says about a bad step."""
        fault = f"step {step + 1}: {', '.join(names)} not finite"
        if self.policy == "skip" and self.in_row < self.limit:
            if not self.skipped:
                logger.warning(
                    "%s, in a batch of %s: the update is left out, as further ones will "
                    "be; the history counts them",
                    fault,
                    self._samples(step),
                )
            self.in_row += 1
            self.skipped += 1
        elif self.policy == "restore" and self.restored < self.limit:
            self.restored += 1
            raise Rollback(fault)
        else:
            raise self.error(step, names)

    def _samples(self, step: int) -> str:
        """Return the IDs of a step's batch, and which of them have inputs that are not finite."""
        store = self._dataset.store
        parents, share_BK = parent_shares(store, self._dataset.rows(step)[0])
        ids = np.array(store.sample_ids, object)[parents[share_BK.argmax(axis=1)]]
        text = count_names("sample", ids, NAMED)
        batch = self._dataset[step]
        for kind, tensors in (("distances", batch.distances), ("values", batch.values)):
            for name, value in tensors.items():
                bad_B = (~torch.isfinite(value.flatten(1))).sum(dim=1).numpy()
                if bad_B.any():
                    # A bad sample makes its distance to every other sample bad, too: the samples
                    # with the most bad distances are to blame.
                    worst = count_names("sample", ids[bad_B == bad_B.max()])
                    text += f"; the {kind} '{name}' of {worst} are not finite"
        return text


def _bad_names(values: Mapping[str, Tensor]) -> list[str]:
    names = [name for name, value in values.items() if not bool(torch.isfinite(value).all())]
    return names or ["loss or gradient"]
