"""What the pretraining of a model begins with, and so its architecture."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aam.config.references import REFERENCES
from aam.config.sections.dataset import Dataset
from aam.config.sections.model import EncoderShape, ModelSettings
from aam.util.atomic import read_json
from aam.util.digests import fitting
from aam.util.errors import problem
from aam.util.missing_files import expand_home

Models = Mapping[str, ModelSettings]
Datasets = Mapping[str, Dataset]


@dataclass(frozen=True)
class Start:
    """The model of a pretraining, or a directory."""

    dataset: str = ""
    model: str = ""
    directory: Path | None = None


def start_of(models: Models, datasets: Datasets, dataset: str, model: str) -> Start | None:
    """Return what the pretraining of a model begins with on a dataset.

    Parameters
    ----------
    models, datasets
        All models and datasets of the configuration, by name.
    dataset, model
        Names of the dataset and the model.

    Returns
    -------
    Start or None
        Another model, or a directory; None: weights that are drawn with the seed.

    Raises
    ------
    InputError
        The start is the name of a reference tree, which is no model.
    """
    name = models[model].start
    if name is None:
        return None
    source, _, other = name.rpartition("/")
    source = source or dataset
    if other in models and source in datasets and (source, other) != (dataset, model):
        return Start(source, other)
    if name in REFERENCES:
        raise problem(
            f"configuration key models.{model}.start",
            name,
            "the directory of a pretrained model, or another model",
            f"{name} is a reference tree: set datasets.{dataset}.tree: {name}",
        )
    return Start(directory=expand_home(name))


def chain_of(models: Models, datasets: Datasets, dataset: str, model: str) -> list[Start]:
    """Return the start of a model, the start of that model, and so on to the first.

    Parameters
    ----------
    models, datasets
        All models and datasets of the configuration, by name.
    dataset, model
        Names of the dataset and the model.

    Raises
    ------
    InputError
        Models begin with one another in a circle, or a directory has no pretrained model.
    """
    chain: list[Start] = []
    where = model
    begins = start_of(models, datasets, dataset, model)
    while begins is not None:
        key = f"configuration key models.{where}.start"
        if begins in chain or (begins.dataset, begins.model) == (dataset, model):
            expected = "models that begin with one another in a line"
            raise problem(
                key,
                f"{models[where].start}, a circle",
                expected,
                "let one of them begin without a start",
            )
        chain.append(begins)
        if begins.directory is not None:
            path = begins.directory / "config.json"
            if not path.is_file():
                others = ", ".join(name for name in models if name != where) or "other models"
                actual = f"{models[where].start}, where there is no {path}"
                expected = f"the directory of a pretrained model, or one of {others}"
                raise problem(key, actual, expected, "correct the path")
            break
        where = begins.model
        begins = start_of(models, datasets, begins.dataset, begins.model)
    return chain


def architecture_of(models: Models, datasets: Datasets, dataset: str, model: str) -> EncoderShape:
    """Return what an encoder is built from: that of its first start, where it has one.

    Parameters
    ----------
    models, datasets
        All models and datasets of the configuration, by name.
    dataset, model
        Names of the dataset and the model.

    Raises
    ------
    InputError
        A start is not possible (`chain_of`), or its directory is of another version.
    """
    chain = chain_of(models, datasets, dataset, model)
    if not chain:
        return models[model].shape
    first = chain[-1]
    if first.directory is None:
        return models[first.model].shape
    path = first.directory / "config.json"
    with fitting(path, "a pretrained model of this version", "run its pretraining again"):
        # Models of version 1.0 do not have the key.
        architecture = {"reads_in_attention": False, **read_json(path)["architecture"]}
        differing = architecture.keys() ^ {*EncoderShape.model_fields, "max_length_bp"}
        if differing:
            raise ValueError(f"keys of another version: {', '.join(sorted(differing))}")
        return EncoderShape(**{key: architecture[key] for key in EncoderShape.model_fields})
