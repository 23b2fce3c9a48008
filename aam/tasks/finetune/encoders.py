"""The encoders that the models of a task start from."""

from collections.abc import Callable, Mapping
from typing import Any

from aam.config.sections.finetuning import Finetuning
from aam.inference.embed import load_encoder
from aam.model.asv_encoders import Architecture
from aam.model.build import build_encoder
from aam.model.encoder import Encoder
from aam.nn.attention import AttentionBackend
from aam.util.seeds import seed_of

MakeEncoder = Callable[[int, int], Encoder]
"""Returns a new encoder for a fold and the number of a model in it."""


def encoder_maker(
    cfg: Mapping[str, Any],
    settings: Finetuning,
    inputs: Mapping[str, Any],
    max_length_bp: int,
    backend: AttentionBackend,
) -> MakeEncoder:
    """Return what makes the encoders of the models of a task.

    Parameters
    ----------
    cfg
        The slice `aam.config.slices.finetune`; its `model` is the shape of an encoder from scratch.
    settings
        Whether models start from scratch or pretrained, and whether folds are inductive.
    inputs
        Inputs of the stage. `model` is the directory of the pretrained model, or that of one per
        fold.
    max_length_bp
        Nucleotides of a sequence that an encoder from scratch reads.
    backend
        Kernel of attention.

    Returns
    -------
    Callable
        Takes the fold and the number of a model. A pretrained encoder has the pretrained weights,
        one from scratch has weights of the seed and the number.
    """

    def from_scratch(fold: int, number: int) -> Encoder:
        seed = seed_of("scratch", settings.seed, *((number,) if number else ()))
        shape = Architecture(**cfg["model"], max_length_bp=max_length_bp)
        return build_encoder(shape, seed=seed, backend=backend)

    def pretrained(fold: int, number: int) -> Encoder:
        directory = inputs["model"] / f"fold{fold}" if settings.inductive else inputs["model"]
        return load_encoder(directory, backend)

    return from_scratch if settings.start == "scratch" else pretrained
