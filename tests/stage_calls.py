"""Calls of stages by what a rule has: settings, inputs and outputs by name."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aam.config.sections.base import StageSettings
from aam.util.digests import provenance


def as_outputs(paths: Mapping[str, Path]) -> dict[str, Path]:
    """Return the arguments of a stage for the files that it writes."""
    return {f"{name}_out": path for name, path in paths.items()}


def call(
    stage: Callable[..., None],
    settings: StageSettings | Mapping[str, Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Path],
    **options: Any,
) -> None:
    """Call a stage with those of the arguments that it takes, and with the provenance of all."""
    plain = settings.plain() if isinstance(settings, StageSettings) else settings
    arguments = {**dict(settings), **inputs, **as_outputs(outputs), **options}
    names = inspect.signature(stage).parameters
    if "provenance" in names:
        arguments["provenance"] = provenance(plain, inputs)
    stage(**{name: value for name, value in arguments.items() if name in names})
