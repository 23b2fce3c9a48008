"""The architecture of an encoder."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from aam.config.sections.base import Override, Section


class ModelSettings(Section):
    """A hierarchical encoder: nucleotides to ASV to sample."""

    encoder: Literal["transformer", "bilstm", "bdh"] = "transformer"
    """Kind of the ASV encoder; samples are always sets that a transformer reads. bilstm:
    bidirectional LSTM; bdh: Baby Dragon Hatchling, one layer gone through `asv_layers` times."""
    width: int = Field(128, ge=8)
    """Width of every token, ASV and sample embedding."""
    heads: int = Field(4, ge=1)
    """Attention heads."""
    asv_layers: int = Field(4, ge=1)
    """Blocks over the nucleotides of an ASV."""
    sample_layers: int = Field(4, ge=1)
    """Blocks over the ASVs of a sample."""
    patch_bp: int = Field(10, ge=1)
    """Nucleotides per token of the ASV encoder; 1: one token each."""
    ffn_ratio: float = Field(4, gt=0)
    """Hidden width of the feed-forward layers, as a multiple of `width`."""
    pretraining: Override = {}
    """Keys of `pretraining` for this model alone."""
    optimization: Override = {}
    """Keys of `optimization` for this model alone."""

    @property
    def architecture(self) -> dict[str, Any]:
        """What an encoder is built from, as plain types: all but keys of other sections."""
        overrides = ("pretraining", "optimization")
        return {key: value for key, value in self.plain().items() if key not in overrides}

    @model_validator(mode="after")
    def _even_heads(self) -> Self:
        if self.width % (2 * self.heads):
            raise ValueError(
                f"width {self.width} is not a multiple of twice the {self.heads} heads"
            )
        return self
