"""Settings of all training, and of pretraining."""

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from aam.config.sections.base import Section

Optimizer = Literal["adamw", "muon"]
Masking = Literal["random", "block", "patch"]


class Training(Section):
    """Settings that pretraining and fine-tuning have in common."""

    optimizer: Optimizer = "adamw"
    """muon: orthogonalized momentum for the matrices of the blocks, AdamW for the rest."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate of AdamW."""
    weight_decay: ClassVar[float] = 0.01
    """Decay of the matrices, in units of their learning rate; biases and norms are not decayed."""
    warmup: ClassVar[float] = 0.1
    """Fraction of the steps that the learning rate rises in, before it falls to zero."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout in every block."""
    seed: int = 0
    """Seed of the weights, the order of samples and the masks."""

    @property
    def decays_linearly(self) -> bool:
        """Whether the learning rate falls on a straight line instead of a cosine."""
        return False


class EarlyStoppingSettings(Section):
    """When to leave a pretraining that no longer gets better."""

    patience: int = Field(3, ge=1)
    """Validations in a row without an improvement that end the run."""
    min_delta: float = Field(0.001, ge=0)
    """Smallest improvement of the held-out correlation that counts."""


class Pretraining(Training):
    """Self-supervision by distances between samples and masked nucleotides."""

    batch_size: Literal["auto"] | Annotated[int, Field(ge=2, le=1_000_000)] = 64
    """Samples per step; auto: 64, doubled as long as a step fits into the memory and a run keeps
    200 steps, up to 256 on a CPU; `learning_rate` is that of 64, and grows with them up to
    fourfold."""
    first_batch_size: ClassVar[int] = 64
    """Samples per step that `auto` grows from, and that `learning_rate` is meant for then."""
    most_on_cpu: ClassVar[int] = 256
    """Samples per step up to which `auto` grows on a CPU."""
    most_growth_of_rate: ClassVar[float] = 4.0
    """Largest factor of the learning rate: larger ones were not measured."""
    epochs: int | None = Field(None, ge=0, le=1_000_000)
    """Passes over the training samples; 0: use `start` as it is; null: enough for 200 steps, at
    least 12."""
    least_steps: ClassVar[int] = 200
    """Steps of a study of few samples."""
    optimizer: Optimizer = "muon"
    """muon: orthogonalized momentum for the matrices of the blocks, AdamW for the rest."""
    learning_rate: float = Field(5e-4, gt=0)
    """Peak learning rate of AdamW; that of Muon is 20 times as high. Small studies and batches need
    less."""
    learning_rate_decay: Literal["cosine", "linear"] = "linear"
    """How the learning rate falls to zero, after it rose in a tenth of the steps."""
    held_out: float = Field(0.2, gt=0, lt=1)
    """Fraction of the samples kept for validation."""
    targets: Literal["stored", "batch"] = "stored"
    """stored: distances between all samples, as the UniFrac stage wrote them; batch: those within a
    batch, computed on the fly, exact for augmented rows too."""
    distances: dict[str, Annotated[float, Field(ge=0)]] | None = None
    """Weight per metric of `unifrac.metrics`; null: weight 1 each."""
    nucleotide_weight: float = Field(1.0, ge=0)
    """Weight of the loss of masked nucleotides."""
    mask: ClassVar[float] = 0.15
    """Fraction of the nucleotides masked."""
    subsampled: float | None = Field(None, ge=0, lt=1)
    """Fraction of the steps, from the first on, in which rows have fewer reads: a tenth of them at
    first, at least 100, and ever more. Fewer ASVs make these steps faster; null: 0.8, or 0 where
    more than nine tenths of a batch's ASVs would be left."""
    usual_subsampled: ClassVar[float] = 0.8
    """What null stands for where it saves time."""
    most_asvs_left: ClassVar[float] = 0.9
    """Fraction of a batch's ASVs that fewer reads may leave, in the middle subsampled step."""
    subsampled_fraction: ClassVar[float] = 0.1
    """Fraction of its reads that a row has in the first subsampled step."""
    least_reads: ClassVar[int] = 100
    """Reads that a subsampled row has at least, if it has as many."""
    masking: Masking = "random"
    """What is masked: single nucleotides, blocks of at least 8, or patches of `patch_bp`."""
    validations: int = Field(8, ge=1, le=100_000)
    """Validations per run."""
    plotted_pairs: int = Field(20_000, ge=1, le=1_000_000)
    """Most held-out pairs of samples that the figures show; scores use all."""
    early_stopping: EarlyStoppingSettings | None = None
    """Stop when the held-out correlation no longer improves, and keep the best weights."""

    @property
    def decays_linearly(self) -> bool:
        """Whether the learning rate falls on a straight line instead of a cosine."""
        return self.learning_rate_decay == "linear"

    @property
    def may_subsample(self) -> bool:
        """Whether rows may have fewer reads in some steps, which the table decides."""
        return self.subsampled is None or self.subsampled > 0

    def subsampled_part(self, asvs_left: float) -> float:
        """Return the fraction of the steps in which rows have fewer reads.

        Parameters
        ----------
        asvs_left
            Fraction of a batch's ASVs that rows have in the middle one of these steps.
        """
        if self.subsampled is not None:
            return self.subsampled
        return self.usual_subsampled if asvs_left <= self.most_asvs_left else 0.0

    @property
    def planned_batch_size(self) -> int:
        """Samples per step as far as the configuration says: those that `auto` grows from."""
        return self.first_batch_size if self.batch_size == "auto" else self.batch_size

    def with_batches_of(self, size: int) -> "Pretraining":
        """Return the settings that `auto` stands for once it has grown.

        Parameters
        ----------
        size
            Samples per step.

        Returns
        -------
        Pretraining
            With numbers alone. The learning rate grows as the batch does.
        """
        growth = min(size / self.first_batch_size, self.most_growth_of_rate)
        rate = self.learning_rate * growth
        return self.model_copy(update={"batch_size": size, "learning_rate": rate})

    @classmethod
    def subsampled_reads(cls, reads: int, done: float) -> int:
        """Return the reads of a row in a subsampled step, which grow by the same factor in each.

        Parameters
        ----------
        reads
            Reads of the whole row.
        done
            Fraction of the subsampled steps that are done.
        """
        fraction = cls.subsampled_fraction ** (1 - done)
        return min(reads, max(cls.least_reads, round(fraction * reads)))

    def passes(self, steps_per_epoch: int) -> int:
        """Return the number of epochs.

        Parameters
        ----------
        steps_per_epoch
            Steps of one pass over the training samples; few steps lead to more passes where
            `epochs` is null.
        """
        enough = max(12, math.ceil(self.least_steps / steps_per_epoch))
        return enough if self.epochs is None else self.epochs

    @field_validator("batch_size", mode="before")
    @classmethod
    def _auto_or_a_size(cls, value: Any) -> Any:
        # Pydantic itself would print one message per member of the union.
        if value != "auto" and not (str(value).isdecimal() and 2 <= int(value) <= 1_000_000):
            raise ValueError(f"got {value!r}; expected 'auto' or a whole number of at least 2")
        return value

    @field_validator("distances")
    @classmethod
    def _learns_a_distance(cls, weights: dict[str, float] | None) -> dict[str, float] | None:
        if weights is not None and not any(weights.values()):
            raise ValueError(f"got {weights}; expected at least one metric with a weight above 0")
        return weights
