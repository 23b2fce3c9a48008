"""A pretraining that starts from the weights of another model, not from those of its seed."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from aam.batches.dataset import BatchDataset
from aam.config.metrics import FAITH_PD
from aam.data.sequences import read_fasta
from aam.inference.embed import asvs_of
from aam.model.known_asvs import KnownAsvs
from aam.model.store import AGAIN, load_config, read_weights
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.model import PretrainingModel
from aam.util.digests import fitting
from aam.util.errors import problem


@dataclass(frozen=True)
class StartingModel:
    """Another model, and what is known of the study that it is applied to."""

    directory: Path
    sequences: Path | None = None
    """FASTA of the whole ASVs of the study: those that the model reads may be cut."""

    @classmethod
    def from_inputs(cls, inputs: PretrainInputs) -> Self | None:
        """Return the model that a pretraining starts from, if there is one.

        Parameters
        ----------
        inputs
            Files that the pretraining reads.

        Returns
        -------
        StartingModel or None
            None: the inputs have no start.
        """
        if inputs.start is None:
            return None
        first = inputs.start[0]
        return cls(first if first.is_dir() else first.parent, inputs.sequences)

    @property
    def length_bp(self) -> int:
        """The nucleotides of a sequence that the model reads."""
        return int(load_config(self.directory)["architecture"]["max_length_bp"])

    @cached_property
    def known_asvs(self) -> KnownAsvs | None:
        """The ASVs that the model learned from, where its directory has them."""
        return KnownAsvs.from_model(self.directory)

    def give(self, model: PretrainingModel, *, trains: bool) -> list[str]:
        """Give a model of the same architecture the weights of the start.

        Parameters
        ----------
        model
            Model that is changed in place.
        trains
            Whether it is trained after this.

        Returns
        -------
        list of str
            The distances that the start has heads for.

        Raises
        ------
        InputError
            A distance has no head, and the model is not trained any more; or a weight is not
            finite.
        """
        seed_weights = model.state_dict()
        start_weights = read_weights(self.directory)
        shared = {name: weight for name, weight in start_weights.items() if name in seed_weights}
        encoder = {name for name in seed_weights if name.startswith("encoder.")}
        assert encoder <= shared.keys(), f"{self.directory} lacks weights of the encoder"
        model.load_state_dict({**seed_weights, **shared})
        lacking = [
            metric for metric in model.weights if not _has_head(metric, seed_weights, start_weights)
        ]
        if lacking and not trains:
            learned = load_config(self.directory).get("distances", [])
            raise problem(
                "pretraining.distances",
                f"{', '.join(lacking)} with 0 epochs",
                f"what {self.directory} has learned: {', '.join(learned) or 'none'}",
                "set pretraining.distances, or more epochs",
            )
        return [metric for metric in model.weights if metric not in lacking]


def take_start(
    model: PretrainingModel, start: StartingModel | None, dataset: BatchDataset
) -> list[str]:
    """Give a model the weights that it begins with, where it has a start.

    Parameters
    ----------
    model
        Model that is changed in place.
    start
        What it starts from; None: from the weights of its seed.
    dataset
        Batches that it is trained on.

    Returns
    -------
    list of str
        The distances whose heads are pretrained, and so have their scale already.

    Raises
    ------
    InputError
        The start lacks the head of a distance, or is damaged.
    """
    if start is None:
        return []
    if start.known_asvs is not None:
        whole = None if start.sequences is None else read_fasta(start.sequences)
        start.known_asvs.compare(dataset.store, dataset.tokens, whole)
    with fitting(start.directory, "a pretrained model of this version", AGAIN):
        return start.give(model, trains=dataset.epochs > 0)


def known_asvs(dataset: BatchDataset, start: StartingModel | None, *, trained: bool) -> KnownAsvs:
    """Return the ASVs that a model was trained on, with those of the model that it started from.

    Parameters
    ----------
    dataset
        Batches that the model was trained on.
    start
        What it started from; None: from the weights of its seed.
    trained
        Whether it was trained by any step.

    Returns
    -------
    KnownAsvs
        Those of the training samples, and those of the start.
    """
    learned = KnownAsvs.from_tokens(dataset.tokens, learned_asvs(dataset))
    learned_before = None if start is None else start.known_asvs
    if learned_before is None:
        return learned
    return learned_before.join(learned) if trained else learned_before


def learned_asvs(dataset: BatchDataset) -> NDArray[np.int64]:
    """Return the ASVs that the training samples have in any view."""
    store = dataset.store
    views = np.arange(store.views)[:, None] * len(store.sample_ids)
    return asvs_of(store, (views + dataset.samples).ravel(), len(dataset.tokens.lengths))


def _has_head(metric: str, names: Collection[str], state: Collection[str]) -> bool:
    """Return whether a state has all weights of the head of a metric.

    `names` are those of the weights that the model has.
    """
    prefix = FAITH_PD if metric == FAITH_PD else f"distances.{metric}."
    return all(name in state for name in names if name.startswith(prefix))
