"""Names in the package are found once, and nothing large or generated is tracked."""

import ast
import subprocess
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(
    ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
).stdout.split("\0")
MODULES = [
    name
    for name in TRACKED
    if name.startswith("aam/") and name.endswith(".py") and (REPOSITORY / name).is_file()
]


def classes_in(name: str) -> list[str]:
    tree = ast.parse((REPOSITORY / name).read_text(encoding="utf-8"))
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def test_no_two_classes_share_a_name() -> None:
    classes = Counter(own for name in MODULES for own in classes_in(name))
    assert [name for name, count in classes.items() if count > 1] == []


def test_no_file_name_is_used_more_than_twice() -> None:
    files = Counter(Path(name).name for name in MODULES)
    del files["__init__.py"]
    assert [name for name, count in files.items() if count > 2] == []


def test_nothing_large_or_generated_is_tracked() -> None:
    shipped = REPOSITORY / "aam/reference_tree/v4"
    tracked = [REPOSITORY / name for name in TRACKED if name]
    sizes = [p.stat().st_size for p in tracked if p.is_relative_to(shipped)]
    assert 1_000_000 < sum(sizes) <= 2_000_000
    tracked = [p for p in tracked if not p.is_relative_to(shipped)]
    assert [str(p) for p in tracked if p.is_file() and p.stat().st_size > 500_000] == []
