"""Fine-tuning."""

from typing import Literal, Self

from pydantic import Field, model_validator

from aam.config.losses import Loss
from aam.config.sections.training import Training

Fusion = Literal["concat", "add", "gated", "attention", "scale"]


class Finetuning(Training):
    """Supervised training on columns of the sample metadata."""

    epochs: int = Field(6, ge=1)
    """Passes over the training samples of a fold."""
    learning_rate: float = Field(3e-4, gt=0)
    """Peak learning rate of AdamW."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout in every block."""
    start: Literal["pretrained", "scratch"] = "pretrained"
    """Weights that a fold starts from."""
    encoder: Literal["full", "partial", "frozen"] = "full"
    """full: full fine-tuning; partial: the top of the sample encoder is trained; frozen: a head on
    the pretrained sample embeddings."""
    trained_layers: int = Field(2, ge=1)
    """Blocks over the ASVs of a sample that a partial encoder trains, counted from the top."""
    inductive: bool = False
    """Pretrain an encoder per fold without the samples of that fold; false: one for all, which has
    seen every sample, though no label."""
    labels: float = Field(1.0, gt=0, le=1)
    """Fraction of the training samples, or of their groups, whose labels are used: shows what more
    labels would bring."""
    loss: Loss | None = None
    """null: mae for numbers, cross_entropy for classes, and for those with an order one that knows
    it. quantile predicts five quantiles, of which the median is the prediction."""
    asymmetry: float = Field(0.5, gt=0, lt=1)
    """Weight of predictions that are too low in the asymmetric loss; those too high have the
    rest."""
    class_weights: bool = False
    """Weight the classes so that each counts alike."""
    fusion: Fusion = "concat"
    """How the categories of `condition` meet the sample: beside its embedding, added to it, by
    gates, as queries to its ASVs, or as a scale and a shift of the output."""
    asv_dropout: float = Field(0.0, ge=0, lt=1)
    """Fraction of the ASVs that are left out of each sample, anew in every step."""
    count_weight: float = Field(0.0, ge=0)
    """Weight of a second task: the reads of each ASV, hidden from the encoder for some of them."""
    models: int = Field(1, ge=1)
    """Models per fold, of different seeds; their predictions are averaged."""

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        if self.start == "scratch" and (self.encoder != "full" or self.inductive):
            raise ValueError(
                "got start scratch with encoder frozen or partial, or inductive; expected encoder "
                "full: without pretraining there is nothing to keep"
            )
        return self
