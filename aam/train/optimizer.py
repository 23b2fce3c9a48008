"""The optimizers, their parameter groups, and the learning rate as a function of the step.

Shape suffixes: M matrices of one shape, R rows, C columns.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.distributed.tensor import DTensor

from aam.config.sections.training import Training
from aam.model.layers.blocks import Layer

MUON_RATE = 20.0
"""Learning rate of Muon in units of AdamW's: an orthogonal update is that much smaller."""


def make_optimizer(model: nn.Module, settings: Training, *, fused: bool) -> "CombinedOptimizer":
    """Return an optimizer over the trainable parameters of a model.

    AdamW is that of Loshchilov & Hutter 2019 (arXiv:1711.05101). Muon (Jordan et al. 2024) updates
    the matrices of layers, at a fixed multiple of the learning rate, and AdamW all other
    parameters. Weight decay applies to what has two dimensions: matrices, and the factors by which
    reads weigh in attention, not biases, norms and scales.

    Parameters
    ----------
    model
        Model with its weights on the device.
    settings
        Kind of optimizer, learning rate and weight decay.
    fused
        Whether AdamW's whole update is one kernel.

    Returns
    -------
    CombinedOptimizer
        At the learning rate of the settings.
    """
    trainable = [p for p in model.parameters() if p.requires_grad]
    hidden = _layer_matrices(model) if settings.optimizer == "muon" else []
    hidden_ids = {id(p) for p in hidden}
    others = [p for p in trainable if id(p) not in hidden_ids]
    matrices = {"params": [p for p in others if p.ndim >= 2], "weight_decay": settings.weight_decay}
    vectors = {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0}
    adamw = optim.AdamW([matrices, vectors], betas=(0.9, 0.98), fused=fused, foreach=False)
    parts: list[optim.Optimizer] = [adamw]
    if hidden:
        parts.append(BatchedMuon(hidden, weight_decay=settings.weight_decay))
    combined = CombinedOptimizer(*parts)
    set_rate(combined, settings.learning_rate)
    return combined


