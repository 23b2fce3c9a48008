"""Files, functions, folders and names stay such that a reader finds his way.

`python tests/contract/test_sizes.py` prints the lines of every package, and those of code alone.
"""

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
PACKAGE, TESTS = 23_000, 17_000
"""Most lines of the package, and of its tests."""

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


def test_package_and_tests_keep_their_size() -> None:
    assert sum(LINES[name] for name in MODULES) <= PACKAGE
    assert sum(count for name, count in LINES.items() if name.startswith("tests/")) <= TESTS


def code_lines(name: str) -> int:
    """Return the lines that are neither blank, nor comment, docstring or import."""
    lines = (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    other = {i for i, line in enumerate(lines, 1) if not line.strip() or line.strip()[0] == "#"}
    for node in ast.walk(ast.parse("\n".join(lines))):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or is_text:
            other.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines) - len(other)


def test_nothing_large_or_generated_is_tracked() -> None:
    tracked = [REPOSITORY / name for name in TRACKED if name]
    shipped = REPOSITORY / "aam/pretrained/v4"
    sizes = [p.stat().st_size for p in tracked if p.is_relative_to(shipped)]
    assert 1_000_000 < sum(sizes) <= 4_000_000
    tracked = [p for p in tracked if not p.is_relative_to(shipped)]
    assert [str(p) for p in tracked if p.is_file() and p.stat().st_size > 500_000] == []


if __name__ == "__main__":
    totals: dict[str, Counter[str]] = {}
    for module in MODULES:
        own = Counter(lines=LINES[module], code=code_lines(module), files=1)
        for package in {"aam", "/".join(module.split("/")[:2]).removesuffix(".py")}:
            totals.setdefault(package, Counter()).update(own)
    for package, total in sorted(totals.items()):
        print(f"{package:<20}" + "".join(f"{total[kind]:>8} {kind}" for kind in own))
