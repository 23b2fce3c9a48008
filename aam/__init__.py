"""Attention All Microbes: learning from microbiome tables."""

from pathlib import Path
from typing import TYPE_CHECKING

from aam.version import __version__

if TYPE_CHECKING:
    from aam.api import Model, PretrainedEncoder
    from aam.inference.first_answer import FirstAnswer
    from aam.reference_tree.phylogeny import ReferencePhylogeny

__all__ = ["__version__", "encoder", "load", "reference"]


def load(directory: str | Path) -> "Model | FirstAnswer":
    """Rebuild what a task was answered with, to predict other tables.

    Parameters
    ----------
    directory
        Below `results/<dataset>`: `finetune/<model>/<task>/model`, the fine-tuned models of a task;
        `finetune/<model>/<task>/super_learner`, these and the baselines; or
        `first/<task>/super_learner`, the baselines alone.

    Returns
    -------
    aam.api.Model or aam.inference.first_answer.FirstAnswer
        The latter where there are no models; it takes no PyTorch.

    Raises
    ------
    InputError
        The directory holds no model, or one of its files is missing, damaged or of a version that
        this package cannot read.
    """
    # Here, because it takes long: the workflow and the importers do without it.
    from aam.inference.first_answer import FirstAnswer

    folder = Path(directory).expanduser()
    if FirstAnswer.is_in(folder):
        return FirstAnswer.load(folder)
    # Models alone take torch.
    from aam.api import Model

    return Model.load(folder)


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


def reference(name: str | Path = "v4") -> "ReferencePhylogeny":
    """Read a reference tree, for studies without one.

    `aam.reference_tree.phylogeny.ReferencePhylogeny` has its methods.

    Parameters
    ----------
    name
        `v4`, which comes with the package, or the file of another reference.

    Raises
    ------
    InputError
        There is no such reference, or its file is damaged.
    """
    from aam.reference_tree.phylogeny import ReferencePhylogeny

    return ReferencePhylogeny.load(name)
