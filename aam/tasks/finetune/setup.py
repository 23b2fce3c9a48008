"""What the models of a task share: its labelled samples, its target, and how they are trained.

Shape suffixes: L labelled samples, C columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.config.sections.finetuning import Finetuning
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.model.encoder import Encoder
from aam.runtime.run_options import RunOptions
from aam.train.distributed.devices import Devices
from aam.train.options import StepOptions
from aam.util.seeds import seed_of

TEST = -1
"""Fold of the samples that no model is trained on."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled samples of a task.

    Attributes
    ----------
    samples
        Positions in the store, [L].
    observed_LC
        Values as the metadata have them, text.
    fold
        Fold of each, [L]; `TEST` for those that are in none.
    categories
        Per metadata column the category of each, text, empty where missing, [L].
    units
        Group of each, or its ID where there are no groups: labels are left out by these, [L].
    """

    samples: NDArray[np.int64]
    observed_LC: NDArray[np.object_]
    fold: NDArray[np.int64]
    units: Sequence[str]
    categories: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)

    def training(self, fold: int, share: float, seed: int) -> NDArray[np.bool_]:
        """Return the samples that a fold's model is trained on: of a share of the units, [L].

        They are of two units at least; a smaller share is part of a larger one.
        """
        is_training = (self.fold != fold) & (self.fold != TEST)
        names = sorted({unit for unit, use in zip(self.units, is_training, strict=True) if use})
        names.sort(key=lambda name: seed_of("labels", seed, name))
        chosen = set(names[: max(2, round(share * len(names)))])
        return is_training & np.array([unit in chosen for unit in self.units])


@dataclass(frozen=True)
class TargetColumns:
    """What is predicted, as the section `tasks.<name>` says."""

    kind: str
    columns: tuple[str, ...]
    classes: tuple[str, ...] | None = None
    transform: str = "zscore"
    transform_by: str | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    condition: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class FinetuneSetup:
    """What all models of a task share.

    Attributes
    ----------
    store, tokens, labelled
        The data.
    task
        What is predicted.
    settings
        How a model is trained.
    make_encoder
        Returns a new encoder for a fold and the number of a model in it, pretrained or from
        scratch.
    devices, options, runtime
        Where and how.
    work
        Folder of checkpoints and of finished models.
    fingerprint
        Digest of settings, code and inputs.
    """

    store: SampleStore
    tokens: TokenStore
    labelled: Labelled
    task: TargetColumns
    settings: Finetuning
    make_encoder: Callable[[int, int], Encoder]
    devices: Devices
    options: StepOptions
    runtime: RunOptions
    work: Path
    fingerprint: str
