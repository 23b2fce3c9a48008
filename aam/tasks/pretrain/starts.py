"""What a pretraining begins with in place of weights of the seed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from aam.model.store import WEIGHTS, load_config
from aam.tasks.pretrain.model import PretrainingModel


def start_directory(inputs: Mapping[str, Any]) -> Path | None:
    """Return the directory of the model that a pretraining starts from, if there is one."""
    if "start" not in inputs:
        return None
    first = Path(inputs["start"][0])
    return first if first.is_dir() else first.parent


def start_length(directory: Path) -> int:
    """Return the nucleotides of a sequence that the model in a directory reads."""
    return int(load_config(directory)["architecture"]["max_length_bp"])


def start_from(directory: Path, model: PretrainingModel) -> None:
    """Give a model the weights of another of the same architecture, heads included that it has."""
    state = load_file(directory / WEIGHTS)
    own = model.state_dict()
    fitting = {name: x.to(own[name].dtype) for name, x in state.items() if name in own}
    encoder = {name for name in own if name.startswith("encoder.")}
    assert encoder <= fitting.keys(), f"{directory} lacks weights of the encoder"
    model.load_state_dict({**own, **fitting})
