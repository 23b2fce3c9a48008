"""Model directories: `config.json` and `model.safetensors` rebuild a model by themselves."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from aam.model.tensors import write_tensors
from aam.util.atomic import atomic_path, read_json, write_json
from aam.util.errors import problem

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
KNOWN_ASVS = "known_asvs.safetensors"
"""File of a pretrained model directory without sketches: the sequences that it learned from."""
SEEN_ASVS = "asvs.txt"
"""File of a fine-tuned model directory: the sequences that its table held, one per line."""
REFERENCE = "reference.safetensors"
"""File of a fine-tuned model directory: embeddings of samples that its models were trained on."""


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


def is_whole(directory: Path) -> bool:
    """Whether a model directory has both of its files: one that is being deleted may lack one."""
    return (directory / CONFIG).is_file() and (directory / WEIGHTS).is_file()


def load_config(directory: Path) -> dict[str, Any]:
    """Read the configuration of a model directory; InputError when it holds no model."""
    path = directory / CONFIG
    if not path.is_file():
        hint = "give the folder that pretraining or fine-tuning wrote"
        raise problem(directory, "no config.json", "a model directory", hint)
    return read_json(path)


def load_weights(directory: Path, model: nn.Module, prefix: str = "") -> None:
    """Fill a model, or the part whose weights have names with `prefix`, with the saved weights."""
    state = load_file(directory / WEIGHTS)
    model.load_state_dict(
        {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}
    )
