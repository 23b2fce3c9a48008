"""Files of tensors in the safetensors format, with one JSON of facts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from aam.util.atomic import atomic_path
from aam.util.errors import problem

ABOUT = "aam"
"""The one metadata entry: the library writes several in an order that changes with every run."""


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
