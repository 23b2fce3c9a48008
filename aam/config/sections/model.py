"""The architecture of an encoder."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from aam.config.sections.base import FilePath, Override, Section

LINEAGE = "lineage"
"""The kind of encoder that reads lineages in place of nucleotides."""
WORD_BP = 16
"""Letters that stand for the name of a rank (`aam.data.lineages`)."""


class EncoderShape(Section):
    """What a hierarchical encoder is built from: nucleotides to ASV to sample."""

    encoder: Literal["transformer", "bilstm", "bdh", "lineage"] = "transformer"
    """Kind of the ASV encoder. bilstm: bidirectional LSTM; bdh: Baby Dragon Hatchling, one layer
    applied `asv_layers` times; lineage: the sum of vectors of the ranks, for features without
    sequences, which has no layers and no patches."""
    width: int = Field(128, ge=8, le=16_384)
    """Width of every token, ASV and sample embedding."""
    heads: int = Field(4, ge=1, le=1024)
    """Attention heads."""
    asv_layers: int = Field(4, ge=1, le=1000)
    """Blocks over the nucleotides of an ASV."""
    sample_layers: int = Field(4, ge=1, le=1000)
    """Blocks over the ASVs of a sample."""
    patch_bp: int = Field(10, ge=1, le=1000)
    """Nucleotides per token of the ASV encoder."""
    ffn_ratio: float = Field(4, gt=0, le=100)
    """Width of the feed-forward layers, as a multiple of `width`."""
    reads_in_attention: bool = False
    """Let the ASVs of a sample be attended to by their shares of its reads: the logarithm of the
    share, times a learned factor of each head, is added to the scores of attention."""

    @model_validator(mode="before")
    @classmethod
    def _has_words(cls, given: Any) -> Any:
        """Give an encoder of lineages what its words are like: a patch is the word of a rank."""
        if isinstance(given, dict) and given.get("encoder") == LINEAGE:
            fixed = {"asv_layers": 1, "patch_bp": WORD_BP}
            if differing := [key for key in fixed if given.get(key, fixed[key]) != fixed[key]]:
                raise ValueError(
                    f"got `encoder: {LINEAGE}` with {' and '.join(f'`{key}`' for key in differing)}"
                    "; expected none of them: a lineage is encoded by the sum of its ranks"
                )
            return {**given, **fixed}
        return given

    @model_validator(mode="after")
    def _divides_among_heads(self) -> Self:
        if self.width % (2 * self.heads):
            raise ValueError(
                f"width {self.width} is not a multiple of twice the {self.heads} heads"
            )
        return self


class ModelSettings(EncoderShape):
    """A hierarchical encoder: nucleotides to ASV to sample."""

    start: FilePath | None = None
    """Start of pretraining: the directory of a pretrained model, or another model as `<model>` or
    `<dataset>/<model>`, with its architecture. Null: random weights."""
    pretrained_on: list[str] = []
    """Studies to learn from, as values of the column `datasets.<d>.study`; empty: all."""
    pretraining: Override = {}
    """Overrides `pretraining` for this model."""
    optimization: Override = {}
    """Overrides `optimization` for this model."""

    @property
    def shape(self) -> EncoderShape:
        """What an encoder without a `start` is built from."""
        return EncoderShape(**{key: getattr(self, key) for key in EncoderShape.model_fields})

    @model_validator(mode="after")
    def _has_one_shape(self) -> Self:
        given = sorted(self.model_fields_set & EncoderShape.model_fields.keys())
        if self.start is not None and given:
            raise ValueError(
                f"got `start` with {', '.join(f'`{key}`' for key in given)}; expected none of "
                "them: the architecture is that of the start"
            )
        return self
