"""Fine-tuning."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from aam.config.losses import LOSSES, Loss
from aam.config.sections.training import Training

Fusion = Literal["concat", "attention"]

SET_BY_AUTO = tuple(
    "epochs batch_size optimizer learning_rate trained_layers asv_dropout class_weights".split()
)
"""Keys that `encoder: auto` sets."""


class Finetuning(Training):
    """Supervised training on columns of the sample metadata."""

    epochs: int = Field(6, ge=1, le=1_000_000)
    """Passes over the training samples of a fold."""
    learning_rate: float = Field(3e-4, gt=0)
    """Peak learning rate of AdamW."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout in every block."""
    start: Literal["pretrained", "scratch"] = "pretrained"
    """Weights that a fold starts from."""
    encoder: Literal["auto", "full", "partial", "frozen", "kernel"] = "auto"
    """full: full fine-tuning; partial: the top of the sample encoder is trained; frozen: a head on
    the pretrained sample embeddings; kernel: support vectors on these embeddings and on the reads
    of the study's own ASVs. auto: kernel, partial and full, as far as the budget allows, mixed by
    weights that rest on no model which saw the fold; epochs follow from the number of labels, and
    auto sets batches, optimizer, rate and dropout of ASVs, too; from scratch it is full."""
    budget_minutes: float = Field(5.0, gt=0)
    """About how long auto may take for five folds of up to 500 samples, on two cores of a common
    computer, and in proportion for more folds or samples: more of kernel, partial and full are
    trained, and then up to three networks of each. An estimate decides, so that every machine
    trains the same recipes."""
    trained_layers: int = Field(2, ge=1)
    """Blocks over the ASVs of a sample that a partial encoder trains, counted from the top."""
    inductive: bool = False
    """Pretrain an encoder per fold without its samples; false: one, on all samples, no labels."""
    labels: float = Field(1.0, gt=0, le=1)
    """Fraction of the training samples, or groups, with labels: shows what more would bring."""
    loss: Loss | None = None
    """null: mae for numbers, cross_entropy for classes, and for those with an order one that knows
    it. quantile predicts five quantiles, of which the median is the prediction."""
    asymmetry: float = Field(0.5, gt=0, lt=1)
    """Weight of too low predictions in the asymmetric loss; too high ones have the rest."""
    class_weights: bool = False
    """Weight the classes so that each counts alike."""
    fusion: Fusion = "concat"
    """How `condition` meets the sample: beside its embedding, or as queries to its ASVs."""
    asv_dropout: float = Field(0.0, ge=0, lt=1)
    """Fraction of the ASVs that are left out of each sample, anew in every step."""
    count_weight: float = Field(0.0, ge=0)
    """Weight of a second task: the reads of each ASV, hidden from the encoder for some of them."""
    models: int = Field(1, ge=1, le=1000)
    """Models per fold, of different seeds; their predictions are averaged. auto trains as many, and
    up to three where the budget allows."""

    def kernel_obstacle(
        self, kind: str, columns: Sequence[str], condition: Sequence[str]
    ) -> str | None:
        """Return what a kernel machine cannot learn of a target; None: it can."""
        obstacles = {
            "kind ordinal": kind == "ordinal",
            "several columns": len(columns) > 1,
            "a `condition`": len(condition) > 0,
            f"loss {self.loss}": self.loss not in (None, LOSSES[kind][0]),
            f"count_weight {self.count_weight:g}": self.count_weight > 0,
            f"asv_dropout {self.asv_dropout:g}": self.encoder == "kernel" and self.asv_dropout > 0,
        }
        return next((name for name, is_met in obstacles.items() if is_met), None)

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        if self.start == "scratch" and (self.encoder not in ("auto", "full") or self.inductive):
            raise ValueError(
                f"got start scratch with encoder {self.encoder}, or inductive; expected encoder "
                "full or auto: without pretraining there is nothing to keep"
            )
        return self
