"""Attention All Microbes: learning from microbiome tables."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aam.api import Model, PretrainedEncoder

__version__ = "0.1.0"


def load(directory: str | Path) -> "Model":
    """Rebuild fine-tuned models, to predict other tables (see `aam.api.Model`).

    Parameters
    ----------
    directory
        The model directory of a task, `results/<dataset>/finetune/<model>/<task>/model`.

    Raises
    ------
    InputError
        No directory of fine-tuned models, or a part is missing, damaged or of another version.
    """
    # Here, because it takes torch: the workflow and the importers do without it.
    from aam.api import Model

    return Model.load(directory)


def encoder(directory: str | Path) -> "PretrainedEncoder":
    """Rebuild a pretrained encoder, to embed other tables (see `aam.api.PretrainedEncoder`).

    Parameters
    ----------
    directory
        That of a pretrained model, `results/<dataset>/pretrain/<model>/model`.

    Raises
    ------
    InputError
        When the directory holds no pretrained model, or one of another version.
    """
    from aam.api import PretrainedEncoder

    return PretrainedEncoder.load(directory)
