"""The digests of a folder's files, which tell a folder that was changed or copied in part."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from aam.util.atomic import read_json, write_json
from aam.util.errors import InputError, first_names, problem
from aam.util.provenance import file_digest

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


def digests_in(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its path, except for hidden files.

    Snakemake marks the folders that jobs made by a hidden file.

    Parameters
    ----------
    folder
        The folder; its manifest is left out.
    """
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in files
        if path != folder / MANIFEST and not path.name.startswith(".")
    }
