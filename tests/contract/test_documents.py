"""What the documents name exists: files, modules, commands, keys of the configuration."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from aam.evaluate.scores import MAIN
from workflow.schemas import config_schema as schema

ROOT = schema.REPOSITORY
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "config/README.md")),
]
FOLDERS = "aam|benchmarks|config|docs|profiles|q2_aam|tests|workflow|snakemake_logger_plugin_aam"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./*-]*)`(?! of [0-9a-f]{{7}})")
"""A file of the project, unless the page says of which commit it is."""
MODULE = re.compile(r"`(?:python -m )?((?:aam|benchmarks|workflow)(?:\.\w+)+)(?:\(\))?[` ]")
COMMAND = re.compile(r"python -m ((?:aam|benchmarks|workflow)(?:\.\w+)+)")
FENCE = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SECTIONS = "|".join(["datasets", "models", "tasks", "predictions", *schema.schema()["properties"]])
KEY = re.compile(rf"`((?:{SECTIONS})(?:\.(?:<\w+>|\w+))+)(?:: [^`]*)?`")
INLINE = re.compile(rf"`((?:{SECTIONS}): [{{\[][^`…]*)`")
MADE = {"config/mine.yaml", "config/april.yaml", "profiles/mycluster", "docs/images/gpu.png"}
"""Files that the reader of a page makes."""
NO_MODULES = {"aam.def", "aam.engine"}
"""A recipe of an image, and a key of metadata."""


def pages_with(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the page and the first group of each match."""
    for page in PAGES:
        for found in pattern.finditer(page.read_text(encoding="utf-8")):
            yield str(page.relative_to(ROOT)), found[1]


def module_has(name: str) -> bool:
    """Return whether a dotted name is a module, or what one defines, without importing it."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        if not path.with_suffix(".py").exists() and not path.is_dir():
            continue
        file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        body = ast.parse(file.read_text(encoding="utf-8")).body
        for part in parts[length:]:
            inner = [node for node in body if part in _defined(node)]
            if not inner:
                return False
            body = getattr(inner[0], "body", [])
        return True
    return False


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_files_that_are_named_exist() -> None:
    named = {(page, path) for page, path in pages_with(PATH) if path not in MADE}
    assert len(named) > 100
    missing = {
        (page, path)
        for page, path in named
        if not (any(ROOT.glob(path)) if "*" in path else (ROOT / path).exists())
    }
    assert missing == set()


def test_modules_and_what_they_define_exist() -> None:
    named = {*pages_with(MODULE), *pages_with(COMMAND)}
    assert len(named) > 30
    missing = {(page, name) for page, name in named if not module_has(name)}
    assert {(page, name) for page, name in missing if name not in NO_MODULES} == set()


def test_keys_that_are_named_exist() -> None:
    keys = {_without_names(path) for path, *_ in schema.keys()}
    known = keys | {".".join(key.split(".")[:n]) for key in keys for n in range(1, key.count("."))}
    named = {(page, key) for page, key in pages_with(KEY) if not key.endswith(".py")}
    assert len(named) > 50
    unknown = {(page, key) for page, key in named if not _is_known(key, known)}
    assert unknown == set()


def _without_names(key: str) -> str:
    return key.replace(".<name>", "")


def _is_known(key: str, known: set[str]) -> bool:
    section, *rest = key.split(".")
    if section in ("datasets", "models", "tasks", "predictions"):
        rest = rest[1:]
    # A section of a dataset, a model or a task has the keys of the global one.
    return any(".".join(parts) in known for parts in ([section, *rest], rest) if parts) or not rest


def test_the_page_of_scores_names_all() -> None:
    text = (ROOT / "docs/reference/scores.md").read_text(encoding="utf-8")
    scores = {score for names in MAIN.values() for score in names}
    assert scores - {*re.findall(r"`(\w+)`", text)} == set()


def _optional(node: Any) -> Any:
    """Return a schema without the keys that must be given, as pages show parts of a file."""
    if isinstance(node, dict):
        return {key: _optional(part) for key, part in node.items() if key != "required"}
    return [_optional(part) for part in node] if isinstance(node, list) else node


VALIDATOR = jsonschema.Draft202012Validator(_optional(schema.schema()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_configurations_on_pages_are_valid(page: Path) -> None:
    for indent, block in FENCE.findall(page.read_text(encoding="utf-8")):
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        # Lines that are alternatives stand in one block, each a configuration of its own.
        keys = [line.split(":")[0] for line in lines if re.match(r"\w+:", line)]
        parts = lines if len(set(keys)) < len(keys) else ["\n".join(lines)]
        for part in parts:
            VALIDATOR.validate(yaml.safe_load(part) or {})


def test_settings_in_sentences_are_valid() -> None:
    named = {*pages_with(INLINE)}
    assert len(named) > 20
    problems = [
        f"{page}: `{text}`: {error.message}"
        for page, text in sorted(named)
        for error in VALIDATOR.iter_errors(yaml.safe_load(text))
    ]
    assert problems == []
