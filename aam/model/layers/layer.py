"""What training asks of every layer of an encoder."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    """A layer on positions [sequences, length, width]."""

    is_compiled = True
    """Whether torch.compile gets the layer: one that is a single call of a kernel gains nothing."""

    def matrices(self) -> list[nn.Parameter]:
        """Return the weights that Muon takes; each is multiplied once with every position."""
        return [parameter for parameter in self.parameters() if parameter.ndim == 2]

    def initialize(self) -> None:
        """Draw weights other than those of linear layers, which `aam.model.build` draws."""


class LayerStack(nn.Module):
    """Layers one after the other, of which the backward pass may compute the inside again."""

    blocks: nn.ModuleList
    keeps_layers = True
    """Whether the activations inside of each layer are kept for the backward pass."""

    def run(self, layer: nn.Module, x: Tensor, **options: Any) -> Tensor:
        """Return what a layer makes of its input.

        Parameters
        ----------
        layer
            One of the stack's layers.
        x
            Positions [sequences, length, width].
        options
            Other arguments of the layer.

        Returns
        -------
        torch.Tensor
            Positions of the same shape.
        """
        if self.keeps_layers or not torch.is_grad_enabled():
            return layer(x, **options)
        return checkpoint(layer, x, **options, use_reentrant=False)
