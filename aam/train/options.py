"""What an optimization level stands for."""

from dataclasses import dataclass

from aam.config.sections.execution import Optimization
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
    """

    attention: AttentionBackend
    fused_optimizer: bool


LEVELS = {
    "basic": StepOptions(attention="math", fused_optimizer=False),
    "advanced": StepOptions(attention="auto", fused_optimizer=True),
}


def step_options(section: Optimization) -> StepOptions:
    """Return the options of the section's level with its own overrides."""
    level = LEVELS[section.level]
    return StepOptions(
        attention=level.attention if section.attention is None else section.attention,
        fused_optimizer=(
            level.fused_optimizer if section.fused_optimizer is None else section.fused_optimizer
        ),
    )
