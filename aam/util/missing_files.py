"""Paths as users write them, and what to do about one that is no file to read."""

import difflib
from pathlib import Path

from aam.util.errors import first_names


def expand_home(path: str | Path) -> Path:
    """Return a path with the home directory in the place of a tilde.

    A tilde before anything but the name of a user is part of a file's name: `~$labels.xlsx` is what
    Excel writes next to a workbook that is open.

    Parameters
    ----------
    path
        What the user wrote.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def suggest_file(path: Path, written: Path) -> str:
    """Return what to do about a path that is no file to read, with a likely one where there is any.

    Parameters
    ----------
    path
        The path.
    written
        What the user wrote for it: another path where that is relative to `data_dir`.
    """
    wrong = "the path" if path == written else "the path, or data_dir"
    if path.is_dir():
        inside = sorted(child.name for child in path.iterdir() if child.is_file())
        return f"name the file inside of it: {first_names(inside)}" if inside else "name a file"
    if path.exists():
        return "allow yourself to read it (`chmod u+r`), or ask its owner"
    if not path.parent.is_dir():
        elsewhere = [folder / written.name for folder in (Path(), *path.parents)]
        found = next((place for place in elsewhere if place.is_file()), None)
        if found is not None:
            return f"did you mean {found}? Correct {wrong}"
        return f"correct {wrong}: there is no folder {path.parent}"
    names = [child.name for child in path.parent.iterdir() if child.is_file()]
    wanted = path.name.strip().casefold()
    close = [name for name in names if name.strip().casefold() == wanted]
    close = close or difflib.get_close_matches(path.name, names, n=3)
    if close:
        likely = [repr(str(written.with_name(name))) for name in sorted(close)]
        return f"did you mean {' or '.join(likely)}?"
    return f"correct the path; {path.parent} has {first_names(sorted(names)) or 'no files'}"
