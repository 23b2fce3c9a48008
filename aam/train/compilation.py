"""torch.compile per block: one graph for all blocks of a kind, whatever the number of sequences."""

import logging

import torch
from torch import nn

from aam.config.sections.execution import Compile
from aam.nn.bdh import Bdh
from aam.nn.block import Block

logger = logging.getLogger(__name__)
RECOMPILATIONS = 16
"""Graphs of one piece of code, after which further shapes run uncompiled."""


def compile_blocks(model: nn.Module, mode: Compile, device: torch.device) -> bool:
    """Compile every block of `model` in place, where the machine can.

    Parameters
    ----------
    model
        Its blocks are compiled on their first use, with sizes left open; LSTM layers are not:
        they are one call of a kernel.
    mode
        Mode of torch.compile, or ``off``.
    device
        Where the model will run.

    Returns
    -------
    bool
        True where the blocks will run compiled. Where there is no working compiler one warning
        says so, and everything runs as it is.
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
    for block in model.modules():
        if isinstance(block, Block | Bdh):
            block.compile(mode=mode, dynamic=True)
    return True


def graphs_compiled() -> int:
    """Return how many graphs of blocks this process has compiled."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _why_not(device: torch.device) -> str | None:
    """Compile one small function; return the first line of the error, or None."""
    small, before = torch.ones(8, device=device), graphs_compiled()
    try:
        torch.compile(_doubled)(small)
    except (torch._dynamo.exc.TorchDynamoException, RuntimeError, OSError) as error:
        return str(error).strip().splitlines()[0]
    torch._dynamo.utils.counters["stats"]["unique_graphs"] = before
    return None


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x + x
