"""What an optimization level stands for, and a model that is set up by it."""

import logging
from typing import Any

import torch
from torch import nn

from aam.config.sections.execution import BY_LEVEL, Clipping, Compile, Optimization
from aam.config.sections.training import Training
from aam.model.encoder import Recompute
from aam.nn.attention import AttentionBackend
from aam.train.compilation import compile_blocks
from aam.train.distributed.devices import Devices
from aam.train.optimizer import make_optimizer

logger = logging.getLogger(__name__)


class StepOptions(Optimization):
    """The options of a training step: what its level sets, and what was chosen beside that."""

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
        """The limit of `aam.train.clipping.clip_gradients`."""
        return LIMITS[self.clipping] if self.gradient_clip is None else self.gradient_clip


LIMITS: dict[Clipping, float] = {"norm": 1.0, "value": 1.0, "adaptive": 0.01}
"""What bounds a gradient where no limit is given."""
_ADVANCED = dict(zip(BY_LEVEL, ("auto", True, "off", False, False), strict=True))
LEVELS: dict[str, dict[str, Any]] = {
    "basic": _ADVANCED | {"attention": "math", "fused_optimizer": False},
    "advanced": _ADVANCED,
    "ultra": _ADVANCED | {"compile": "default"},
    "custom": {},
}
"""What a level sets."""


def step_options(section: Optimization) -> StepOptions:
    """Return the options of the section's level with its own overrides."""
    return StepOptions(**{**LEVELS[section.level], **section.model_dump(exclude_none=True)})


def set_up(
    model: nn.Module, settings: Training, options: StepOptions, devices: Devices
) -> tuple[Any, Any, dict[str, Any]]:
    """Make a model ready for training; return it and its optimizer as `devices` wrap them.

    The report has the options as this machine carries them out, `precision`, and `lacking`: what
    was asked for and cannot be had here, of which a warning was given.
    """
    wrapped = devices.setup_model(model)
    is_compiled = compile_blocks(wrapped.module, options.compile, devices.device)
    optimizer = make_optimizer(wrapped.module, settings, fused=options.fused_optimizer)
    report = {name: getattr(options, name) for name in (*BY_LEVEL, "anomaly", "level")}
    report["precision"] = devices.precision
    if not is_compiled:
        report["compile"] = "off"
    device = devices.device
    if options.attention == "flash" and device.type == "cuda":
        logger.warning("flash attention takes no mask on a GPU: it is memory-efficient with one")
    has_tf32 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    if options.precision == "tf32" and not has_tf32:
        report["precision"] = "fp32"
    wanted = {"compile": options.compile, "precision": options.precision}
    report["lacking"] = [f"{name}: {one}" for name, one in wanted.items() if report[name] != one]
    return wrapped, devices.setup_optimizer(optimizer), report
