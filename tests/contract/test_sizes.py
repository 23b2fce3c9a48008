"""Files and functions stay small enough to be read at once."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST_FILE, LONGEST_FUNCTION, LONGEST_SCRIPT = 400, 80, 40


def sources() -> Iterator[Path]:
    for folder in ("aam", "workflow", "tests"):
        for suffix in ("*.py", "*.smk"):
            yield from (REPOSITORY / folder).rglob(suffix)


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_files() -> None:
    assert [str(p) for p in sources() if lines(p) >= LONGEST_FILE] == []


def test_functions() -> None:
    long = [
        f"{path.relative_to(REPOSITORY)}: {node.name}"
        for path in sources()
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 >= LONGEST_FUNCTION
    ]
    assert long == []


def test_scripts() -> None:
    scripts = list((REPOSITORY / "workflow" / "scripts").glob("*.py"))
    assert scripts
    assert [p.name for p in scripts if lines(p) > LONGEST_SCRIPT] == []


def test_nothing_large_or_generated_is_tracked() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    tracked = [REPOSITORY / name for name in listed.split("\0") if name]
    large = [str(p) for p in tracked if p.is_file() and p.stat().st_size > 500_000]
    assert large == []
