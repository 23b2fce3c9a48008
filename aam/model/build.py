"""Models from plain settings."""

import torch
from torch import nn

from aam.model.asv_encoders import Architecture
from aam.model.encoder import Encoder
from aam.model.layers.attention import AttentionBackend
from aam.model.layers.layer import Layer


def build_encoder(shape: Architecture, *, seed: int, backend: AttentionBackend) -> Encoder:
    """Return an encoder with new weights, whose residual branches start small.

    Parameters
    ----------
    shape
        Shape of the encoder.
    seed
        Seed of the weights. Torch's random state stays as it is.
    backend
        Kernel of attention.

    Returns
    -------
    Encoder
        On the CPU.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(shape, backend)
        initialize(encoder)
    return encoder


def initialize(model: nn.Module) -> None:
    """Draw the weights of a model in place, from torch's random state.

    Linear layers get normal weights, smaller ones where they end a residual branch. Other layers
    draw theirs by `Layer.initialize`.

    Parameters
    ----------
    model
        Model whose weights are drawn.
    """
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            ends_residual_branch = name.endswith((".out", ".ffn_out"))
            nn.init.normal_(layer.weight, std=0.02 / 2 if ends_residual_branch else 0.05)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, Layer):
            layer.initialize()


def set_dropout(model: nn.Module, rate: float) -> None:
    """Set the rate of every dropout layer.

    Parameters
    ----------
    model
        Model that is changed.
    rate
        Fraction that is dropped.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = rate
