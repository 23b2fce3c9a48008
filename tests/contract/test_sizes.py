"""Files, functions, folders and names stay such that a reader finds his way."""

import ast
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST_FILE, LONGEST_FUNCTION = 400, 80
MOST_FILES, MOST_LINES = 15, 3000
"""Of a folder. `stages` has a file per stage."""
MOST_IMPORTS = 12
"""Of the package's own modules, in one module."""

TRACKED = subprocess.run(
    ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
).stdout.split("\0")
LINES = {
    name: len((REPOSITORY / name).read_text(encoding="utf-8").splitlines())
    for name in TRACKED
    if name.endswith((".py", ".smk")) and (REPOSITORY / name).is_file()
}
MODULES = [name for name in LINES if name.startswith("aam/") and name.endswith(".py")]


class Names(NamedTuple):
    """What one file defines and imports; the tree of it is not kept: they would fill the memory."""

    long: list[str]
    classes: list[str]
    imports: set[str]


@cache
def names_in(name: str) -> Names:
    found = Names([], [], set())
    for node in ast.walk(ast.parse((REPOSITORY / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if (node.end_lineno or 0) - node.lineno + 1 >= LONGEST_FUNCTION:
                found.long.append(f"{name}: {node.name}")
        elif isinstance(node, ast.ClassDef):
            found.classes.append(node.name)
        elif isinstance(node, ast.Import):
            found.imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            folder = REPOSITORY.joinpath(*node.module.split("."))
            inner = {alias.name for alias in node.names if (folder / f"{alias.name}.py").is_file()}
            found.imports.update({f"{node.module}.{own}" for own in inner} or {node.module})
    return found


def test_files_and_functions() -> None:
    assert {name: count for name, count in LINES.items() if count >= LONGEST_FILE} == {}
    able = [n for n, count in LINES.items() if n.endswith(".py") and count > LONGEST_FUNCTION]
    assert [function for name in able for function in names_in(name).long] == []


def test_folders() -> None:
    files, length = Counter[str](), Counter[str]()
    for name in MODULES:
        folder, _, file = name.rpartition("/")
        files[folder] += file != "__init__.py"
        length[folder] += LINES[name]
    assert {folder for folder, count in files.items() if count > MOST_FILES} <= {"aam/stages"}
    assert {folder: count for folder, count in length.items() if count > MOST_LINES} == {}


def test_imports() -> None:
    own = {name: [m for m in names_in(name).imports if m.startswith("aam.")] for name in MODULES}
    assert {name: len(found) for name, found in own.items() if len(found) > MOST_IMPORTS} == {}


def test_names() -> None:
    classes = Counter(own for name in MODULES for own in names_in(name).classes)
    assert [name for name, count in classes.items() if count > 1] == []
    files = Counter(Path(name).name for name in MODULES)
    del files["__init__.py"]
    assert [name for name, count in files.items() if count > 2] == []


def test_nothing_large_or_generated_is_tracked() -> None:
    tracked = [REPOSITORY / name for name in TRACKED if name]
    assert [str(p) for p in tracked if p.is_file() and p.stat().st_size > 500_000] == []
