"""Targets from the sample metadata, their folds, and tables to predict for."""

from typing import Literal, Self

from pydantic import Field, model_validator

from aam.config.sections.base import Override, Section


class Folds(Section):
    """How the samples of a task are divided for cross-validation."""

    column: str | None = None
    """Metadata column that names the fold of each sample."""
    k: int | None = Field(None, ge=2)
    """Number of folds to draw."""
    groups: str | None = None
    """Metadata column whose samples stay together, a host for instance."""
    stratified: bool = False
    """Keep the shares of the classes alike in all folds."""
    seed: int = 0
    """Seed of the draw."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.column is None) == (self.k is None):
            raise ValueError("give either `column` or `k`, not both and not neither")
        if self.column is not None and (self.groups is not None or self.stratified):
            raise ValueError("`groups` and `stratified` go with `k`, not with `column`")
        return self


class Task(Section):
    """One column to predict."""

    dataset: str
    """Name under `datasets`."""
    column: str
    """Metadata column to predict; samples without a value are left out."""
    kind: Literal["regression", "classification"]
    """regression: a number; classification: one of several classes."""
    folds: Folds
    """Cross-validation."""
    report_by: list[str] = []
    """Metadata columns; the metrics are reported for each of their values too."""
    finetuning: Override = {}
    """Keys of `finetuning` for this task alone."""

    @model_validator(mode="after")
    def _stratified_by_class(self) -> Self:
        if self.folds.stratified and self.kind == "regression":
            raise ValueError(
                "got folds.stratified with kind regression; expected it with classification "
                "alone: remove folds.stratified, or set the kind to classification"
            )
        return self


class Prediction(Section):
    """A table that trained models are applied to."""

    simulated: str | None = None
    """Dataset whose simulated newcomers are predicted."""
    table: str | None = None
    """Feature table, relative to `data_dir`."""
    sequences: str | None = None
    """FASTA or .qza, where the feature IDs are not sequences."""
    tasks: list[str] = Field(min_length=1)
    """Tasks whose models are applied."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.simulated is None) == (self.table is None):
            raise ValueError("give either `simulated` or `table`, not both and not neither")
        if self.simulated is not None and self.sequences is not None:
            raise ValueError("`sequences` goes with `table`: simulated features are sequences")
        return self