def set_rate(optimizer: optim.Optimizer, rate: float) -> None:
    """Set the learning rate of AdamW's groups, and its multiple for Muon's.

    Parameters
    ----------
    optimizer
        A `CombinedOptimizer`, or one of its parts.
    rate
        Learning rate of AdamW.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate * (MUON_RATE if "ns_steps" in group else 1.0)


def fraction_of_peak(step: int, total: int, *, warmup: float, is_linear: bool) -> float:
    """Return the fraction of the peak learning rate at a step.

    It rises linearly, then falls to zero by a cosine (Loshchilov & Hutter 2017, arXiv:1608.03983,
    without restarts), or on a straight line (Bergsma et al. 2025, arXiv:2502.15938).

    Parameters
    ----------
    step
        Number of the step, from 0.
    total
        Number of steps of the run.
    warmup
        Fraction of the steps in which the rate rises.
    is_linear
        Whether it falls on a straight line.

    Returns
    -------
    float
        From 0 to 1.
    """
    rising = max(1, round(warmup * total))
    if step < rising:
        return (step + 1) / rising
    done = (step - rising) / max(1, total - rising)
    return 1.0 - done if is_linear else 0.5 * (1.0 + math.cos(math.pi * done))


def _layer_matrices(model: nn.Module) -> list[nn.Parameter]:
    layers = [module for module in model.modules() if isinstance(module, Layer)]
    return [p for layer in layers for p in layer.matrices() if p.requires_grad]


class BatchedMuon(optim.Muon):
    """Muon that updates matrices of equal sides at once: a small one keeps no device busy.

    Updates and state are those of `torch.optim.Muon`, but for rounding; sharded matrices are
    updated by `torch.optim.Muon` itself.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            if any(isinstance(matrix, DTensor) for matrix in group["params"]):
                return super().step()
            by_sides: dict[tuple[int, ...], list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_sides.setdefault(tuple(sorted(matrix.shape)), []).append(matrix)
            for matrices in by_sides.values():
                tall = [matrix for matrix in matrices if matrix.shape[0] > matrix.shape[1]]
                wide = [matrix for matrix in matrices if matrix.shape[0] <= matrix.shape[1]]
                self._update(tall, wide, group)
        return None

    def _update(self, tall: list[Tensor], wide: list[Tensor], group: dict[str, Any]) -> None:
        """Update matrices of equal sides, of which the tall ones lie down in between."""
        # Newton-Schulz iterations work on the products of rows with each other: where a matrix lies
        # down, these are the shorter side.
        momenta = []
        if tall:
            momenta.append(self._update_momenta(tall, group).mT)
        if wide:
            momenta.append(self._update_momenta(wide, group))
        directions_MRC = orthogonalize(torch.cat(momenta), group)
        tall_MRC, wide_MRC = directions_MRC.split([len(tall), len(wide)])
        if tall:
            _move(tall, tall_MRC.mT, group)
        if wide:
            _move(wide, wide_MRC, group)

    def _update_momenta(self, matrices: list[Tensor], group: dict[str, Any]) -> Tensor:
        """Take in the gradients of some matrices, and return their Nesterov momenta [M, R, C]."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        buffers = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
        return torch.stack(torch._foreach_lerp(gradients, buffers, group["momentum"]))


def _move(matrices: list[Tensor], direction_MRC: Tensor, group: dict[str, Any]) -> None:
    """Decay matrices of one shape, and move each against its direction."""
    rows, columns = matrices[0].shape
    # As in `torch.optim.Muon`, this factor makes tall matrices change their outputs as much as
    # wide ones.
    rate = group["lr"] * math.sqrt(max(1.0, rows / columns))
    direction_MRC = direction_MRC.to(matrices[0].dtype, memory_format=torch.contiguous_format)
    torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
    torch._foreach_add_(matrices, direction_MRC.unbind(), alpha=-rate)


def orthogonalize(x_MRC: Tensor, group: dict[str, Any]) -> Tensor:
    """Return about the nearest matrices with orthonormal rows, by Newton-Schulz iterations.

    Parameters
    ----------
    x_MRC
        Matrices, none with more rows than columns.
    group
        Group of `torch.optim.Muon`, which has the coefficients and the number of iterations.

    Returns
    -------
    torch.Tensor
        Matrices [M, R, C] in bf16.
    """
    a, b, c = group["ns_coefficients"]
    x_MRC = x_MRC.bfloat16()
    # The iterations converge for singular values up to 1, which the Frobenius norm bounds.
    norm_M11 = torch.linalg.vector_norm(x_MRC, dim=(1, 2), keepdim=True)
    x_MRC = x_MRC / norm_M11.clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram_MRR = x_MRC @ x_MRC.mT
        gram_MRR = torch.baddbmm(gram_MRR, gram_MRR, gram_MRR, beta=b, alpha=c)
        x_MRC = torch.baddbmm(x_MRC, gram_MRR, x_MRC, beta=a)
    return x_MRC


class CombinedOptimizer(optim.Optimizer):
    """Optimizers of different parameters that step as one.

    Gradients are unscaled before, also those of a fused AdamW.
    """

    def __init__(self, *parts: optim.Optimizer) -> None:
        self.parts = parts
        super().__init__([p for group in self.param_groups for p in group["params"]], {})

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all parts."""
        return [group for part in self.parts for group in part.param_groups]

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        """Keep the groups of the parts: the base class assigns an empty list at its start."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Do nothing: every parameter is in a part."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step every part."""
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the parts by their numbers."""
        return {str(number): part.state_dict() for number, part in enumerate(self.parts)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Fill every part."""
        for number, part in enumerate(self.parts):
            part.load_state_dict(state_dict[str(number)])
