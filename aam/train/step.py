"""One training step, the ways to bound its gradient, and the batches of all steps."""

import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from torch.utils.data import DataLoader

from aam.batches.dataset import BatchDataset
from aam.config.sections.execution import Clipping
from aam.config.sections.training import Training
from aam.distributed.batch_shards import cut_shard
from aam.distributed.devices import Devices
from aam.model.batch import Batch
from aam.train.nonfinite import NonFiniteGuard
from aam.train.optimizer import fraction_of_peak, set_rate
from aam.train.options import StepOptions
from aam.util.errors import first_line
from aam.util.seeds import seed_of

LEAST_WEIGHTS = 1e-3
"""Norm that a unit's weights are taken to have at least: those that start at 0 could not learn."""
TINY = 1e-6
"""Norm that a gradient is taken to have at least."""
T = TypeVar("T")
PREFETCHED = 4
"""Batches that each worker holds ready for an accelerator."""


class WorkerDied(RuntimeError):
    """A process that assembles batches is gone; the model is as it was after the last step."""


def train_step(
    model: nn.Module,
    optimizer: Any,
    batch: Batch,
    *,
    step: int,
    rate: float,
    seed: int,
    options: StepOptions,
    devices: Devices,
    guard: NonFiniteGuard | None = None,
) -> tuple[dict[str, Tensor], Tensor]:
    """Do one update, unless a guard says otherwise.

    Nothing here waits for the device, except fp16's scaler and a guard that has to know
    immediately.

    Parameters
    ----------
    model
        Model as `Devices.setup_model` returned it. Its forward pass returns named losses.
    optimizer
        Its optimizer, as `Devices.setup_optimizer` returned it.
    batch
        Batch on the device.
    step
        Number of the step, from 0.
    rate
        Learning rate.
    seed
        Dropout is a function of this seed and the step.
    options
        Options of a step.
    devices
        Where the model is trained.
    guard
        What acts on losses and gradients that are not finite; None: nothing does.

    Returns
    -------
    losses : dict
        Detached losses by name.
    norm : torch.Tensor
        Norm of the gradient before it was clipped.

    Raises
    ------
    Rollback or InputError
        See `NonFiniteGuard.passes`.
    """
    if options.compile != "off":
        # This allows CUDA graphs to overwrite the results of the step before: nothing needs them.
        torch.compiler.cudagraph_mark_step_begin()
    set_rate(optimizer, rate)
    torch.manual_seed(seed_of("dropout", seed, step))
    if guard is not None:
        guard.keep(model)
    losses = model(batch)
    _backward(losses["loss"], step, devices, guard)
    norm = clip_gradients(model, optimizer, devices, options.clipping, options.clipping_limit)
    if guard is None or guard.passes(losses, norm, step):
        optimizer.step()
    else:
        guard.undo()
    optimizer.zero_grad(set_to_none=True)
    if devices.precision == "fp16":
        # The scaler has left out a step that overflowed, and goes on with a smaller scale. Its norm
        # counts as 0, so that the mean in the curves stays finite.
        norm = norm.nan_to_num(nan=0.0, posinf=0.0)
    return {name: value.detach() for name, value in losses.items()}, norm.detach()


def _backward(loss: Tensor, step: int, devices: Devices, guard: NonFiniteGuard | None) -> None:
    """Compute gradients; where torch's anomaly mode finds a NaN, the guard names the batch."""
    try:
        devices.backward(loss)
    except RuntimeError as error:
        # The error of the anomaly mode has no class, so that only its words identify it.
        if guard is None or "returned nan values" not in str(error):
            raise
        raise guard.error(step, ["gradient_norm"], first_line(error)) from error


def learning_rate(settings: Training, step: int, total: int) -> float:
    """Return the learning rate at a step.

    Parameters
    ----------
    settings
        Peak learning rate, the fraction of the steps in which it rises, and how it falls.
    step
        Number of the step, from 0.
    total
        Number of steps of the run.

    Returns
    -------
    float
        The rate for AdamW; Muon has a multiple of it.
    """
    fraction = fraction_of_peak(
        step, total, warmup=settings.warmup, is_linear=settings.decays_linearly
    )
    return settings.learning_rate * fraction


