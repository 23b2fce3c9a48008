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

from aam.util.atomic import atomic_path, read_json, write_json
from aam.util.errors import first_names, problem
from aam.util.manifest import check_manifest, fitting, write_manifest

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
    """Write the state and the configuration to a new directory, in place of any that was there.

    `others` write more files, by name.
    """
    with atomic_path(directory) as partial:
        partial.mkdir()
        for name, write in (others or {}).items():
            write(partial / name)
        write_tensors(partial / WEIGHTS, model.state_dict())
        write_json(partial / CONFIG, config)
        write_manifest(partial)


def is_whole(directory: Path) -> bool:
    """Whether a model directory has both of its files: one that is being deleted may lack one."""
    return (directory / CONFIG).is_file() and (directory / WEIGHTS).is_file()


def load_config(directory: Path) -> dict[str, Any]:
    """Read the configuration of a model directory; InputError: it is none, or was changed."""
    path = directory / CONFIG
    if not path.is_file():
        hint = "give the folder that pretraining or fine-tuning wrote"
        raise problem(directory, "no config.json", "a model directory", hint)
    check_manifest(directory, AGAIN)
    with fitting(path, "the configuration of a model", AGAIN):
        return dict(read_json(path))


def rebuilt(directory: Path, build: Callable[[], Built], prefix: str = "") -> Built:
    """Return a model with its saved weights, or ValueError where these are other ones.

    It is built without memory at first, of which a false architecture may ask for any amount.
    """
    with torch.device("meta"):
        built = build().state_dict().items()
    expected = {prefix + name: [*x.shape] for name, x in built}
    with safe_open(directory / WEIGHTS, framework="pt") as file:
        saved = {name: file.get_slice(name).get_shape() for name in file.keys()}
    if differing := [name for name, shape in expected.items() if saved.get(name) != shape]:
        raise ValueError(f"other weights than config.json tells: {first_names(differing)}")
    model = build()
    load_weights(directory, model, prefix)
    return model.eval()


def load_weights(directory: Path, model: nn.Module, prefix: str = "") -> None:
    """Fill a model, or the part whose weights have names with `prefix`, with the saved weights."""
    state = read_weights(directory)
    model.load_state_dict(
        {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}
    )


def read_weights(directory: Path) -> dict[str, Tensor]:
    """Return the saved weights of a model directory; InputError where any is not finite."""
    state = load_file(directory / WEIGHTS)
    if spoiled := [name for name, x in state.items() if not x.isfinite().all()]:
        got = f"weights that are not finite: {first_names(spoiled)}"
        raise problem(directory, got, "finite ones", "run its stage again")
    return state


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any] | None = None
) -> None:
    """Write tensors and plain facts atomically; the same content gives the same bytes."""
    parts = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = None if about is None else {ABOUT: json.dumps(about, sort_keys=True)}
    with atomic_path(path) as partial:
        partial.touch()
        mode = partial.stat().st_mode
        save_file(parts, partial, metadata=metadata)
        # The library makes files that nobody else may read, whatever the user's mask.
        partial.chmod(mode)


def read_tensors(
    path: Path, *, version: int, what: str, hint: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return facts and tensors of a file; tensors are mapped, and must not be written to.

    InputError, with `what` the file should hold and a `hint` where it comes from, when there is no
    such file, or its facts do not have this `version`.
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
