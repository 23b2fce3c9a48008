"""What an optimization level stands for."""

from dataclasses import dataclass, fields

from aam.config.sections.execution import Compile, Optimization
from aam.model.encoder import Recompute
from aam.nn.attention import AttentionBackend


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
    """

    attention: AttentionBackend
    fused_optimizer: bool
    compile: Compile
    checkpointing: bool
    deterministic: bool

    @property
    def recompute(self) -> Recompute:
        """What the backward pass computes again where a batch is not cut."""
        return "layers" if self.checkpointing else "nothing"


LEVELS = {
    "basic": StepOptions("math", False, "off", False, False),
    "advanced": StepOptions("auto", True, "off", False, False),
}


def step_options(section: Optimization) -> StepOptions:
    """Return the options of the section's level with its own overrides."""
    level = LEVELS[section.level]
    chosen = {}
    for field in fields(StepOptions):
        own = getattr(section, field.name)
        chosen[field.name] = getattr(level, field.name) if own is None else own
    return StepOptions(**chosen)