def load_batches(
    dataset: BatchDataset, first: int, *, workers: int, pin: bool, devices: Devices | None = None
) -> Iterator[Batch]:
    """Yield the batches of a dataset from a step on, or this process's shards of them.

    Parameters
    ----------
    dataset
        Step to batch.
    first
        Step to begin with.
    workers
        Processes that assemble batches; 0: this process does.
    pin
        Whether batches lie in pinned memory, from which copies to an accelerator do not block.
    devices
        Several processes get a shard each; None: the batches are whole.

    Yields
    ------
    Batch
        Batches on the host, in the order of the steps.

    Raises
    ------
    WorkerDied
        A process that assembles batches is gone.
    """
    shard = None
    if devices is not None and devices.processes > 1:
        # The function gets numbers and not `devices`, because it may be pickled for a worker.
        shard = partial(cut_shard, rank=devices.rank, processes=devices.processes)
    loader = DataLoader(
        dataset,
        batch_size=None,
        collate_fn=shard,
        sampler=range(first, len(dataset)),
        num_workers=workers,
        prefetch_factor=PREFETCHED if workers else None,
        pin_memory=pin,
        # A fork shares the distances; a new interpreter would be sent a copy of all of them.
        multiprocessing_context="fork" if workers and sys.platform == "linux" else None,
    )
    yield from _from_workers(loader) if workers else loader


def _from_workers(loader: Iterable[T]) -> Iterator[T]:
    """Yield the batches of a loader; raise `WorkerDied` when a worker has died."""
    handler = signal.getsignal(signal.SIGCHLD)
    waiting = iter(loader)
    # Torch has installed a handler that raises as soon as a worker dies, also in the middle of an
    # update. Without it the next batch raises, some seconds later at most.
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, handler)
    while True:
        try:
            batch = next(waiting)
        except StopIteration:
            return
        except (ConnectionError, EOFError) as error:
            # A worker hands its batches over through a socket.
            raise WorkerDied(f"DataLoader worker: {first_line(error)}") from error
        except RuntimeError as error:
            if not str(error).startswith("DataLoader worker"):
                raise
            raise WorkerDied(first_line(error)) from error
        yield batch


def clip_gradients(
    model: nn.Module, optimizer: Any, devices: Devices, kind: Clipping, limit: float
) -> Tensor:
    """Bound the gradients of a model that was set up.

    A gradient that is not finite stays so, or makes the norm not finite.

    Parameters
    ----------
    model
        The model as `Devices.setup_model` returned it.
    optimizer
        Its optimizer, as `Devices.setup_optimizer` returned it.
    devices
        Where the model is trained.
    kind
        Kind of bound, as in `Optimization.clipping`. With ``adaptive`` each unit is bounded by the
        norm of its weights, by Brock et al. 2021 (arXiv:2102.06171, section 4). A unit is a row of
        a matrix or a whole vector. In the paper the last layer is left out; here it is not.
    limit
        Largest norm, largest value, or, with ``adaptive``, largest ratio of a gradient to its
        weights.

    Returns
    -------
    torch.Tensor
        Norm of all gradients before, on the device, so that nothing waits for it.
    """
    if kind == "norm":
        return devices.clip(model, optimizer, limit)
    devices.unscale(model, optimizer)
    parameters = [p for p in model.parameters() if p.grad is not None]
    # The norm is taken before any bound, as the curves show it for every kind.
    norm = _whole(get_total_norm([p.grad for p in parameters if p.grad is not None]))
    if kind == "value":
        nn.utils.clip_grad_value_(parameters, limit)
    else:
        _clip_units(parameters, limit)
    return norm


@torch.no_grad()
def _clip_units(parameters: list[nn.Parameter], ratio: float) -> None:
    for parameter in parameters:
        assert parameter.grad is not None
        largest = ratio * _unit_norms(parameter).clamp(min=LEAST_WEIGHTS)
        norms = _unit_norms(parameter.grad).clamp(min=TINY)
        _local(parameter.grad).mul_((largest / norms).clamp(max=1.0))


def _unit_norms(x: Tensor) -> Tensor:
    """Return the norm of every row, of those in this process where rows are sharded."""
    if x.ndim > 1:
        return torch.linalg.vector_norm(_local(x), dim=tuple(range(1, x.ndim)), keepdim=True)
    return _whole(torch.linalg.vector_norm(x))


def _local(x: Any) -> Tensor:
    return x.to_local() if isinstance(x, DTensor) else x


def _whole(x: Tensor) -> Tensor:
    return x.full_tensor() if isinstance(x, DTensor) else x
