"""What a pretraining begins with in place of weights of the seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from safetensors.torch import load_file

from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.inference.known_asvs import KnownAsvs
from aam.inference.pretrained import warn_of_unlike
from aam.model.store import KNOWN_ASVS, WEIGHTS, load_config
from aam.tasks.pretrain.model import PretrainingModel


@dataclass(frozen=True)
class StartingModel:
    """The directory of another model."""

    directory: Path

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> Self | None:
        """Return the start among the inputs of a stage, if there is one."""
        if "start" not in inputs:
            return None
        first = Path(inputs["start"][0])
        return cls(first if first.is_dir() else first.parent)

    @property
    def length_bp(self) -> int:
        """The nucleotides of a sequence that the model reads."""
        return int(load_config(self.directory)["architecture"]["max_length_bp"])

    def give(self, model: PretrainingModel, store: SampleStore, tokens: TokenStore) -> float | None:
        """Give a model of the same architecture its weights, and those of the heads that it has.

        Returns the fraction of the reads near ASVs that it learned from, where that is known; a
        study unlike those is told in a warning.
        """
        own, state = model.state_dict(), load_file(self.directory / WEIGHTS)
        fitting = {name: x.to(own[name].dtype) for name, x in state.items() if name in own}
        encoder = {name for name in own if name.startswith("encoder.")}
        assert encoder <= fitting.keys(), f"{self.directory} lacks weights of the encoder"
        model.load_state_dict({**own, **fitting})
        known = self.directory / KNOWN_ASVS
        return warn_of_unlike(KnownAsvs.open(known), store, tokens) if known.is_file() else None
