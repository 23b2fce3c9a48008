"""What the page of a dataset gets of the configuration."""

from typing import Literal, Self

from pydantic import model_validator

from aam.config.sections.base import StageSettings
from aam.config.settings.describe import RunPlan
from aam.config.settings.tasks import Kind


class PageModel(StageSettings):
    """What the methods name of a model."""

    encoder: str
    width: int
    asv_layers: int
    sample_layers: int
    start: str | None = None
    """Whose weights its encoder began with."""


class PageFolds(StageSettings):
    """What the methods name of the folds of a task."""

    column: str | None
    """Metadata column whose values are the folds."""
    groups: str | Literal[False] | None
    """Metadata column that keeps samples together."""
    stratified: bool


class PageTask(StageSettings):
    """What the methods name of a task."""

    columns: list[str]
    """Metadata columns that are predicted."""
    where: dict[str, list[str]]
    """By column the values of the samples that belong to the task."""
    kind: Kind
    folds: PageFolds
    test_fraction: float
    """Fraction of the samples that is set aside for testing alone."""
    test_values: dict[str, list[str]] | None = None
    """Metadata column whose values mark the samples that are set aside instead; None: none
    does."""
    importance: bool
    """Whether predictions are explained."""


class PageNetworks(StageSettings):
    """Whether a page has networks, and what it says of them where it has none."""

    state: Literal["shown", "awaited", "unasked"]
    """shown: the page has their answers; awaited: they are trained after it is written; unasked:
    the configuration has no models."""
    plan: RunPlan | None = None
    """What the time of networks that are awaited depends on."""

    @model_validator(mode="after")
    def _plans_what_is_awaited(self) -> Self:
        if (self.plan is not None) != (self.state == "awaited"):
            raise ValueError("networks have a plan where they are awaited, and only there")
        return self


class PageSettings(StageSettings):
    """What a page names of the configuration, and what its files are of."""

    depth: int
    """Reads that are drawn from each sample."""
    views: int
    """How often they are drawn."""
    drops_long_branches: bool
    """Whether ASVs behind long branches are left out before reads are drawn."""
    given_tree: bool | None = None
    """Whether a tree is given; None: it is to be made, False: there is none."""
    metrics: list[str]
    """Names of the distances."""
    models: dict[str, PageModel]
    tasks: dict[str, PageTask]
    networks: PageNetworks
    captions: dict[str, str] = {}
    """Captions of figures by their names."""
    files: dict[str, list[dict[str, str]]] = {}
    """By kind what each of the files is of, in their order."""
