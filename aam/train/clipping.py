"""Ways to bound a gradient before the update. Nothing here waits for the device.

Shape suffixes: H latest steps.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm

from aam.config.sections.training import Clipping as Kind
from aam.config.sections.training import Training
from aam.train.distributed.devices import Devices

LIMITS: dict[Kind, float] = {"norm": 1.0, "value": 1.0, "adaptive": 0.01, "percentile": 10.0}
"""What is taken where no limit is given."""
REMEMBERED = 1000
"""Latest norms whose percentile is taken."""
LEAST_WEIGHTS = 1e-3
"""Norm that a unit's weights are taken to have at least: those that start at 0 could not learn."""
TINY = 1e-6
"""Norm that a gradient is taken to have at least."""


class Clipping:
    """Bounds the gradients of one run, by a method and its limit.

    Parameters
    ----------
    kind
        - ``norm``: the gradient is scaled down to the limit as its largest norm
        - ``value``: each number of it is cut off at plus and minus the limit
        - ``adaptive``: the gradient of each unit, a row of a matrix or a whole vector, is scaled
          down to the limit times the norm of the unit's weights (Brock et al. 2021,
          arXiv:2102.06171, section 4); other than there, also in the last layer
        - ``percentile``: as ``norm``, where the largest norm is the limit as a percentile of the
          norms of the latest `REMEMBERED` steps, this one among them (AutoClip, Seetharaman et al.
          2020, arXiv:2007.14469, which keeps all)
    limit
        A norm, a value, a ratio or a percentile (0 to 100); None: that of `LIMITS`.
    """

    def __init__(self, kind: Kind, limit: float | None = None) -> None:
        self.kind, self.limit = kind, LIMITS[kind] if limit is None else limit
        self._norm_H: Tensor | None = None
        self._steps = 0

    @classmethod
    def of(cls, settings: Training) -> "Clipping":
        """Return what the settings of a training ask for."""
        return cls(settings.clipping, settings.gradient_clip)

    def __call__(self, model: nn.Module, optimizer: Any, devices: Devices) -> Tensor:
        """Bound the gradients of a model that was set up; return their norm before, unread.

        A gradient that is not finite stays so, or its norm tells.
        """
        if self.kind == "norm":
            return devices.clip(model, optimizer, self.limit)
        devices.unscale(model, optimizer)
        parameters = [p for p in model.parameters() if p.grad is not None]
        norm = _whole(get_total_norm([p.grad for p in parameters if p.grad is not None]))
        if self.kind == "value":
            nn.utils.clip_grad_value_(parameters, self.limit)
        elif self.kind == "adaptive":
            clip_units(parameters, self.limit)
        else:
            share = (self._percentile(norm) / (norm + TINY)).clamp(max=1.0)
            for parameter in parameters:
                _own(parameter.grad).mul_(share)
        return norm

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs: the latest norms, with tensors and plain values only."""
        return {"norm_H": self._norm_H, "steps": self._steps} if self._steps else {}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned, in a run of the same settings."""
        self._norm_H, self._steps = state.get("norm_H"), state.get("steps", 0)

    def _percentile(self, norm: Tensor) -> Tensor:
        """Remember a norm, unless it is not finite, and return the percentile of all."""
        if self._norm_H is None:
            self._norm_H = torch.full((REMEMBERED,), torch.nan)
        self._norm_H = self._norm_H.to(norm.device)
        self._norm_H[self._steps % REMEMBERED] = torch.where(norm.isfinite(), norm, torch.nan)
        self._steps += 1
        return torch.nanquantile(self._norm_H, self.limit / 100)


@torch.no_grad()
def clip_units(parameters: list[nn.Parameter], ratio: float) -> None:
    """Scale each unit's gradient down to `ratio` times the norm of its weights (`Clipping`)."""
    for parameter in parameters:
        assert parameter.grad is not None
        largest = ratio * _unit_norms(parameter).clamp(min=LEAST_WEIGHTS)
        norms = _unit_norms(parameter.grad).clamp(min=TINY)
        _own(parameter.grad).mul_((largest / norms).clamp(max=1.0))


def _unit_norms(x: Tensor) -> Tensor:
    """Return the norm of every row, of those in this process where rows are divided."""
    if x.ndim > 1:
        return torch.linalg.vector_norm(_own(x), dim=tuple(range(1, x.ndim)), keepdim=True)
    return _whole(torch.linalg.vector_norm(x))


def _own(x: Any) -> Tensor:
    """Return the part of a tensor that lies in this process."""
    return x.to_local() if isinstance(x, DTensor) else x


def _whole(x: Tensor) -> Tensor:
    return x.full_tensor() if isinstance(x, DTensor) else x
