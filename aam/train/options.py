"""What an optimization level stands for."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from aam.config.sections.execution import BY_LEVEL, Compile, Optimization
from aam.model.encoder import Recompute
from aam.nn.attention import AttentionBackend
from aam.train.distributed.devices import Devices


@dataclass(frozen=True)
class StepOptions:
    """The named options of a training step.

    Attributes
    ----------
    attention
        Back-end of attention.
    fused_optimizer
        One kernel for the whole AdamW update.
    compile
        Mode of torch.compile for every block, or ``off``.
    checkpointing
        Activations of a block's inside are computed again in the backward pass.
    deterministic
        Only algorithms with bit-identical reruns on an accelerator.
    anomaly
        The operation whose gradient became NaN is named.
    level
        What the others were chosen by, for records.
    """

    attention: AttentionBackend
    fused_optimizer: bool
    compile: Compile
    checkpointing: bool
    deterministic: bool
    anomaly: bool = False
    level: str = "custom"

    @property
    def recompute(self) -> Recompute:
        """What the backward pass computes again where a batch is not cut."""
        return "layers" if self.checkpointing else "nothing"


_ADVANCED = StepOptions("auto", True, "off", False, False)
LEVELS = {
    "basic": StepOptions("math", False, "off", False, False),
    "advanced": _ADVANCED,
    "ultra": replace(_ADVANCED, compile="default"),
}
"""What a level sets; ``custom`` sets nothing."""


def step_options(section: Optimization) -> StepOptions:
    """Return the options of the section's level with its own overrides."""
    own = {name: getattr(section, name) for name in (*BY_LEVEL, "anomaly", "level")}
    chosen = {name: value for name, value in own.items() if value is not None}
    if section.level == "custom":
        return StepOptions(**chosen)
    return replace(LEVELS[section.level], **chosen)


def carried_out(
    options: StepOptions, *, is_compiled: bool, asked_precision: str, devices: Devices
) -> dict[str, Any]:
    """Return the options as this machine carries them out, for the records of a run.

    Parameters
    ----------
    options
        What was asked for.
    is_compiled
        Whether the blocks run compiled.
    asked_precision, devices
        The arithmetic that was asked for, and the devices, which know what it became.

    Returns
    -------
    dict
        The options by name, `precision`, and `lacking`: what was asked for and cannot be had here.
        That there is none was said when it was found out.
    """
    found = {**asdict(options), "precision": devices.precision}
    lacking = []
    if options.compile != "off" and not is_compiled:
        found["compile"] = "off"
        lacking.append(f"compile: {options.compile}")
    if asked_precision == "tf32" and not _has_tf32(devices.device):
        found["precision"] = "fp32"
    if found["precision"] != asked_precision:
        lacking.append(f"precision: {asked_precision}")
    return {**found, "lacking": lacking}


def _has_tf32(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
