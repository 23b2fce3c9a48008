"""What a digest of settings, a file and a folder is, and what is done with them.

An artifact carries those of what it was made of (`provenance`). A folder holds those of its files
(`MANIFEST`), which tell a folder that was changed or copied in part.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from aam.util.atomic import read_json, write_json
from aam.util.errors import InputError, first_names, problem
from aam.version import __version__

MANIFEST = "MANIFEST.json"
_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SafetensorError,
    TypeError,
    ValueError,
)
"""Errors that reading damaged files, or files of different folders, leads to."""
_READ: dict[tuple[Path, int, int, int], str] = {}
"""Digests of the files that this process has read, by path, size, time and inode."""


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a plain settings dictionary.

    Parameters
    ----------
    settings
        Settings that JSON can hold; the order of the keys does not matter.
    """
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, or of a folder.

    Parameters
    ----------
    path
        A file, or a folder: its digest is that of the paths and digests of its files.
    """
    return _digest(path, _read_digest)


def digests_in(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its path, except for hidden files.

    Snakemake marks the folders that jobs made by a hidden file.

    Parameters
    ----------
    folder
        The folder; its manifest is left out.
    """
    return _digests_in(folder, _read_digest)


def provenance(
    settings: Mapping[str, Any], inputs: Mapping[str, Path | list[Path]]
) -> dict[str, str]:
    """Return the metadata that an artifact carries about what it was made of.

    Parameters
    ----------
    settings
        The slice of the configuration that the stage got.
    inputs
        Files that the stage read, by name. What `file_digest` has read in this process before is
        not read again.

    Returns
    -------
    dict
        `aam.version`, `aam.settings` (digest of the settings) and `aam.inputs`
        (digests of the files by name, as JSON).
    """
    digests = {}
    for name, value in sorted(inputs.items()):
        paths = value if isinstance(value, list) else [value]
        parts = [_digest(path, _known_digest) for path in paths]
        digests[name] = parts[0] if len(parts) == 1 else settings_digest({"parts": parts})
    return {
        "aam.version": __version__,
        "aam.settings": settings_digest(settings),
        "aam.inputs": json.dumps(digests, sort_keys=True),
    }


def write_manifest(folder: Path) -> None:
    """Write the SHA-256 of every file of a folder, by its path, into the folder.

    Parameters
    ----------
    folder
        A complete folder; its file `MANIFEST` is written.
    """
    write_json(folder / MANIFEST, {"sha256": digests_in(folder)})


def check_manifest(folder: Path, hint: str) -> None:
    """Check that a folder holds what `write_manifest` saw in it.

    Parameters
    ----------
    folder
        The folder with its manifest.
    hint
        What the user should do otherwise, as an imperative.

    Raises
    ------
    InputError
        The manifest is missing or unreadable, or files are missing, changed or were added since.
    """
    path = folder / MANIFEST
    expected = "the files that were written together"
    if not path.is_file():
        raise problem(path, "no such file", expected, hint)
    try:
        expected_digests = dict(read_json(path)["sha256"])
        digests = digests_in(folder)
    except (KeyError, TypeError, ValueError) as error:
        raise problem(path, f"no list of files ({error})", expected, hint) from error
    names = sorted(expected_digests.keys() | digests.keys())
    differing = [name for name in names if expected_digests.get(name) != digests.get(name)]
    if differing:
        actual = f"files that are missing, damaged, or were added: {first_names(differing)}"
        raise problem(folder, actual, expected, hint)


@contextmanager
def fitting(folder: Path, expected: str, hint: str) -> Iterator[None]:
    """Turn what is raised where files of a folder do not fit each other into an InputError.

    Parameters
    ----------
    folder
        The folder, or the file, that the block reads.
    expected
        What it should have held.
    hint
        What the user should do, as an imperative.

    Raises
    ------
    InputError
        The block raised this, or one of the errors that damaged or mixed files lead to.
    """
    try:
        yield
    except InputError:
        raise
    except _DAMAGE as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        actual = f"files that do not fit each other ({said})"
        raise problem(folder, actual, expected, hint) from error


def _digest(path: Path, digest_of: Callable[[Path], str]) -> str:
    return settings_digest(_digests_in(path, digest_of)) if path.is_dir() else digest_of(path)


def _digests_in(folder: Path, digest_of: Callable[[Path], str]) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): digest_of(path)
        for path in files
        if path != folder / MANIFEST and not path.name.startswith(".")
    }


def _read_digest(path: Path) -> str:
    state = _state(path)
    with path.open("rb") as handle:
        _READ[state] = hashlib.file_digest(handle, "sha256").hexdigest()
    return _READ[state]


def _known_digest(path: Path) -> str:
    """Return the digest of a file without reading again what this process has read before.

    A job checks its inputs before its work, and names them in its outputs: they are large.
    """
    found = _READ.get(_state(path))
    return _read_digest(path) if found is None else found


def _state(path: Path) -> tuple[Path, int, int, int]:
    status = path.stat()
    return path.absolute(), status.st_size, status.st_mtime_ns, status.st_ino
