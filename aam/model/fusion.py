"""Covariates: categories of metadata columns, and how they meet the embedding of a sample.

Shape suffixes: L labelled samples, N samples, B samples of a batch, F metadata columns, E width of
a category's embedding, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

UNKNOWN = 0
"""Number of a category that is missing or was not among the training samples."""
UNKNOWN_RATE = 0.05
"""Fraction of the categories that training replaces by the unknown one, so that it is learned."""
CATEGORY_WIDTH = 16
"""Width E of a category's embedding."""
START = 0.05
"""Standard deviation of the projection's weights at the start."""

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
        training_rows = [row for row, use in zip(value_LF, is_training, strict=True) if use]
        categories = []
        for column in range(len(columns)):
            names = {row[column] for row in training_rows} - {""}
            categories.append(tuple(sorted(names)))
        return cls(tuple(columns), tuple(categories))

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
        numbers = []
        for names, value_N in zip(self.categories, value_NF.T, strict=True):
            # pandas gives -1 to what is missing: with 1 added, that is `UNKNOWN`.
            position_N = pd.Index(names, dtype=object).get_indexer(pd.Index(value_N))
            numbers.append(position_N + 1)
        return np.stack(numbers, axis=1)


class Fusion(nn.Module):
    """Embeddings of categories, projected together with a sample's embedding.

    The projection starts near the sample's embedding alone. All weights are drawn from torch's
    random state.

    Parameters
    ----------
    vocabulary
        The categories of each column.
    width
        Width D of a sample's embedding.
    """

    def __init__(self, vocabulary: Vocabulary, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, CATEGORY_WIDTH) for size in vocabulary.sizes)
        self.project = nn.Linear(width + CATEGORY_WIDTH * len(vocabulary.columns), width)
        nn.init.normal_(self.project.weight, std=START)
        nn.init.zeros_(self.project.bias)
        with torch.no_grad():
            self.project.weight[:, :width] = torch.eye(width)

    def embed(self, category_BF: Tensor) -> Tensor:
        """Return the categories' embeddings [B, F, E]; in training some become unknown."""
        if self.training:
            drawn_BF = torch.rand(category_BF.shape, device=category_BF.device)
            category_BF = category_BF.masked_fill(drawn_BF < UNKNOWN_RATE, UNKNOWN)
        columns = zip(self.tables, category_BF.unbind(dim=1), strict=True)
        return torch.stack([table(category_B) for table, category_B in columns], dim=1)

    def forward(self, sample_BD: Tensor, category_BF: Tensor) -> Tensor:
        """Return what the layers of the head see.

        Parameters
        ----------
        sample_BD
            Standardized embeddings of the samples.
        category_BF
            Numbers of their categories, as `Vocabulary.encode` returns them.

        Returns
        -------
        torch.Tensor
            [B, D].
        """
        category_BFE = self.embed(category_BF)
        return self.project(torch.cat([sample_BD, category_BFE.flatten(1)], dim=1))
