"""Pretraining and fine-tuning."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from aam.config.sections.base import Section

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Optimizer = Literal["adamw", "muon"]
Head = Literal["linear", "mlp", "residual"]
Loss = Literal["huber", "mse", "mae", "quantile", "asymmetric", "cross_entropy"]
Fusion = Literal["concat", "add", "gated", "attention", "scale"]


class Training(Section):
    """What pretraining and fine-tuning share."""

    epochs: int = Field(12, ge=1)
    """Passes over the training samples."""
    batch_size: int = Field(64, ge=2)
    """Samples per step."""
    optimizer: Optimizer = "adamw"
    """muon: orthogonalized momentum for the matrices of the blocks, AdamW for the rest."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate of AdamW."""
    weight_decay: float = Field(0.01, ge=0)
    """Decay of the matrices, in units of their learning rate; biases and norms are not decayed."""
    warmup: float = Field(0.1, ge=0, lt=1)
    """Share of the steps that the learning rate rises in, before it falls on a cosine."""
    gradient_clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""
    precision: Precision = "bf16"
    """Arithmetic of the layers; weights and their updates are always fp32. tf32 and fp16 (with
    scaled gradients) are for accelerators."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout in every block."""
    seed: int = 0
    """Seed of the weights, the order of samples and the masks."""


class EarlyStopping(Section):
    """When to leave a pretraining that no longer gets better."""

    patience: int = Field(3, ge=1)
    """Validations in a row without an improvement that end the training."""
    min_delta: float = Field(0.001, ge=0)
    """Least improvement of the held-out correlation that counts."""


class Pretraining(Training):
    """Self-supervision by distances between samples and masked nucleotides."""

    optimizer: Optimizer = "muon"
    """muon: orthogonalized momentum for the matrices of the blocks, AdamW for the rest."""
    learning_rate: float = Field(5e-4, gt=0)
    """Peak learning rate of AdamW; Muon's is 20 times that. Small studies and batches want less."""
    held_out: float = Field(0.2, gt=0, lt=1)
    """Share of the samples kept for validation."""
    distances: dict[str, Annotated[float, Field(ge=0)]] | None = None
    """Weight per metric of `unifrac.metrics`; null: each of them with weight 1."""
    nucleotide_weight: float = Field(1.0, ge=0)
    """Weight of the masked nucleotides' loss."""
    mask: float = Field(0.15, gt=0, lt=1)
    """Share of the nucleotides masked."""

    validations: int = Field(8, ge=1)
    """Validations of a run, the last after its last step."""
    early_stopping: EarlyStopping | None = None
    """Stop when the held-out correlation stands still, and keep the weights for which it was best:
    what is reported is then what was selected by. Null: never."""
    plotted_pairs: int = Field(20_000, ge=100)
    """Pairs of held-out samples that are kept for the picture of predicted distances."""

    @field_validator("distances")
    @classmethod
    def _learns_a_distance(cls, weights: dict[str, float] | None) -> dict[str, float] | None:
        if weights is not None and not any(weights.values()):
            raise ValueError(f"got {weights}; expected at least one metric with a weight above 0")
        return weights


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
    """full: everything is trained; partial: the top of the sample encoder; frozen: a head on the
    pretrained sample embeddings."""
    trained_layers: int = Field(2, ge=1)
    """Blocks over the ASVs of a sample that a partial encoder trains, counted from the top."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Learning rate of a block in units of that of the block above it."""
    inductive: bool = False
    """Pretrain an encoder per fold without the samples of that fold; false: one for all, which has
    seen every sample, though no label."""
    labels: float = Field(1.0, gt=0, le=1)
    """Share of the training samples, or of their groups, whose labels are used: shows what more
    labels would bring."""
    head: Head = "mlp"
    """What predicts from an embedding: one layer, two, or two beside one."""
    loss: Loss | None = None
    """null: mae for numbers, cross_entropy for classes, and for those with an order one that knows
    it. quantile predicts five quantiles, of which the median is the prediction."""
    asymmetry: float = Field(0.5, gt=0, lt=1)
    """Weight of predictions that are too low in the asymmetric loss; those too high have the
    rest."""
    class_weights: bool = False
    """Weight the classes so that each counts alike."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of every label that is spread over all classes."""
    fusion: Fusion = "concat"
    """How the categories of `condition` meet the sample: beside its embedding, added to it, by
    gates, as queries to its ASVs, or as a scale and a shift of the output."""
    asv_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of the ASVs that are left out of each sample, anew in every step."""
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
        thins = self.asv_dropout > 0 or self.count_weight > 0
        if self.encoder == "frozen" and thins and self.fusion != "attention":
            raise ValueError(
                "got asv_dropout or count_weight with encoder frozen; expected neither: its "
                "embeddings are made once"
            )
        return self
