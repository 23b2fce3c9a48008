"""Covariates: categories of metadata columns, and how they meet the embedding of a sample.

Shape suffixes: L labelled samples, N samples, B samples of a batch, F metadata columns, E width of
a category's embedding, D width, A ASVs in a sample.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aam.model.batch import Batch
from aam.nn.attention import AttentionBackend, attend, join_heads, key_mask, split_heads

UNKNOWN = 0
"""Number of a category that is missing or was not among the training samples."""
UNKNOWN_RATE = 0.05
"""Fraction of the categories that training replaces by the unknown one, so that it is learned."""
CATEGORY_WIDTH = 16
"""Width E of a category's embedding."""
START = 0.05
"""Standard deviation of the weights at the start."""

Categories = Sequence[Sequence[str]] | NDArray[np.object_]
"""Categories as the metadata have them, [N, F]; an empty text is none."""


@dataclass(frozen=True)
class Vocabulary:
    """The categories of metadata columns, sorted and numbered from 1; 0 is unknown or missing."""

    columns: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]

    @classmethod
    def fit(
        cls, columns: Sequence[str], value_LF: Categories, is_training: NDArray[np.bool_]
    ) -> "Vocabulary":
        """Collect the categories of the training samples.

        Parameters
        ----------
        columns
            Names of the F metadata columns.
        value_LF
            Categories of the labelled samples, text; an empty text is none.
        is_training
            Which of these samples are trained on, [L].

        Returns
        -------
        Vocabulary
            The categories of each column, sorted.
        """
        known = [row for row, use in zip(value_LF, is_training, strict=True) if use]
        categories = (sorted({row[place] for row in known} - {""}) for place in range(len(columns)))
        return cls(tuple(columns), tuple(map(tuple, categories)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories per column, the unknown one included."""
        return tuple(len(names) + 1 for names in self.categories)

    def encode(self, value_NF: Categories) -> NDArray[np.int64]:
        """Return the numbers of categories.

        Parameters
        ----------
        value_NF
            Categories, text; an empty text is none.

        Returns
        -------
        numpy.ndarray
            Numbers [N, F], int64; `UNKNOWN` for categories that the vocabulary lacks.
        """
        value_NF = np.array(value_NF, object).reshape(-1, len(self.columns))
        pairs = zip(self.categories, value_NF.T, strict=True)
        place_FN = [pd.Index(names, dtype=object).get_indexer(pd.Index(c)) for names, c in pairs]
        return np.stack(place_FN, axis=1) + 1


class Fusion(nn.Module, ABC):
    """Embeddings of categories, and how they meet a sample's embedding.

    A kind of fusion makes its layers in `_build`. It sets `needs_asvs` where `on_sample` wants the
    states of the samples' ASVs.

    Parameters
    ----------
    vocabulary
        The categories of each column.
    width
        Width D of a sample's embedding.
    heads
        Heads of an attention over a sample's ASVs.
    backend
        Kernel of that attention.
    """

    needs_asvs = False

    def __init__(
        self, vocabulary: Vocabulary, *, width: int, heads: int, backend: AttentionBackend
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, CATEGORY_WIDTH) for size in vocabulary.sizes)
        self.heads = heads
        self.backend = backend
        self._build(width, CATEGORY_WIDTH * len(vocabulary.columns))

    def embed(self, category_BF: Tensor) -> Tensor:
        """Return the categories' embeddings [B, F, E]; in training some become unknown."""
        if self.training:
            drawn_BF = torch.rand(category_BF.shape, device=category_BF.device)
            category_BF = category_BF.masked_fill(drawn_BF < UNKNOWN_RATE, UNKNOWN)
        columns = zip(self.tables, category_BF.unbind(dim=1), strict=True)
        return torch.stack([table(category_B) for table, category_B in columns], dim=1)

    @abstractmethod
    def on_sample(
        self, sample_BD: Tensor, category_BFE: Tensor, asvs: list[Tensor], batch: Batch | None
    ) -> Tensor:
        """Return what the layers of the head see.

        Parameters
        ----------
        sample_BD
            Standardized embeddings of the samples.
        category_BFE
            Embeddings of their categories, as `embed` returns them.
        asvs
            Per block of samples of the batch the states [B, A, D], where `needs_asvs`.
        batch
            The batch that they belong to, where `needs_asvs`.

        Returns
        -------
        torch.Tensor
            [B, D].
        """

    @abstractmethod
    def _build(self, width: int, category_width: int) -> None: ...


class Concat(Fusion):
    """Embeddings next to the sample's, projected; starts near the sample's own."""

    def _build(self, width: int, category_width: int) -> None:
        self.project = _linear(width + category_width, width, START)
        with torch.no_grad():
            self.project.weight[:, :width] = torch.eye(width)

    def on_sample(
        self, sample_BD: Tensor, category_BFE: Tensor, asvs: list[Tensor], batch: Batch | None
    ) -> Tensor:
        """Return both, projected, [B, D]."""
        return self.project(torch.cat([sample_BD, category_BFE.flatten(1)], dim=1))


class Attention(Fusion):
    """Every category asks the sample's ASVs; queries and answers are added to the sample."""

    needs_asvs = True

    def _build(self, width: int, category_width: int) -> None:
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
        sizes = [len(block.present_BA) for block in batch.samples]
        in_blocks_RFD = query_BFD.new_zeros(sum(sizes), *query_BFD.shape[1:])
        queries = in_blocks_RFD.index_copy(0, batch.order_B, query_BFD).split(sizes)
        answers = [
            self._ask(query, state, block.present_BA)
            for query, state, block in zip(queries, asvs, batch.samples, strict=True)
        ]
        answer_BFD = torch.cat(answers)[batch.order_B]
        return sample_BD + self.project((query_BFD + answer_BFD).mean(dim=1))

    def _ask(self, query_BFD: Tensor, state_BAD: Tensor, present_BA: Tensor) -> Tensor:
        parts = [query_BFD, *self.key_value(self.norm(state_BAD)).chunk(2, dim=-1)]
        query, key, value = (split_heads(part.to(parts[-1].dtype), self.heads) for part in parts)
        mask_B11A = key_mask(present_BA, query.dtype)
        return join_heads(attend(query, key, value, mask_B11T=mask_B11A, backend=self.backend))


FUSIONS: dict[str, type[Fusion]] = {"concat": Concat, "attention": Attention}
"""The kinds of `finetuning.fusion`; all draw weights of torch's random state."""


def _linear(inputs: int, outputs: int, deviation: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=deviation)
    nn.init.zeros_(layer.bias)
    return layer
