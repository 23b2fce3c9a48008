"""Records beside results: digests of what stages wrote, and of the user's files.

A file `name` has its digest next to it, in `.name.sha256`.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aam.util.atomic import remove, write_text
from aam.util.digests import file_digest
from aam.util.errors import problem

CACHE = ".digests.json"
"""File in the folder of results with the digests of the user's files, by path, size and time."""
CHECKOUT = ".checkout"
"""File in the folder of results that names the checkout which makes them."""
WRITTEN = ".known"
"""Folder in Snakemake's cache with an empty file for every digest that a stage wrote."""


def forget_digests(outputs: Iterable[Path]) -> None:
    """Remove the digests of what a stage is about to write.

    Parameters
    ----------
    outputs
        Files and folders that the stage writes.
    """
    for path in outputs:
        remove(_digest_file(path))


def write_digests(outputs: Iterable[Path]) -> None:
    """Write the digest of every file or folder that a stage wrote, also into Snakemake's cache.

    Parameters
    ----------
    outputs
        Files and folders that the stage has written. The cache is the folder that the environment
        variable `SNAKEMAKE_OUTPUT_CACHE` names, if it is set.
    """
    cache = os.environ.get("SNAKEMAKE_OUTPUT_CACHE")
    for path in outputs:
        digest = file_digest(path)
        write_text(_digest_file(path), digest + "\n")
        if cache:
            written = Path(cache) / WRITTEN
            if not written.is_dir():
                written.mkdir(parents=True)
                # Whoever may add to the cache may add here.
                written.chmod(written.parent.stat().st_mode)
            (written / digest).touch()


def check_digests(inputs: Iterable[Path]) -> None:
    """Check that inputs are what a stage wrote.

    Inputs without a digest are the user's, or copied without it. Links lead to Snakemake's cache,
    whose files another checkout may have written.

    Parameters
    ----------
    inputs
        Files and folders that a stage is about to read.

    Raises
    ------
    InputError
        The content of an input does not have its digest: it is damaged, cut off or edited.
    """
    actual = "content that its stage did not write: damaged, cut off or edited"
    for path in inputs:
        digest_file = _digest_file(path)
        written = path.resolve().parent / WRITTEN
        if path.is_symlink():
            if written.is_dir() and not (written / file_digest(path)).is_file():
                hint = f"delete {path.resolve()} and {path}, and run the same command again"
                raise problem(path, actual, f"one of the digests in {written}", hint)
        elif (
            digest_file.is_file() and digest_file.read_bytes().strip() != file_digest(path).encode()
        ):
            hint = f"delete {path} and run the same command again, which writes a new one"
            raise problem(path, actual, f"the digest in {digest_file.name}", hint)


def user_digests(files: Mapping[str, str], results_dir: Path) -> dict[str, str]:
    """Return the digest of each of the user's files; what did not change is not read again.

    A file counts as unchanged where size, time and inode are those of the last call. The time alone
    would not do: unpacked and copied files keep old ones.

    Parameters
    ----------
    files
        Paths by name. Files inside of the results, and those that are missing, are left out.
    results_dir
        Folder of all results, in which the digests are kept.

    Returns
    -------
    dict
        SHA-256 by the names of `files`.
    """
    cache = results_dir / CACHE
    entries: dict[str, Any] = {}
    # A file that cannot be read is made again from nothing.
    with suppress(OSError, ValueError):
        entries = dict(json.loads(cache.read_text("utf-8")))
    digests = {}
    is_changed = False
    for name, given in files.items():
        path = Path(given).absolute()
        if not path.is_file() or path.is_relative_to(results_dir.absolute()):
            continue
        status = path.stat()
        state = [status.st_size, status.st_mtime_ns, status.st_ino]
        key = str(path)
        if entries.get(key, [])[:-1] != state:
            entries[key] = [*state, file_digest(path)]
            is_changed = True
        digests[name] = entries[key][-1]
    if is_changed and os.access(results_dir, os.W_OK):
        write_text(cache, json.dumps(entries, sort_keys=True))
    return digests


def claim(results_dir: Path, checkout: Path) -> None:
    """Mark a folder of results as that of a checkout, after checking that it is no other's.

    Snakemake keeps in each checkout what its files were made with: without that it takes results of
    other settings for those that are wanted.

    Parameters
    ----------
    results_dir
        Folder of all results.
    checkout
        Folder of the Snakefile that is run.

    Raises
    ------
    InputError
        There are results but no records of Snakemake, or another checkout made the results.
    """
    mark = results_dir / CHECKOUT
    results_dir = results_dir.resolve()
    records = checkout / ".snakemake" / "metadata"
    if not records.is_dir() and any(results_dir.glob("*/*/.*.sha256")):
        hint = (
            f"put it back, or delete {results_dir}; if no setting has changed, create it as an "
            "empty folder"
        )
        raise problem(records, "no such folder", f"what {results_dir} was made with", hint)
    if results_dir.is_relative_to(checkout) or not results_dir.is_dir():
        return
    if mark.is_file():
        other = Path(mark.read_text(encoding="utf-8").strip())
        if other != checkout:
            raise problem(
                "configuration key results_dir",
                f"{results_dir}, whose files were made by the checkout {other}",
                "a folder for this checkout alone",
                f"give another results_dir, or run the command in {other}; if that is this one, "
                f"moved with its folder .snakemake, delete {mark}",
            )
    if os.access(results_dir, os.W_OK):
        write_text(mark, f"{checkout}\n")


def _digest_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.sha256")
