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
TABLE = ".table.json"
"""File in the folder of a dataset's results that names the table which they are made of, the path
under which Snakemake knows them, and the folder that it ran in."""
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


def user_digests(
    files: Mapping[str, str], results_dir: Path, datasets: Iterable[str]
) -> dict[str, str]:
    """Return the digest of each of the user's files; what did not change is not read again.

    A file counts as unchanged where size, time and inode are those of the last call. The time alone
    would not do: unpacked and copied files keep old ones.

    Parameters
    ----------
    files
        Paths by name. Those that are missing, and those inside of the results of a dataset that the
        workflow wrote, are left out.
    results_dir
        Folder of all results, in which the digests are kept.
    datasets
        Names of the datasets.

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
    folder = Path(os.path.normpath(results_dir.absolute()))
    made = [folder / name for name in datasets]
    digests = {}
    is_changed = False
    for name, given in files.items():
        path = Path(os.path.normpath(Path(given).absolute()))
        is_made = any(path.is_relative_to(one) for one in made) and _digest_file(path).is_file()
        if not path.is_file() or is_made:
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


def result_folder(results_dir: str, dataset: str) -> str:
    """Return the path of a dataset's results as Snakemake knows it.

    Parameters
    ----------
    results_dir
        Folder of all results, as the configuration writes it.
    dataset
        Name of the dataset.
    """
    return f"{results_dir.rstrip('/')}/{dataset}"


def require_own_results(results: str, table: Path | None) -> None:
    """Check that the results of a dataset are those of its table, and known to Snakemake.

    Snakemake knows what files were made with by their paths, as they are written, and by the folder
    that it runs in. Under another path, or from another folder, it would take them for current
    whatever has changed.

    Parameters
    ----------
    results
        What `result_folder` returns.
    table
        The user's table; None: the dataset is simulated.

    Raises
    ------
    InputError
        They were made of another table, which the run would overwrite, or under another path.
    """
    folder = Path(results)
    mark = folder / TABLE
    has_results = any(folder.glob("*/.*.sha256"))
    if has_results and is_of_another_table(folder, table):
        raise problem(
            f"configuration key datasets.{folder.name}",
            f"{table or 'a simulated study'}, but {folder} has the results of "
            f"{_recorded_table(folder)}",
            "a folder of results for each table",
            f"give the dataset another name, there and in `dataset` of its tasks; delete {folder} "
            f"if its results are not needed, or {mark} if the table is a new version of that one",
        )
    recorded = _read_table_record(folder) or {}
    place = _place(results)
    made = {key: recorded.get(key, text) for key, text in place.items()}
    if made != place and has_results:
        made_in = "the folder that made them"
        if made["run_in"]:
            made_in = os.path.normpath(folder.resolve() / made["run_in"])
        raise problem(
            "configuration key results_dir",
            f"results in {results}, from the folder {Path.cwd()}",
            f"{made['path']} from {made_in}, as they were made: under another path no run would "
            "see what has changed since",
            "write results_dir and the name of the dataset as they were, and run there; delete "
            f"{folder} to make all of it again, or {mark} if no setting has changed",
        )


def is_of_another_table(folder: Path, table: Path | None) -> bool:
    """Return whether results are known to be of another table than one of the user.

    Parameters
    ----------
    folder
        Folder of a dataset's results.
    table
        The user's table; None: the dataset is simulated. A table that was edited in its place, or
        moved, is the same table.
    """
    recorded = _read_table_record(folder)
    if recorded is None:
        return False
    if table is None or not recorded["table"]:
        return table is not None or bool(recorded["table"])
    is_same_path = recorded["table"] == os.path.relpath(table, folder)
    return not is_same_path and recorded["sha256"] != file_digest(table)


def record_results(results: str, table: Path | None) -> None:
    """Note of which table the results of a dataset are made, and where.

    Parameters
    ----------
    results
        What `result_folder` returns.
    table
        The user's table; None: the dataset is simulated.
    """
    folder = Path(results)
    record = {"table": "", "sha256": "", **_place(results)}
    if table is not None and table.is_file():
        # The path is relative, because folders of studies are moved as a whole.
        record["table"] = os.path.relpath(table, folder)
        record["sha256"] = user_digests({"table": str(table)}, folder.parent, [folder.name]).get(
            "table", ""
        )
    if record != _read_table_record(folder):
        write_text(folder / TABLE, json.dumps(record))


def _place(results: str) -> dict[str, str]:
    """Return under which path, and from where, results are made.

    The folder is relative to the results, because both are moved as a whole. For results outside of
    it there is none: `claim` knows whose they are.
    """
    folder = Path(results).resolve()
    is_inside = folder.is_relative_to(Path.cwd())
    return {"path": results, "run_in": os.path.relpath(Path.cwd(), folder) if is_inside else ""}


def _read_table_record(folder: Path) -> dict[str, str] | None:
    """Return what is noted of the table of results; None: nothing is."""
    mark = folder / TABLE
    if not mark.is_file():
        return None
    record: dict[str, str] = json.loads(mark.read_text(encoding="utf-8"))
    return record


def _recorded_table(folder: Path) -> str:
    """Return what messages call the table of results that have a record."""
    recorded = _read_table_record(folder)
    assert recorded is not None
    return os.path.relpath(folder / recorded["table"]) if recorded["table"] else "a simulated study"


def _digest_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.sha256")
