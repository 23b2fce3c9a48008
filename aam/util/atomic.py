"""Files that are either complete or absent."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def atomic_path(final: Path) -> Iterator[Path]:
    """Yield a path next to `final` that is renamed to it on success and removed on failure.

    Parameters
    ----------
    final
        File or folder to write; its folder is made where it is missing.

    Yields
    ------
    Path
        Path to write to. It may become a file or a folder, and ends as `final` does, since some
        writers choose their format by the suffix.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    # The number of the process keeps two writers apart. Only within a folder is a rename atomic.
    partial = final.with_name(f".partial-{os.getpid()}-{final.name}")
    remove(partial)
    try:
        yield partial
        if partial.is_dir():
            remove(final)
        else:
            with partial.open("rb") as handle:
                # Without this a crash of the machine could leave the final name with a part of the
                # content.
                os.fsync(handle.fileno())
        partial.replace(final)
    finally:
        remove(partial)


@contextmanager
def atomic_path_with_mode(final: Path) -> Iterator[Path]:
    """Yield a path as `atomic_path` does, for writers that choose the mode of a file themselves.

    The library safetensors makes files that nobody else may read, whatever the user's mask. With
    this context the file has the mode of any other file that the user makes.

    Parameters
    ----------
    final
        File to write; its folder is made where it is missing.

    Yields
    ------
    Path
        An empty file to write to.
    """
    with atomic_path(final) as partial:
        partial.touch()
        mode = partial.stat().st_mode
        yield partial
        partial.chmod(mode)


def remove_partial(outputs: Iterable[Path | list[Path]]) -> None:
    """Remove what a killed process has left next to outputs that this process alone will write.

    Parameters
    ----------
    outputs
        Final paths, or lists of them, as `atomic_path` takes them.
    """
    for output in outputs:
        for final in output if isinstance(output, list) else [output]:
            name = re.compile(rf"\.partial-\d+-{re.escape(final.name)}")
            for path in list(final.parent.glob(".partial-*")):
                if name.fullmatch(path.name):
                    remove(path)


def write_text(final: Path, text: str) -> None:
    """Write a text file atomically.

    Parameters
    ----------
    final
        File to write.
    text
        Its content, which is encoded as UTF-8.
    """
    with atomic_path(final) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(final: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, indented, with sorted keys.

    Parameters
    ----------
    final
        File to write.
    content
        Plain types alone.

    Raises
    ------
    ValueError
        A number is NaN or infinite, which JSON does not have.
    """
    write_text(final, json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n")


def write_tsv(
    final: Path, table: "pd.DataFrame", *, index: bool = False, float_format: str = "%.6g"
) -> None:
    """Write a table atomically as tab-separated text.

    Parameters
    ----------
    final
        File to write.
    table
        The table; its column names are the header.
    index
        Whether the row labels are the first column.
    float_format
        Format of the numbers that are not whole.
    """
    with atomic_path(final) as partial:
        table.to_csv(partial, sep="\t", index=index, float_format=float_format, lineterminator="\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Parameters
    ----------
    path
        A file that `write_json` wrote.

    Raises
    ------
    ValueError
        The content is not JSON.
    """
    return json.loads(path.read_text(encoding="utf-8"))


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that it holds; of a link, the link alone.

    Parameters
    ----------
    path
        What to remove; it may be absent.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
