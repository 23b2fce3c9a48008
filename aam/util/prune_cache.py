"""Prune a folder of Snakemake's between-workflow cache: `python -m aam.util.prune_cache DIR`.

An entry is what one job made: the files whose names begin with the same hash. It goes when it was
not used for too long; then, as long as the folder is too large, the one that was not used for the
longest time. Only files that are named as Snakemake names them are looked at.
"""

import argparse
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aam.util.errors import InputError, problem

NAME = re.compile(r"(?P<hash>[0-9a-f]{64})(_\w+)?(\.\w+)*")
"""`<hash>.<suffix>` of a rule with one output, `<hash>_<output>.<suffix>` of one with several."""
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SECONDS = {"h": 3600, "d": 86_400}
LEAST_AGE_S = 3600
"""An entry that was used since then stays: a workflow may be about to link to it."""


@dataclass(frozen=True)
class Entry:
    """What one job made, and when one of its files was last read or written (since 1970)."""

    files: tuple[Path, ...]
    size_bytes: int
    used_s: float


def list_entries(folder: Path) -> list[Entry]:
    """Return what is in a cache, links and files with other names left out."""
    files_by_hash: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        name = NAME.fullmatch(path.name)
        if name and path.is_file() and not path.is_symlink():
            files_by_hash[name["hash"]].append(path)
    all_entries = []
    for files in files_by_hash.values():
        stats = [path.stat() for path in files]
        size_bytes = sum(stat.st_size for stat in stats)
        # File systems that are mounted with `noatime` note no reads: the time of writing is what is
        # left.
        used_s = max(max(stat.st_atime, stat.st_mtime) for stat in stats)
        all_entries.append(Entry(tuple(files), size_bytes, used_s))
    return all_entries


def find_linked(folder: Path, results: Iterable[Path]) -> set[str]:
    """Return the names of the files of a cache that links below some folders of results lead to."""
    targets: set[Path] = set()
    waiting = {root.resolve() for root in results}
    seen: set[Path] = set()
    while waiting:
        root = waiting.pop()
        seen.add(root)
        for parent, folders, files in os.walk(root, onerror=_unreadable):
            paths = [Path(parent, name) for name in (*folders, *files)]
            linked_paths = {path.resolve() for path in paths if path.is_symlink()}
            targets |= linked_paths
            waiting |= {path for path in linked_paths if path.is_dir()} - seen
    return {path.name for path in targets if path.parent == folder.resolve()}


def _unreadable(error: OSError) -> None:
    expected = "one whose links into the cache can be seen"
    hint = "run this as somebody who may read it, or leave it out of --keep-linked"
    raise problem(error.filename, "a folder that cannot be read", expected, hint) from error


def choose_expired(
    all_entries: Sequence[Entry],
    *,
    now_s: float,
    max_age_s: float | None = None,
    max_bytes: int | None = None,
    kept: Collection[str] = (),
) -> list[Entry]:
    """Return the entries that should go, the one that was not used for the longest time first.

    Entries that were used within the last hour stay.

    Parameters
    ----------
    all_entries
        Entries of the cache.
    now_s
        Time that ages are counted from, in seconds since 1970.
    max_age_s
        Age beyond which an entry goes; None: no limit.
    max_bytes
        Size of the cache beyond which the oldest entries go; None: no limit.
    kept
        Names of files whose entries stay.

    Returns
    -------
    list of Entry
        Entries to remove, in that order.
    """
    size_bytes = sum(entry.size_bytes for entry in all_entries)
    going = []
    for entry in sorted(all_entries, key=lambda entry: entry.used_s):
        age_s = now_s - entry.used_s
        old = max_age_s is not None and age_s > max_age_s
        large = max_bytes is not None and size_bytes > max_bytes
        used = age_s < LEAST_AGE_S or any(path.name in kept for path in entry.files)
        if (old or large) and not used:
            going.append(entry)
            size_bytes -= entry.size_bytes
    return going


def _amount(text: str | None, units: dict[str, int], what: str) -> int | None:
    """Return a number with a unit, `50GB` for instance, in the smallest unit."""
    if text is None:
        return None
    parts = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({'|'.join(units)})", text.strip())
    if parts is None:
        raise problem(what, repr(text), f"a number and one of {', '.join(units)}", "give a unit")
    return round(float(parts[1]) * units[parts[2]])


def main(arguments: Sequence[str] | None = None) -> None:
    """Prune a cache, and print what was removed."""
    parser = argparse.ArgumentParser(prog="python -m aam.util.prune_cache", description=__doc__)
    parser.add_argument("folder", type=Path, help="what SNAKEMAKE_OUTPUT_CACHE names")
    parser.add_argument("--max-size", help="50GB for instance: the least recently used go")
    parser.add_argument("--max-age", help="90d for instance: what was not used since goes")
    parser.add_argument(
        "--keep-linked", type=Path, nargs="*", default=[], help="folders whose links must last"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go")
    given = parser.parse_args(arguments)
    for folder in (given.folder, *given.keep_linked):
        if not folder.is_dir():
            raise problem(folder, "no folder", "a folder that exists", "check its name")
    all_entries = list_entries(given.folder)
    kept = find_linked(given.folder, given.keep_linked)
    most = _amount(given.max_size, BYTES, "--max-size")
    age_s = _amount(given.max_age, SECONDS, "--max-age")
    going = choose_expired(
        all_entries, now_s=time.time(), max_age_s=age_s, max_bytes=most, kept=kept
    )
    for entry in going:
        for path in entry.files:
            print(path)
            if not given.dry_run:
                path.unlink(missing_ok=True)
    removed_gb = _size_gb(going)
    total_gb = _size_gb(all_entries)
    did = "would remove" if given.dry_run else "removed"
    print(
        f"{did} {len(going)} of {len(all_entries)} entries, {removed_gb:.3f} of {total_gb:.3f} GB"
    )


def _size_gb(some_entries: Iterable[Entry]) -> float:
    return sum(entry.size_bytes for entry in some_entries) / 10**9


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
