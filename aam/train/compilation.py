"""torch.compile per block: one graph for all blocks of a kind, whatever the number of sequences."""

import logging
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
from torch import nn

from aam.config.sections.execution import Compile
from aam.model.layers.blocks import Layer
from aam.util.errors import first_line

logger = logging.getLogger(__name__)
RECOMPILATIONS = 16
"""Graphs of one piece of code, after which further shapes run uncompiled."""
CACHE = "compiled"
"""Folder of what was compiled, below the work folder of a stage."""


def compile_blocks(
    model: nn.Module, mode: Compile, device: torch.device, cache: Path | None = None
) -> bool:
    """Compile every layer of `model` that gains by it, in place and on its first use.

    Parameters
    ----------
    model
        Model whose layers are compiled, on its device.
    mode
        Mode of torch.compile, or ``"off"``.
    device
        Device on which a working compiler is looked for.
    cache
        Folder for what is compiled; None: that of the user, which all runs share.

    Returns
    -------
    bool
        Whether the layers will run compiled. Without a working compiler one warning says so. A
        layer whose compilation fails later is run uncompiled, and so are all others from then on,
        after one warning; `is_compiled` tells. The cache is removed then: a compilation that was
        killed leaves broken files in it, with which every later one would fail.
    """
    if mode == "off":
        return False
    if cache is not None:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache.absolute())
    reason = _why_not(device)
    if reason is not None:
        _remove(cache)
        logger.warning(
            "optimization.compile: %s is not available, training runs uncompiled: %s", mode, reason
        )
        return False
    torch._dynamo.config.recompile_limit = RECOMPILATIONS
    # The backward pass is compiled with the forward pass: the layer's call raises what fails.
    torch._functorch.config.force_non_lazy_backward_lowering = True
    give_up = partial(_give_up, model, cache)
    for layer in model.modules():
        if isinstance(layer, Layer) and layer.is_compiled:
            # Sizes of blocks differ from batch to batch: without `dynamic` each would be compiled.
            layer.compile(mode=mode, dynamic=True)
            compiled = layer._compiled_call_impl
            assert compiled is not None
            layer._compiled_call_impl = partial(_call, layer, compiled, give_up=give_up)
    return True


def is_compiled(model: nn.Module) -> bool:
    """Return whether any layer of a model runs compiled, or will on its first use.

    Parameters
    ----------
    model
        Model after `compile_blocks`.

    Returns
    -------
    bool
        False also after a compilation that failed.
    """
    return any(module._compiled_call_impl is not None for module in model.modules())


def graphs_compiled() -> int:
    """Return how many graphs of layers this process has compiled.

    Returns
    -------
    int
        The count of torch.compile, without the small function that looks for a working compiler.
    """
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _call(
    layer: Layer,
    compiled: Callable[..., Any],
    *args: Any,
    give_up: Callable[[Exception], None],
    **kwargs: Any,
) -> Any:
    """Call a compiled layer; where its compilation fails give up, and call it uncompiled."""
    try:
        return compiled(*args, **kwargs)
    except (torch._dynamo.exc.TorchDynamoException, OSError) as error:
        give_up(error)
    return layer(*args, **kwargs)


def _give_up(model: nn.Module, cache: Path | None, error: Exception) -> None:
    """Let all layers of a model run uncompiled, remove the cache, and warn."""
    for module in model.modules():
        module._compiled_call_impl = None
    _remove(cache)
    logger.warning(
        "optimization.compile: the compilation failed, training goes on uncompiled: %s",
        _reason(error),
    )


def _reason(error: Exception) -> str:
    """Return the first line of an error, or of what the compiler's own error is about."""
    return first_line(getattr(error, "inner_exception", error))


def _remove(cache: Path | None) -> None:
    if cache is not None:
        shutil.rmtree(cache, ignore_errors=True)


def _why_not(device: torch.device) -> str | None:
    """Compile one small function; return the first line of the error, or None."""
    small = torch.ones(8, device=device)
    before = graphs_compiled()
    try:
        torch.compile(lambda x: x + x)(small)
    except (torch._dynamo.exc.TorchDynamoException, RuntimeError, OSError) as error:
        return _reason(error)
    # The trial is no graph of a layer.
    torch._dynamo.utils.counters["stats"]["unique_graphs"] = before
    return None
