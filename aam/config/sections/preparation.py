"""Rarefaction, tokens, UniFrac and augmentation: one section per stage before training."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from aam.config.metrics import MetricName
from aam.config.sections.base import Section


class Rarefaction(Section):
    """Random draws of the same number of reads from every sample, without replacement."""

    depth: int = Field(1000, ge=1, le=10_000_000)
    """Reads drawn from each sample; samples with fewer are dropped and listed."""
    views: int = Field(1, ge=1, le=1000)
    """Independent draws."""
    seed: int = 42
    """Seed of the draws."""
    long_branches: Literal["keep", "drop"] = "keep"
    """What happens to ASVs on extremely long branches, mostly artefacts."""


class Tokens(Section):
    """The token cache."""

    max_length_bp: int = Field(150, ge=8, le=10_000)
    """Longer sequences are cut to this length."""


class Unifrac(Section):
    """Distances between samples, with and without the tree, and Faith's phylogenetic diversity."""

    metrics: list[MetricName] = Field(["unweighted"], min_length=1)
    """Metrics to compute; `pretraining.distances` names those to learn."""
    engine: Literal["auto", "unifrac", "ssu", "products", "scikit-bio"] = "auto"
    """auto: the Python package `unifrac`, else the programs `ssu` and `faithpd`, else scikit-bio;
    beyond 10,922 samples matrix products for unweighted UniFrac, and the programs first for the
    others. products: matrix products for unweighted UniFrac, otherwise as auto."""
    partitions: Literal["auto"] | Annotated[int, Field(ge=1, le=10_000)] = "auto"
    """Jobs of `ssu` or `products` that compute a matrix together; auto: one."""
    alpha: float = Field(0.5, ge=0, le=1)
    """Exponent of generalized UniFrac."""

    @field_validator("partitions", mode="before")
    @classmethod
    def _auto_or_a_count(cls, value: Any) -> Any:
        # Pydantic itself would print one message per member of the union.
        if value != "auto" and not (str(value).isdecimal() and int(value) >= 1):
            raise ValueError(f"got {value!r}; expected 'auto' or a whole number of at least 1")
        return value

    @model_validator(mode="after")
    def _divisible_among_jobs(self) -> Self:
        if self.engine not in ("auto", "ssu", "products") and self.partitions not in ("auto", 1):
            raise ValueError(
                f"got {self.partitions} `partitions` with the engine {self.engine}; "
                "expected 'auto': only ssu and products divide their work among jobs"
            )
        return self


class AugmentationSettings(Section):
    """Additional rows of the sample store, made once."""

    asv_dropout: float = Field(0.0, ge=0, lt=1)
    """Fraction of the ASVs left out in an additional row per sample and view; 0: no such rows."""
    cutmix: float = Field(0.0, ge=0, le=1000)
    """Rows mixed from two samples, per sample and view."""
