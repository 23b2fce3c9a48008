"""Categories of metadata columns, and how they meet the embedding of a sample.

Shape suffixes: L labelled samples, N samples, B samples of a batch, F metadata columns, E width of
a category's embedding, D width, A ASVs in a sample, O outputs, H heads, K width of a head.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aam.model.batch import Batch
from aam.nn.attention import AttentionBackend, attend, join_heads, split_heads

UNKNOWN = 0
"""Number of a category that is missing or was not among the training samples."""
UNKNOWN_RATE = 0.05
"""Share of the categories that training replaces by the unknown one, so that it is learned."""
CATEGORY_WIDTH = 16
"""Width E of a category's embedding."""
START = 0.05
"""Standard deviation of the weights at the start."""


@dataclass(frozen=True)
class Vocabulary:
    """The categories of some metadata columns, numbered from 1; 0 is unknown or missing.

    Attributes
    ----------
    columns
        Metadata columns.
    categories
        Per column its categories, sorted.
    """

    columns: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]

    @classmethod
    def fit(
        cls,
        columns: Sequence[str],
        value_LF: Sequence[Sequence[str]] | NDArray[np.object_],
        is_training: NDArray[np.bool_],
    ) -> "Vocabulary":
        """Collect the categories of the training samples; an empty text is no category."""
        known = [row for row, use in zip(value_LF, is_training, strict=True) if use]
        return cls(
            tuple(columns),
            tuple(
                tuple(sorted({row[place] for row in known} - {""})) for place in range(len(columns))
            ),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories per column, the unknown one included."""
        return tuple(len(names) + 1 for names in self.categories)

    def encode(self, value_NF: Sequence[Sequence[str]] | NDArray[np.object_]) -> NDArray[np.int64]:
        """Return the number of each category [N, F]."""
        number_NF = np.full((len(value_NF), len(self.columns)), UNKNOWN, np.int64)
        for place, names in enumerate(self.categories):
            number = {name: position for position, name in enumerate(names, start=UNKNOWN + 1)}
            number_NF[:, place] = [number.get(row[place], UNKNOWN) for row in value_NF]
        return number_NF

    def plain(self) -> dict[str, Any]:
        """Return plain types for `config.json`."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Vocabulary":
        """Rebuild what `plain` returned, also where JSON has made lists of tuples."""
        names = tuple(tuple(names) for names in plain["categories"])
        return cls(tuple(plain["columns"]), names)


class Fusion(nn.Module):
    """Embeddings of categories, and the two places where they may act; here they do not.

    Parameters
    ----------
    vocabulary
        The categories.
    """

    needs_asvs = False
    """Whether `on_sample` wants the states of the samples' ASVs."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, CATEGORY_WIDTH) for size in vocabulary.sizes)
        self.width = CATEGORY_WIDTH * len(vocabulary.columns)

    def embed(self, category_BF: Tensor) -> Tensor:
        """Return the categories' embeddings [B, F, E]; in training some become unknown."""
        if self.training:
            drawn_BF = torch.rand(category_BF.shape, device=category_BF.device)
            category_BF = category_BF.masked_fill(drawn_BF < UNKNOWN_RATE, UNKNOWN)
        return torch.stack(
            [table(category_BF[:, place]) for place, table in enumerate(self.tables)], dim=1
        )

    def on_sample(
        self, sample_BD: Tensor, category_BFE: Tensor, asvs: list[Tensor], batch: Batch | None
    ) -> Tensor:
        """Return what the layers of the head see, [B, D].

        Parameters
        ----------
        sample_BD
            Standardized embeddings.
        category_BFE
            From `embed`.
        asvs
            Per block of samples the states [B, A, D] of their ASVs; empty where not needed.
        batch
            What the states belong to, or None.
        """
        return sample_BD

    def on_output(self, output_BO: Tensor, category_BFE: Tensor) -> Tensor:
        """Return the outputs [B, O] of the head, changed by the categories."""
        return output_BO


class Concat(Fusion):
    """Embeddings beside the sample's, projected; starts at the sample's own and a little more."""

    def __init__(self, vocabulary: Vocabulary, width: int) -> None:
        super().__init__(vocabulary)
        self.project = nn.Linear(width + self.width, width)
        with torch.no_grad():
            self.project.weight.normal_(std=START)
            self.project.weight[:, :width] = torch.eye(width)
            self.project.bias.zero_()

    def on_sample(
        self, sample_BD: Tensor, category_BFE: Tensor, asvs: list[Tensor], batch: Batch | None
    ) -> Tensor:
        """Return the projection [B, D]."""
        return self.project(torch.cat([sample_BD, category_BFE.flatten(1)], dim=1))


class Add(Fusion):
    """A projection of the embeddings is added to the sample's."""

    def __init__(self, vocabulary: Vocabulary, width: int) -> None:
        super().__init__(vocabulary)
        self.project = _linear(self.width, width, START)

    def on_sample(
        self, sample_BD: Tensor, category_BFE: Tensor, asvs: list[Tensor], batch: Batch | None
    ) -> Tensor:
        """Return the sum [B, D]."""
        return sample_BD + self.project(category_BFE.flatten(1))


class Gated(Fusion):
    """Gates choose per number between sample and categories.

    The gated multimodal unit of Arevalo et al. 2017, arXiv:1702.01992:
    h = z tanh(W_v x) + (1 - z) tanh(W_t e), z = sigmoid(W_z [x, e]), for a sample's embedding x and
    its categories' e. W_v starts at the identity.
    """

    def __init__(self, vocabulary: Vocabulary, width: int) -> None:
        super().__init__(vocabulary)
        self.sample = _linear(width, width, START)
        self.category = _linear(self.width, width, START)
        self.gate = _linear(width + self.width, width, START)
        nn.init.eye_(self.sample.weight)

    def on_sample(
        self, sample_BD: Tensor, category_BFE: Tensor, asvs: list[Tensor], batch: Batch | None
    ) -> Tensor:
        """Return the mixture [B, D]."""
        category_BC = category_BFE.flatten(1)
        gate_BD = torch.sigmoid(self.gate(torch.cat([sample_BD, category_BC], dim=1)))
        own_BD, other_BD = (
            torch.tanh(self.sample(sample_BD)),
            torch.tanh(self.category(category_BC)),
        )
        return gate_BD * own_BD + (1 - gate_BD) * other_BD


class Attention(Fusion):
    """Every category asks the sample's ASVs; queries and answers are added to the sample.

    Parameters
    ----------
    vocabulary, width
        The categories; width D.
    heads
        Heads that share the width.
    backend
        Attention back-end.
    """

    needs_asvs = True

    def __init__(
        self, vocabulary: Vocabulary, width: int, heads: int, backend: AttentionBackend
    ) -> None:
        super().__init__(vocabulary)
        self.heads, self.backend = heads, backend
        self.query = _linear(CATEGORY_WIDTH, width, CATEGORY_WIDTH**-0.5)
        self.norm = nn.LayerNorm(width)
        self.key_value = _linear(width, 2 * width, START)
        self.project = _linear(width, width, START)

    def on_sample(
        self, sample_BD: Tensor, category_BFE: Tensor, asvs: list[Tensor], batch: Batch | None
    ) -> Tensor:
        """Return the sample with the mean over its columns added, [B, D]."""
        assert batch is not None, "attention over ASVs needs the batch that they belong to"
        query_BFD = self.query(category_BFE)
        # Blocks hold the samples in an order of their own, and rows of padding behind them.
        rows = sum(len(block.present_BA) for block in batch.samples)
        in_blocks_RFD = query_BFD.new_zeros(rows, *query_BFD.shape[1:])
        in_blocks_RFD = in_blocks_RFD.index_copy(0, batch.order_B, query_BFD)
        queries = in_blocks_RFD.split([len(block.present_BA) for block in batch.samples])
        answers = [
            self._ask(query, state, block.present_BA)
            for query, state, block in zip(queries, asvs, batch.samples, strict=True)
        ]
        answer_BFD = torch.cat(answers)[batch.order_B]
        return sample_BD + self.project((query_BFD + answer_BFD).mean(dim=1))

    def _ask(self, query_BFD: Tensor, state_BAD: Tensor, present_BA: Tensor) -> Tensor:
        parts = [query_BFD, *self.key_value(self.norm(state_BAD)).chunk(2, dim=-1)]
        query, key, value = (split_heads(part.to(parts[-1].dtype), self.heads) for part in parts)
        return join_heads(attend(query, key, value, present_BT=present_BA, backend=self.backend))


class ScaleShift(Fusion):
    """A scale and a shift of every output per category; they start at 1 and 0."""

    def __init__(self, vocabulary: Vocabulary, outputs: int) -> None:
        super().__init__(vocabulary)
        # By way of the embeddings both are learned in far fewer steps than as numbers of their own.
        self.change = _linear(self.width, 2 * outputs, 0.0)

    def on_output(self, output_BO: Tensor, category_BFE: Tensor) -> Tensor:
        """Return the scaled and shifted outputs [B, O]."""
        scale_BO, shift_BO = self.change(category_BFE.flatten(1)).float().chunk(2, dim=1)
        return output_BO * (1 + scale_BO) + shift_BO


def make_fusion(
    name: str,
    vocabulary: Vocabulary,
    *,
    width: int,
    outputs: int,
    heads: int,
    backend: AttentionBackend,
) -> Fusion:
    """Return a fusion by its name, with weights of torch's random state.

    Parameters
    ----------
    name
        - ``concat``: beside the sample's embedding, projected
        - ``add``: added to it
        - ``gated``: a gated multimodal unit
        - ``attention``: as queries to the sample's ASVs
        - ``scale``: a scale and a shift of the outputs
    vocabulary
        The categories.
    width, outputs
        Of the embedding; of the head.
    heads, backend
        Of attention.
    """
    match name:
        case "concat":
            return Concat(vocabulary, width)
        case "add":
            return Add(vocabulary, width)
        case "gated":
            return Gated(vocabulary, width)
        case "attention":
            return Attention(vocabulary, width, heads, backend)
        case "scale":
            return ScaleShift(vocabulary, outputs)
    raise ValueError(f"fusion: got {name}; expected concat, add, gated, attention or scale")


def _linear(inputs: int, outputs: int, deviation: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=deviation)
    nn.init.zeros_(layer.bias)
    return layer
