"""A tiny data set for the tests of training; torch is imported by those that ask for it alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from aam.data.augmentation import Augmentation, build_store
from aam.data.rarefaction import rarefy
from aam.data.sequences import tokenize
from aam.data.stores import SampleStore, TokenStore
from aam.data.table import FeatureTable

DEPTH = 60


@dataclass(frozen=True)
class Tiny:
    """A table and all that is made from it, in memory."""

    table: FeatureTable
    sequences: dict[str, str]
    views: list[FeatureTable]
    tokens: TokenStore
    store: SampleStore
    distances: NDArray[np.float32]
    """Between 0 and 1, not of UniFrac: its value is of no matter here. [V, N, N]."""


def make_tiny(
    samples: int = 20,
    features: int = 30,
    lengths: Sequence[int] = (20,),
    views: int = 1,
    asv_dropout: float = 0.0,
    cutmix: float = 0.0,
    depth: int = DEPTH,
) -> Tiny:
    """Draw a table whose samples lie on a gradient and are of very different richness."""
    rng = np.random.default_rng(5)
    ids = [f"{i:03d}" for i in range(samples)]
    sequences = {
        f"asv{j}": "".join(rng.choice(list("ACGT"), lengths[j % len(lengths)]))
        for j in range(features)
    }
    optimum, place = rng.uniform(size=features), np.linspace(0, 1, samples)[:, None]
    breadth = rng.uniform(0.05, 0.5, (samples, 1))
    rate = np.exp(-(((place - optimum) / breadth) ** 2))
    counts = csr_array(rng.poisson(6 * depth * rate / rate.sum(axis=1, keepdims=True)))
    counts = csr_array(counts.astype(np.int64))
    counts.sort_indices()
    table = FeatureTable(ids, list(sequences), counts)
    drawn = [rarefy(table, depth, 0, view) for view in range(views)]
    settings = Augmentation(asv_dropout=asv_dropout, cutmix=cutmix, seed=3)
    store = build_store(table.feature_ids, drawn, settings)
    letters_US, length_U = tokenize(list(sequences.values()), max(lengths))
    matrices = [store.view_matrix(view, features).toarray() for view in range(views)]
    distances = np.stack([cdist(matrix, matrix, "braycurtis") for matrix in matrices])
    return Tiny(
        table=table,
        sequences=sequences,
        views=drawn,
        tokens=TokenStore(table.feature_ids, length_U, letters_US),
        store=store,
        distances=distances.astype(np.float32),
    )


@pytest.fixture(scope="session")
def make() -> Callable[..., Tiny]:
    return make_tiny


@pytest.fixture(scope="session")
def one_thread() -> None:
    """Keep torch from taking the cores of other tests."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(one_thread: None) -> Tiny:
    """Return samples of one view, all sequences of 20 bp."""
    return make_tiny()


@pytest.fixture(scope="session")
def mixed_lengths(one_thread: None) -> Tiny:
    """Return samples of one view, sequences of three lengths."""
    return make_tiny(lengths=(20, 17, 9))


@pytest.fixture(scope="session")
def augmented(one_thread: None) -> Tiny:
    """Return samples of two views with dropped and mixed rows."""
    return make_tiny(views=2, asv_dropout=0.3, cutmix=1.0)


SMALL = {
    "encoder": "transformer",
    "width": 16,
    "heads": 2,
    "asv_layers": 2,
    "sample_layers": 2,
    "patch_bp": 3,
    "ffn_ratio": 2,
    "reads_in_attention": True,
}


@pytest.fixture(scope="session")
def new_encoder(one_thread: None) -> Callable[..., object]:
    from aam.model.asv_encoders import Architecture
    from aam.model.encoder import build_encoder

    def build(max_length_bp: int, seed: int = 0, **changes: object):
        shape = Architecture(**{**SMALL, **changes}, max_length_bp=max_length_bp)
        return build_encoder(shape, seed=seed, backend="auto")

    return build


@pytest.fixture
def figures(monkeypatch) -> list[Figure]:
    saved: list[Figure] = []
    save = Figure.savefig

    def kept(figure: Figure, *arguments, **options) -> None:
        saved.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", kept)
    return saved


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    from aam.learners.baselines import decision_trees

    monkeypatch.setattr(decision_trees, "TREES", 8)
    monkeypatch.setattr(decision_trees, "WHOLE_TREES", 8)
    monkeypatch.setattr(decision_trees, "ITERATIONS", 20)
