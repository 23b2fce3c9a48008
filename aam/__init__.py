"""Attention All Microbes: learning from microbiome tables."""

from pathlib import Path
from typing import TYPE_CHECKING

from aam.version import __version__

if TYPE_CHECKING:
    from aam.inference.pretrained import PretrainedEncoder
    from aam.inference.task_predictor import TaskPredictor
    from aam.reference_tree.phylogeny import ReferencePhylogeny

__all__ = ["__version__", "encoder", "load", "reference"]


def load(directory: str | Path) -> "TaskPredictor":
    """Read what a task was answered with, to predict other tables.

    Parameters
    ----------
    directory
        Below `results/<dataset>`: `answers/<task>/<model>/super_learner`, the networks of a model
        and the baselines; `answers/<task>/first/super_learner`, the baselines alone, which take no
        PyTorch; or `finetune/<model>/<task>/model`, the networks alone.

    Returns
    -------
    aam.inference.task_predictor.TaskPredictor
        Ready to predict.

    Raises
    ------
    InputError
        The directory holds nothing that predicts, or one of its files is missing, damaged or of a
        version that this package cannot read.
    """
    # The import stands here because it takes long: the workflow and the importers do without it.
    from aam.inference.task_predictor import TaskPredictor

    return TaskPredictor.load(directory)


def encoder(directory: str | Path) -> "PretrainedEncoder":
    """Rebuild a pretrained encoder, to embed other tables.

    `aam.inference.pretrained.PretrainedEncoder` has its methods.

    Parameters
    ----------
    directory
        That of a pretrained model, `results/<dataset>/pretrain/<model>/model`.

    Raises
    ------
    InputError
        When the directory holds no pretrained model, or one of another version.
    """
    from aam.inference.pretrained import PretrainedEncoder

    return PretrainedEncoder.load(directory)


def reference(name: str | Path = "v4", threads: int = 1) -> "ReferencePhylogeny":
    """Read a reference tree, for studies without one.

    `aam.reference_tree.phylogeny.ReferencePhylogeny` has its methods.

    Parameters
    ----------
    name
        `v4`, which comes with the package, `greengenes` or another that `aam reference list`
        names, or the file of a tree like v4.
    threads
        Processes that look for whole genes.

    Raises
    ------
    InputError
        There is no such reference, or its file is damaged.
    """
    from aam.reference_tree.phylogeny import ReferencePhylogeny

    return ReferencePhylogeny.load(name, threads)
