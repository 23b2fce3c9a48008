"""The memory of a run: micro-batches are chosen before its first step, and halved where needed."""

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, TypeVar

from aam.batches.dataset import BatchDataset
from aam.distributed.devices import Devices
from aam.model.batch import Batch
from aam.model.encoder import Recompute
from aam.train.memory import meter
from aam.train.memory.micro_batches import MicroBatches
from aam.train.memory.search import fit_to_memory
from aam.train.memory.step_measurement import memory_problem, shortage_reason

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass
class StepMemory:
    """Keeps the steps of one run within the memory.

    Attributes
    ----------
    model
        Model as `Devices.setup_model` returned it; its `module` has an `encoder`.
    optimizer
        Its optimizer.
    devices
        Where it is trained.
    limit_gb
        Memory that this process may take in a step, in GB of 2**30 bytes; None: most of what is
        free.
    recompute
        What the backward pass computes again where a batch is one micro-batch.
    micro_batches
        How batches are split; None: that is not known yet.
    threshold
        Fraction of an accelerator's free memory that may be taken where there is no limit.
    """

    model: Any
    optimizer: Any
    devices: Devices
    limit_gb: float | None
    recompute: Recompute
    micro_batches: MicroBatches | None = None
    _: KW_ONLY
    threshold: float

    def prepare(self, dataset: BatchDataset) -> MicroBatches:
        """Choose the micro-batches, unless a checkpoint has those of the same limit.

        Parameters
        ----------
        dataset
            Batches of the run.

        Returns
        -------
        MicroBatches
            How batches are split.

        Raises
        ------
        InputError
            The smallest micro-batches do not fit.
        """
        chosen = self.micro_batches
        if chosen is None or not self._suits_this_run(chosen):
            chosen = fit_to_memory(
                self.model,
                dataset,
                self.devices,
                limit_gb=self.limit_gb,
                recompute=self.recompute,
                threshold=self.threshold,
            )
        self.micro_batches = chosen
        chosen.apply(self.model.module)
        return chosen

    def _suits_this_run(self, chosen: MicroBatches) -> bool:
        """Return whether micro-batches were chosen for the same limit and number of processes."""
        is_same_limit = chosen.limit_gb == self.limit_gb
        return is_same_limit and chosen.processes == self.devices.processes

    def run(self, step: Callable[..., T], batch: Batch, *arguments: object) -> T:
        """Do a step, again in smaller micro-batches where the memory does not suffice.

        Parameters
        ----------
        step
            Called with the batch in micro-batches and the `arguments`. It sets the random state
            itself, because it may be called several times.
        batch
            The batch, on the host.
        arguments
            Further arguments of `step`.

        Returns
        -------
        Any
            What `step` returns.

        Raises
        ------
        InputError
            The memory does not suffice for the smallest micro-batches, for the update of the
            weights, or for one of several processes, the others of which wait.
        """
        updates: list[bool] = []

        def note_update(*_: object) -> None:
            updates.append(True)

        hook = self.optimizer.register_step_pre_hook(note_update)
        try:
            while True:
                assert self.micro_batches is not None
                try:
                    return step(self.micro_batches.split(batch), *arguments)
                except RuntimeError as error:
                    reason = shortage_reason(error, self.devices)
                # An update that was begun may have changed some of the weights.
                if updates:
                    raise memory_problem(f"too little for the update of the weights ({reason})")
                self._shrink(batch, reason)
        finally:
            hook.remove()

    def _shrink(self, batch: Batch, reason: str) -> None:
        """Go on in smaller micro-batches, after a step that ran out of memory."""
        assert self.micro_batches is not None
        self.optimizer.zero_grad(set_to_none=True)
        self.devices.leave_out()
        meter.recover()
        smaller = self.micro_batches.halve(batch)
        if smaller is None:
            raise memory_problem(f"too little for {self.micro_batches} ({reason})")
        logger.warning("out of memory: from now on %s", smaller)
        self.micro_batches = smaller
        smaller.apply(self.model.module)

    def state(self) -> dict[str, Any]:
        """Return the micro-batches in plain types."""
        return {} if self.micro_batches is None else asdict(self.micro_batches)

    def restore(self, state: dict[str, Any]) -> None:
        """Take the micro-batches of a state, unless this process has chosen some already."""
        if state and self.micro_batches is None:
            self.micro_batches = MicroBatches(**state)
