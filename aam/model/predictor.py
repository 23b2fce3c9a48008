"""An encoder with a head for one target, and its model directory.

Letters: B samples, C outputs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aam.loss.targets import classification_error, regression_error
from aam.model.batch import EMBEDDING, TARGET, Batch
from aam.model.build import architecture, build_encoder, initialize, plain
from aam.model.encoder import Encoder
from aam.model.heads import ValueHead
from aam.model.store import load_config, load_weights, save_model
from aam.model.target import Target
from aam.nn.attention import AttentionBackend


class Predictor(nn.Module):
    """An encoder and a head for one target.

    Parameters
    ----------
    encoder
        From pretraining or from scratch.
    target
        What the outputs stand for.
    seed
        Seed of the head's weights.
    """

    def __init__(self, encoder: Encoder, target: Target, *, seed: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.target = target
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = ValueHead(encoder.shape.width, target.outputs)
            initialize(self.head)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of a batch; embeddings that come with it are not computed again."""
        if EMBEDDING in batch.values:
            sample_BD = batch.values[EMBEDDING]
        else:
            sample_BD = self.encoder(batch).sample_BD
        output_BC, true_BC = self.head(sample_BD), batch.values[TARGET]
        error = classification_error if self.target.classes else regression_error
        return {"loss": error(output_BC, true_BC)}

    def save(self, directory: Path, about: Mapping[str, Any]) -> None:
        """Write a directory that rebuilds the model by itself, with facts `about` it."""
        config = {
            "format": 1,
            "kind": "predictor",
            "architecture": plain(self.encoder.shape),
            "target": self.target.plain(),
            **about,
        }
        save_model(directory, self, config)


def load_predictor(
    directory: Path, backend: AttentionBackend = "auto"
) -> tuple[Predictor, dict[str, Any]]:
    """Rebuild a predictor from its directory alone.

    Returns
    -------
    Predictor, dict
        The model, and the content of its `config.json`.

    Raises
    ------
    InputError
        When the directory holds no model.
    """
    config = load_config(directory)
    shape = dict(config["architecture"])
    encoder = build_encoder(
        architecture(shape, shape.pop("max_length_bp")), seed=0, backend=backend
    )
    predictor = Predictor(encoder, Target.from_plain(config["target"]), seed=0)
    load_weights(directory, predictor)
    return predictor.eval(), config
