"""Fine-tuning."""

import math
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from aam.config.losses import LOSSES, Loss
from aam.config.sections.training import Training

BUDGET_CORES = 2
"""Cores that `budget_minutes` counts on."""
BUDGET_FOLDS = 5
"""Folds that `budget_minutes` is meant for."""
BUDGET_SAMPLES = 500
"""Labelled samples up to which `budget_minutes` is meant as it stands."""

SET_BY_AUTO = tuple(
    "epochs batch_size optimizer learning_rate trained_layers asv_dropout class_weights".split()
)
"""Keys that `recipe: auto` sets."""


class Finetuning(Training):
    """Supervised training on columns of the sample metadata."""

    batch_size: int = Field(64, ge=2, le=1_000_000)
    """Samples per step."""
    epochs: int = Field(6, ge=1, le=1_000_000)
    """Passes over the training samples of a fold."""
    learning_rate: float = Field(3e-4, gt=0)
    """Peak learning rate of AdamW."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout in every block."""
    start: Literal["pretrained", "scratch"] = "pretrained"
    """Weights that a fold starts with."""
    recipe: Literal["auto", "full", "partial", "frozen", "kernel"] = "auto"
    """What is trained. full: everything; partial: the top of the sample encoder; frozen: a head on
    the pretrained embeddings; kernel: support vectors on these embeddings and on the reads; auto:
    kernel, partial and full are trained as far as `budget_minutes` allows, and their predictions
    averaged with weights; with `start: scratch` it is full."""
    budget_minutes: float = Field(5.0, gt=0)
    """Estimated minutes of auto on two cores, for five folds of up to 500 samples, and twice as
    many for four times the samples: they decide how many recipes and networks are trained."""
    trained_layers: int = Field(2, ge=1)
    """Top blocks over the ASVs of a sample that `partial` trains."""
    inductive: bool = False
    """Pretrain an encoder per fold without its samples."""
    labels: float = Field(1.0, gt=0, le=1)
    """Fraction of the training samples, or groups, whose labels are used."""
    loss: Loss | None = None
    """Null: mae, cross_entropy or ordered thresholds, by kind. quantile predicts the 5, 25, 50, 75
    and 95 % quantiles; the median is the prediction."""
    class_weights: bool = False
    """Give every class the same weight."""
    asv_dropout: float = Field(0.0, ge=0, lt=1)
    """Fraction of the ASVs left out of each sample in every step."""
    networks: int = Field(1, ge=1, le=1000)
    """Networks per fold with different seeds, averaged; auto trains at least as many."""

    @property
    def from_scratch(self) -> bool:
        """Whether nothing that was pretrained is used."""
        return self.start == "scratch"

    @property
    def has_budget(self) -> bool:
        """Whether `auto` chooses recipes, as far as `budget_minutes` allows."""
        return self.recipe == "auto" and not self.from_scratch

    def budget_s(self, folds: int, samples: int) -> float:
        """Return the seconds that fine-tuning by `auto` may take on `BUDGET_CORES` cores.

        Parameters
        ----------
        folds
            Number of folds.
        samples
            Number of labelled samples.

        Returns
        -------
        float
            Seconds, in proportion to the folds, and to the root of the samples beyond
            `BUDGET_SAMPLES`.
        """
        for_all_folds_s = 60.0 * self.budget_minutes * folds / BUDGET_FOLDS
        return for_all_folds_s * math.sqrt(max(1.0, samples / BUDGET_SAMPLES))

    def kernel_obstacle(
        self, kind: str, columns: Sequence[str], condition: Sequence[str]
    ) -> str | None:
        """Return what a kernel head cannot learn of a target; None: it can.

        Parameters
        ----------
        kind
            regression, classification or ordinal.
        columns
            Metadata columns to predict.
        condition
            Metadata columns that the model gets in addition to the sample.
        """
        obstacles = {
            "kind ordinal": kind == "ordinal",
            "several columns": len(columns) > 1,
            "a `condition`": len(condition) > 0,
            f"loss {self.loss}": self.loss not in (None, LOSSES[kind][0]),
            f"asv_dropout {self.asv_dropout:g}": self.recipe == "kernel" and self.asv_dropout > 0,
        }
        return next((name for name, is_met in obstacles.items() if is_met), None)

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        if self.from_scratch and (self.recipe not in ("auto", "full") or self.inductive):
            raise ValueError(
                f"got start scratch with recipe {self.recipe}, or inductive; expected recipe "
                "full or auto: without pretraining there is nothing to keep"
            )
        return self
