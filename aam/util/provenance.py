"""What every artifact carries about its own making."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aam.version import __version__

SCHEMA_VERSION = 1


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a plain settings dictionary.

    Parameters
    ----------
    settings
        Settings that JSON can hold; the order of the keys does not matter.
    """
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, or of a folder's files.

    Parameters
    ----------
    path
        A file, or a folder, which is digested by the names and digests of its files in name order.
    """
    if path.is_dir():
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        parts = [f"{file.relative_to(path)}:{file_digest(file)}" for file in files]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def provenance(
    settings: Mapping[str, Any], inputs: Mapping[str, Path | list[Path]]
) -> dict[str, str]:
    """Return the metadata that an artifact carries about what it was made of.

    Parameters
    ----------
    settings
        The slice of the configuration that the stage got.
    inputs
        Files that the stage read, by name.

    Returns
    -------
    dict
        `aam.schema`, `aam.version`, `aam.settings` (digest of the settings) and `aam.inputs`
        (digests of the files by name, as JSON).
    """
    digests = {}
    for name, value in sorted(inputs.items()):
        paths = value if isinstance(value, list) else [value]
        parts = [file_digest(path) for path in paths]
        digests[name] = parts[0] if len(parts) == 1 else settings_digest({"parts": parts})
    return {
        "aam.schema": str(SCHEMA_VERSION),
        "aam.version": __version__,
        "aam.settings": settings_digest(settings),
        "aam.inputs": json.dumps(digests, sort_keys=True),
    }
