"""Ways to bound a gradient before the update. Nothing here waits for the device."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm

from aam.config.sections.execution import Clipping
from aam.distributed.devices import Devices

LEAST_WEIGHTS = 1e-3
"""Norm that a unit's weights are taken to have at least: those that start at 0 could not learn."""
TINY = 1e-6
"""Norm that a gradient is taken to have at least."""


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
