"""Files, functions, folders and names stay such that a reader finds his way."""

import ast
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "aam"
LONGEST_FILE, LONGEST_FUNCTION = 400, 80
MOST_FILES, MOST_LINES = 15, 3000
"""Of a folder. `stages` has a file per stage."""
MOST_IMPORTS = 12
"""Of the package's own modules, in one module."""

SOURCES = [
    path
    for folder in ("aam", "benchmarks", "workflow", "tests")
    for suffix in ("*.py", "*.smk")
    for path in sorted((REPOSITORY / folder).rglob(suffix))
]
MODULES = [path for path in SOURCES if path.is_relative_to(PACKAGE)]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_files() -> None:
    assert [name_of(path) for path in SOURCES if lines(path) >= LONGEST_FILE] == []


def test_functions() -> None:
    long = [
        f"{name_of(path)}: {node.name}"
        for path in SOURCES
        if path.suffix == ".py"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 >= LONGEST_FUNCTION
    ]
    assert long == []


def test_folders() -> None:
    files, length = Counter[str](), Counter[str]()
    for path in MODULES:
        files[name_of(path.parent)] += path.name != "__init__.py"
        length[name_of(path.parent)] += lines(path)
    full = {folder for folder, count in files.items() if count > MOST_FILES}
    assert full <= {"aam/stages"}
    assert {folder: count for folder, count in length.items() if count > MOST_LINES} == {}


def own_imports(path: Path) -> set[str]:
    """Return the modules of the package that a module imports."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            folder = REPOSITORY.joinpath(*node.module.split("."))
            inner = {alias.name for alias in node.names if (folder / f"{alias.name}.py").is_file()}
            found |= {f"{node.module}.{name}" for name in inner} or {node.module}
    return {name for name in found if name.split(".")[0] == "aam"}


def test_imports() -> None:
    many = {name_of(path): len(own_imports(path)) for path in MODULES}
    assert {name: count for name, count in many.items() if count > MOST_IMPORTS} == {}


def test_names() -> None:
    classes = Counter(
        node.name
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []
    files = Counter(path.name for path in MODULES if path.name != "__init__.py")
    assert [name for name, count in files.items() if count > 2] == []


def test_nothing_large_or_generated_is_tracked() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    tracked = [REPOSITORY / name for name in listed.split("\0") if name]
    assert [str(p) for p in tracked if p.is_file() and p.stat().st_size > 500_000] == []
