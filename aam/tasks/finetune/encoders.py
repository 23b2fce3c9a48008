"""The encoders that the models of a task start from."""

from collections.abc import Callable
from pathlib import Path

from aam.inference.embed import load_encoder
from aam.model.asv_encoders import Architecture
from aam.model.encoder import Encoder, build_encoder
from aam.model.layers.attention import AttentionBackend
from aam.tasks.finetune.settings import FinetuneSettings
from aam.util.seeds import seed_of

MakeEncoder = Callable[[int, int], Encoder]
"""Returns a new encoder for a fold and the number of a model in it."""


def encoder_maker(
    settings: FinetuneSettings,
    model: Path | None,
    max_length_bp: int,
    backend: AttentionBackend,
) -> MakeEncoder:
    """Return what makes the encoders of the models of a task.

    Parameters
    ----------
    settings
        Whether models start from scratch or pretrained, and whether folds are inductive; the
        architecture of an encoder from scratch.
    model
        Folder of the pretrained model, or that of one per fold; None: encoders start from scratch.
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
    training = settings.finetuning

    def from_scratch(fold: int, number: int) -> Encoder:
        assert settings.architecture is not None, "an encoder from scratch has a shape"
        seed = seed_of("scratch", training.seed, *((number,) if number else ()))
        shape = Architecture(**settings.architecture, max_length_bp=max_length_bp)
        return build_encoder(shape, seed=seed, backend=backend)

    def pretrained(fold: int, number: int) -> Encoder:
        assert model is not None, "there is a pretrained model"
        directory = model / f"fold{fold}" if training.inductive else model
        return load_encoder(directory, backend)

    return from_scratch if training.start == "scratch" else pretrained
