"""What an optimization level stands for, and how a model is set up by it."""

import logging
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aam.config.sections.execution import BY_LEVEL, Clipping, Compile, Optimization
from aam.config.sections.training import Training
from aam.distributed.devices import AUTO, Devices, hardware_name, has_tf32
from aam.model.encoder import Recompute
from aam.model.layers.attention import AttentionBackend, available_backend
from aam.train.compilation import compile_blocks, is_compiled
from aam.train.optimizer import make_optimizer

logger = logging.getLogger(__name__)


class StepOptions(Optimization):
    """The options of a training step: what its level sets, and what was chosen in addition."""

    attention: AttentionBackend
    fused_optimizer: bool
    compile: Compile
    checkpointing: bool
    deterministic: bool

    @property
    def recompute(self) -> Recompute:
        """What the backward pass computes again where a batch is one micro-batch."""
        return "layers" if self.checkpointing else "nothing"

    @property
    def clipping_limit(self) -> float:
        """The limit of `aam.train.step.clip_gradients`."""
        return LIMITS[self.clipping] if self.gradient_clip is None else self.gradient_clip


LIMITS: dict[Clipping, float] = {"norm": 1.0, "value": 1.0, "adaptive": 0.01}
"""What bounds a gradient where no limit is given."""
_ADVANCED: dict[str, Any] = {
    "attention": "auto",
    "fused_optimizer": True,
    "compile": "off",
    "checkpointing": False,
    "deterministic": False,
}
LEVELS: dict[str, dict[str, Any]] = {
    "basic": _ADVANCED | {"attention": "math", "fused_optimizer": False},
    "advanced": _ADVANCED,
    "ultra": _ADVANCED | {"compile": "default"},
    "custom": {},
}
"""What a level sets."""


def step_options(section: Optimization) -> StepOptions:
    """Return the options of a training step.

    Parameters
    ----------
    section
        The section `optimization`: a level, and values that override those of the level.

    Returns
    -------
    StepOptions
        What the level stands for, changed by these values.
    """
    overrides = section.model_dump(exclude_none=True)
    return StepOptions(**{**LEVELS[section.level], **overrides})


def set_up(
    model: nn.Module,
    settings: Training,
    options: StepOptions,
    devices: Devices,
    compile_cache: Path | None = None,
) -> tuple[Any, Any]:
    """Make a model ready for training.

    Parameters
    ----------
    model
        Model whose forward pass returns named losses.
    settings
        Settings of its optimizer.
    options
        Options of a step.
    devices
        Where it is trained.
    compile_cache
        Folder for compiled layers, see `aam.train.compilation.compile_blocks`.

    Returns
    -------
    model, optimizer
        The model and its optimizer as `devices` wrap them.
    """
    wrapped = devices.setup_model(model)
    # Layers are compiled after `setup_model`, which may copy and shard them.
    compile_blocks(wrapped.module, options.compile, devices.device, compile_cache)
    optimizer = make_optimizer(wrapped.module, settings, fused=options.fused_optimizer)
    _warn_about_attention(options.attention, devices.device)
    return wrapped, devices.setup_optimizer(optimizer)


@cache
def _warn_about_attention(backend: AttentionBackend, device: torch.device) -> None:
    """Warn once in a process where a device lacks the attention that is asked for."""
    available = available_backend(backend, device)
    if available != backend:
        logger.warning(
            "optimization.attention: this machine has no %s kernel, training uses %s attention",
            backend,
            available,
        )
    elif backend == "flash" and device.type == "cuda":
        logger.warning("flash attention takes no mask on a GPU: it is memory-efficient with one")


def describe_setup(module: nn.Module, options: StepOptions, devices: Devices) -> dict[str, Any]:
    """Return the options as a machine carries them out.

    A compilation may fail in the first steps: only after them is the description complete.

    Parameters
    ----------
    module
        A module that was set up.
    options
        What the configuration asks for.
    devices
        Where the module is trained.

    Returns
    -------
    dict
        The options, the `precision`, the `hardware` that it was chosen on, and `lacking`: what was
        asked for and this machine does not have, for each of which a warning was logged.
    """
    # What the machine lacks replaces these values below.
    carried_out = {name: getattr(options, name) for name in (*BY_LEVEL, "anomaly", "level")}
    carried_out["precision"] = devices.precision
    carried_out["hardware"] = hardware_name()
    carried_out["attention"] = available_backend(options.attention, devices.device)
    if not is_compiled(module):
        carried_out["compile"] = "off"
    if options.precision == "tf32" and not has_tf32(devices.device):
        carried_out["precision"] = "fp32"
    wanted = {
        "compile": options.compile,
        "precision": options.precision,
        "attention": options.attention,
    }
    if options.precision == AUTO:
        # With `auto` nothing is lacking, whatever was chosen.
        wanted["precision"] = carried_out["precision"]
    lacking = []
    for name, value in wanted.items():
        if carried_out[name] != value:
            lacking.append(f"{name}: {value}")
    carried_out["lacking"] = lacking
    return carried_out
