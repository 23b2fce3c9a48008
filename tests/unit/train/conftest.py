from collections.abc import Callable

import numpy as np
import pytest

from aam.config.sections.training import Pretraining
from aam.train.devices import Devices
from aam.train.feed import Feed
from aam.train.masking import Masker
from aam.train.pretraining import PretrainingModel


@pytest.fixture(scope="session")
def new_model(new_encoder) -> Callable[..., PretrainingModel]:
    """Return the function that builds a small pretraining model."""

    def build(seed: int = 0, **changes) -> PretrainingModel:
        return PretrainingModel(
            new_encoder(20, seed=seed, asv_layers=1, sample_layers=1, patch_bp=5),
            weights={"unweighted": 1.0},
            variances={"unweighted": 0.05},
            nucleotide_weight=1.0,
            seed=1,
            **changes,
        )

    return build


@pytest.fixture(scope="session")
def new_feed(tiny) -> Callable[..., Feed]:
    """Return the function that builds a feed of the tiny data: 5 steps per epoch, 2 epochs."""

    def build(kind: type[Feed] = Feed, **changes) -> Feed:
        return kind(
            store=tiny.store,
            tokens=tiny.tokens,
            samples=np.arange(20),
            batch_size=4,
            epochs=2,
            seed=0,
            masker=Masker(0.2, 0),
            distances={"unweighted": tiny.distances},
            **changes,
        )

    return build


@pytest.fixture(scope="session")
def devices(one_thread: None) -> Devices:
    """Return the CPU in fp32."""
    return Devices("fp32", 1)


@pytest.fixture(scope="session")
def quick() -> Pretraining:
    """Return settings of a run of ten steps."""
    return Pretraining(epochs=2, batch_size=4, learning_rate=3e-3, precision="fp32")
