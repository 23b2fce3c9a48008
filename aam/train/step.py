"""One training step, and the batches of all of them."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from aam.config.sections.training import Training
from aam.model.batch import Batch
from aam.train.clipping import Clipping
from aam.train.data.dataset import BatchDataset
from aam.train.distributed.devices import Devices
from aam.train.distributed.shards import ShardDataset
from aam.train.faults import alive
from aam.train.nonfinite import NonFiniteGuard
from aam.train.optimizer import set_rate
from aam.util.seeds import seed_of

PREFETCHED = 4
"""Batches that each worker holds ready for an accelerator."""


def train_step(
    model: nn.Module,
    optimizer: Any,
    batch: Batch,
    rate: float,
    settings: Training,
    step: int,
    devices: Devices,
    clipping: Clipping | None = None,
    guard: NonFiniteGuard | None = None,
) -> tuple[dict[str, Tensor], Tensor]:
    """Do one update, unless a guard says otherwise; return the losses and the gradient's norm.

    Nothing here waits for the device, but in fp16 the check of the scale, and a guard that skips.

    Parameters
    ----------
    model, optimizer
        As `devices` set them up.
    batch
        On the device.
    rate
        Learning rate.
    settings
        Those of the run.
    step
        Number of the step, from 0: dropout is a function of it.
    devices
        Where the model is.
    clipping
        What bounds the gradients; None: what the settings ask for, without a memory.
    guard
        What looks at loss and gradient; None: the update is always made.
    """
    set_rate(optimizer, rate)
    torch.manual_seed(seed_of("dropout", settings.seed, step))
    if guard is not None:
        guard.keep(model)
    losses = model(batch)
    devices.backward(losses["loss"])
    norm = (clipping or Clipping.of(settings))(model, optimizer, devices)
    if guard is None or guard.passes(losses, norm, step):
        optimizer.step()
    else:
        guard.undo()
    optimizer.zero_grad(set_to_none=True)
    if devices.precision == "fp16":
        # The scaler left out a step that overflowed, and goes on with a smaller scale.
        norm = norm.nan_to_num(nan=0.0, posinf=0.0)
    return {name: value.detach() for name, value in losses.items()}, norm.detach()


def batches(
    dataset: BatchDataset | ShardDataset, first: int, *, workers: int, pin: bool
) -> Iterator[Batch]:
    """Yield the batches of a dataset from a step on, assembled ahead by so many processes."""
    loader = DataLoader(
        dataset,
        batch_size=None,
        sampler=range(first, len(dataset)),
        num_workers=workers,
        prefetch_factor=PREFETCHED if workers else None,
        pin_memory=pin,
    )
    yield from alive(loader) if workers else loader
