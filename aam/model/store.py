"""Model directories: `config.json` and `model.safetensors` rebuild a model by themselves.

Files of tensors are in the safetensors format, with one JSON of facts.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from aam.util.atomic import atomic_path, atomic_path_with_mode, read_json, write_json
from aam.util.digests import check_manifest, fitting, write_manifest
from aam.util.errors import first_names, problem

Built = TypeVar("Built", bound=nn.Module)
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
KNOWN_ASVS = "known_asvs.safetensors"
"""File of a pretrained model directory: the sequences that it learned from."""
SEEN_ASVS = "asvs.txt"
"""File of a fine-tuned model directory: the sequences that its table held, one per line."""
REFERENCE = "reference.safetensors"
"""File of a fine-tuned model directory: embeddings of samples that its models were trained on."""
AGAIN = "copy the folder again, with all of its files, or delete it and run its stage again"
ABOUT = "aam"
"""The one metadata entry: the library writes several in an order that changes with every run."""


def save_model(
    directory: Path,
    model: nn.Module,
    config: Mapping[str, Any],
    others: Mapping[str, Callable[[Path], None]] | None = None,
) -> None:
    """Write a model to a directory, in place of any that was there.

    Parameters
    ----------
    directory
        Folder to write.
    model
        Model whose weights and buffers are written.
    config
        Content of `config.json`.
    others
        Functions that write more files, by name.
    """
    with atomic_path(directory) as partial:
        partial.mkdir()
        for name, write in (others or {}).items():
            write(partial / name)
        write_tensors(partial / WEIGHTS, model.state_dict())
        write_json(partial / CONFIG, config)
        write_manifest(partial)


def is_whole(directory: Path) -> bool:
    """Return whether a model directory has both of its files.

    One that is being deleted may lack one.

    Parameters
    ----------
    directory
        Folder of a model.

    Returns
    -------
    bool
        Whether both exist; their content is not looked at.
    """
    return (directory / CONFIG).is_file() and (directory / WEIGHTS).is_file()


def load_config(directory: Path) -> dict[str, Any]:
    """Read the configuration of a model directory.

    Parameters
    ----------
    directory
        Folder of a model.

    Returns
    -------
    dict
        Content of `config.json`.

    Raises
    ------
    InputError
        The directory is none of a model, or a file in it was changed.
    """
    path = directory / CONFIG
    if not path.is_file():
        hint = "give the folder that pretraining or fine-tuning wrote"
        raise problem(directory, "no config.json", "a model directory", hint)
    check_manifest(directory, AGAIN)
    with fitting(path, "the configuration of a model", AGAIN):
        return dict(read_json(path))


def rebuild(directory: Path, build: Callable[[], Built], prefix: str = "") -> Built:
    """Build a model, and fill it with its saved weights, in evaluation mode.

    It is built without memory at first, because a false architecture may ask for any amount.

    Parameters
    ----------
    directory
        Folder of a model.
    build
        Returns a new model, with any weights.
    prefix
        Beginning of the names of the saved weights that the model takes.

    Returns
    -------
    torch.nn.Module
        On the CPU.

    Raises
    ------
    InputError
        A weight is not finite.
    ValueError
        The model has other weights than those saved.
    """
    with torch.device("meta"), _WithoutDraws():
        # Shapes alone are compared first: a file of another model is refused before memory is
        # taken.
        empty_state = build().state_dict()
    expected = {prefix + name: [*x.shape] for name, x in empty_state.items()}
    with safe_open(directory / WEIGHTS, framework="pt") as file:
        saved = {name: file.get_slice(name).get_shape() for name in file.keys()}
    if differing := [name for name, shape in expected.items() if saved.get(name) != shape]:
        raise ValueError(f"other weights than config.json says: {first_names(differing)}")
    model = build()
    load_weights(directory, model, prefix)
    return model.eval()


class _WithoutDraws(TorchFunctionMode):
    """Leaves out normal draws, which mean nothing on a device without memory.

    PyTorch's functions for them on such a device import its compiler, which takes longer than
    everything else that a prediction imports.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is nn.init.normal_:
            return kwargs["tensor"]
        if func is torch.Tensor.normal_:
            return args[0]
        return func(*args, **kwargs)


def load_weights(directory: Path, model: nn.Module, prefix: str = "") -> None:
    """Fill a model, or a part of one, with saved weights.

    Parameters
    ----------
    directory
        Folder of a model.
    model
        Model that is filled.
    prefix
        Beginning of the names of the saved weights that the model takes.

    Raises
    ------
    InputError
        A weight is not finite.
    """
    state = read_weights(directory)
    model.load_state_dict(
        {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}
    )


def read_weights(directory: Path) -> dict[str, Tensor]:
    """Return the saved weights of a model directory.

    Parameters
    ----------
    directory
        Folder of a model.

    Returns
    -------
    dict
        Tensors by name, on the host.

    Raises
    ------
    InputError
        A weight is not finite.
    """
    state = load_file(directory / WEIGHTS)
    spoiled = [name for name, x in state.items() if not x.isfinite().all()]
    if spoiled:
        raise problem(
            directory,
            f"weights that are not finite: {first_names(spoiled)}",
            "finite ones",
            "run its stage again",
        )
    return state


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any] | None = None
) -> None:
    """Write tensors and plain facts atomically; the same content gives the same bytes.

    Parameters
    ----------
    path
        File to write, in the safetensors format.
    tensors
        Tensors of any device, by name.
    about
        Facts, which JSON can hold; None: there are none.
    """
    parts = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = None if about is None else {ABOUT: json.dumps(about, sort_keys=True)}
    with atomic_path_with_mode(path) as partial:
        save_file(parts, partial, metadata=metadata)


def read_tensors(
    path: Path, *, version: int, what: str, hint: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a file of `write_tensors`.

    Parameters
    ----------
    path
        The file.
    version
        Value of the fact `version` that it has to have.
    what
        What the file should hold, for a message.
    hint
        Where such a file comes from, for a message.

    Returns
    -------
    about : dict
        The facts.
    tensors : dict
        Tensors by name. They are mapped into memory, and must not be written to.

    Raises
    ------
    InputError
        There is no such file, it is damaged, or it is of another version.
    """
    expected = f"{what}, version {version}"
    if not path.is_file():
        raise problem(path, "no such file", expected, hint)
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get(ABOUT, "{}"))
            if about.get("version") != version:
                raise problem(path, f"version {about.get('version')}", expected, hint)
            return about, {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise problem(path, str(error), expected, hint) from error
