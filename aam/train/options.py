"""What an optimization level stands for, and a model that is set up by it."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from aam.config.sections.execution import (
    BY_LEVEL,
    Clipping,
    Compile,
    Nonfinite,
    Optimization,
    Precision,
)
from aam.config.sections.training import Training
from aam.model.encoder import Recompute
from aam.nn.attention import AttentionBackend
from aam.train.compilation import compile_blocks
from aam.train.distributed.devices import Devices
from aam.train.optimizer import make_optimizer


@dataclass(frozen=True)
class StepOptions:
    """The options of a training step, by `aam.config.sections.execution.Optimization`."""

    attention: AttentionBackend
    fused_optimizer: bool
    compile: Compile
    checkpointing: bool
    deterministic: bool
    anomaly: bool = False
    level: str = "custom"
    precision: Precision = "bf16"
    clipping: Clipping = "norm"
    gradient_clip: float | None = None
    nonfinite: Nonfinite = "raise"
    nonfinite_limit: int = 5

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
_ADVANCED = StepOptions("auto", True, "off", False, False)
LEVELS = {
    "basic": StepOptions("math", False, "off", False, False),
    "advanced": _ADVANCED,
    "ultra": replace(_ADVANCED, compile="default"),
}
"""What a level sets; ``custom`` sets nothing."""


def step_options(section: Optimization) -> StepOptions:
    """Return the options of the section's level with its own overrides."""
    chosen = {name: value for name, value in section if value is not None}
    if section.level == "custom":
        return StepOptions(**chosen)
    return replace(LEVELS[section.level], **chosen)


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
    has_tf32 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    if options.precision == "tf32" and not has_tf32:
        report["precision"] = "fp32"
    wanted = {"compile": options.compile, "precision": options.precision}
    report["lacking"] = [f"{name}: {one}" for name, one in wanted.items() if report[name] != one]
    return wrapped, devices.setup_optimizer(optimizer), report
