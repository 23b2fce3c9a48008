"""What the fine-tuning of a task gets of the configuration."""

from typing import Any, Literal

from aam.config.sections.base import StageSettings
from aam.config.sections.execution import Optimization
from aam.config.sections.finetuning import Finetuning
from aam.config.sections.model import EncoderShape


class TargetSettings(StageSettings):
    """What is predicted, as the section `tasks.<name>` says."""

    kind: Literal["regression", "classification", "ordinal"]
    """Whether numbers, classes or ordered classes are predicted."""
    columns: list[str]
    """Metadata columns that are predicted."""
    classes: list[str] | None
    """Values of an ordinal column, the lowest first; None: those that occur."""
    transform: str
    """How numbers are transformed."""
    transform_by: str | None
    """Column whose categories have scales of their own; None: there is one scale."""
    bounds: tuple[float | None, float | None]
    """Least and largest possible value; None: there is no bound."""
    condition: list[str]
    """Metadata columns that are covariates."""


class FinetuneSettings(TargetSettings):
    """What is predicted, how models are trained, and what they must know of the study."""

    names: dict[str, str]
    """What `dataset`, `model` and `task` are called."""
    is_mixed: bool
    """A super learner will mix the predictions, and asks for nested ones."""
    finetuning: Finetuning
    optimization: Optimization
    # It is plain, as models keep it: a section would make fine-tuning depend on other stages'.
    rarefaction: dict[str, Any]
    """The section `rarefaction`, by which other tables are treated alike."""
    model: EncoderShape | None = None
    """What encoders are built from where they start from scratch."""

    def plain(self) -> dict[str, Any]:
        """Return the settings as plain built-in types, without a budget that changes nothing."""
        settings = super().plain()
        if not self.finetuning.has_budget:
            del settings["finetuning"]["budget_minutes"]
        return settings
