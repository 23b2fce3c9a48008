"""torch.compile per block: one graph for all blocks of a kind, whatever the number of sequences."""

import logging

import torch
from torch import nn

from aam.config.sections.execution import Compile
from aam.nn.layer import Layer
from aam.util.errors import first_line

logger = logging.getLogger(__name__)
RECOMPILATIONS = 16
"""Graphs of one piece of code, after which further shapes run uncompiled."""


def compile_blocks(model: nn.Module, mode: Compile, device: torch.device) -> bool:
    """Compile every layer of `model` that gains by it, in place and on its first use.

    Return whether they will run compiled: without a working compiler one warning says so.
    """
    if mode == "off":
        return False
    reason = _why_not(device)
    if reason is not None:
        logger.warning(
            "optimization.compile: %s is not available, training runs uncompiled: %s", mode, reason
        )
        return False
    torch._dynamo.config.recompile_limit = RECOMPILATIONS
    for layer in model.modules():
        if isinstance(layer, Layer) and layer.is_compiled:
            layer.compile(mode=mode, dynamic=True)
    return True


def graphs_compiled() -> int:
    """Return how many graphs of layers this process has compiled."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _why_not(device: torch.device) -> str | None:
    """Compile one small function; return the first line of the error, or None."""
    small, before = torch.ones(8, device=device), graphs_compiled()
    try:
        torch.compile(lambda x: x + x)(small)
    except (torch._dynamo.exc.TorchDynamoException, RuntimeError, OSError) as error:
        return first_line(error)
    torch._dynamo.utils.counters["stats"]["unique_graphs"] = before
    return None
