"""What the description of a study gets of the configuration: the plan of its run."""

from typing import Literal

from aam.config.sections.base import StageSettings
from aam.config.sections.finetuning import Finetuning
from aam.config.sections.model import EncoderShape
from aam.config.sections.training import Pretraining
from aam.config.settings.data import ImportTreeSettings
from aam.config.settings.tasks import FoldsSettings


class PlannedModel(StageSettings):
    """What the time of a model's training depends on."""

    model: EncoderShape
    """What the encoder is built from."""
    pretraining: Pretraining


class PlannedTask(FoldsSettings):
    """What the time of a task depends on, with the columns that its scores need."""

    finetuning: Finetuning
    explained: int
    """Held-out samples of a fold that are explained; 0: none are."""
    report_by: list[str]
    """Metadata columns by whose values scores are reported, too."""
    covariates: list[str] | None = None
    """Metadata columns beside which the features are measured; None: there are none."""
    encoders_of: str | None = None
    """The task whose encoders, one per fold, this one shares; None: it has the common one."""


class RunPlan(StageSettings):
    """What the time of a run depends on, besides its table."""

    depth: int
    """Reads that are drawn from each sample."""
    max_length_bp: int
    """Longer sequences are cut to this length."""
    models: dict[str, PlannedModel]
    tasks: dict[str, PlannedTask]


class DescribeSettings(RunPlan):
    """What a run does with the files of a study."""

    values: Literal["reads", "amounts"] | None = None
    """What the numbers of the table are; None: it is recognized."""
    tree: ImportTreeSettings
    """What stands for the tree where none is given."""
    drops_long_branches: bool
    """Whether ASVs behind long branches are left out before reads are drawn."""
    predictions: dict[str, dict[str, str]]
    """By the name of a table to predict for its files, `table` and others."""
