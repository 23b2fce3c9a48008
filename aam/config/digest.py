"""Digests of the code that a rule really runs."""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from aam.util.atomic import write_text

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("aam", "benchmarks")
"""Packages whose code is compared; what else a script imports is a library."""
NEUTRAL = frozenset(
    {
        "aam",
        "aam.version",
        "aam.util.log",
        "aam.train.monitoring.monitor",
        "aam.train.monitoring.watch",
        "aam.stages.first_score",
        "aam.stages.job",
        "aam.distributed.launch",
        "aam.util.run_options",
    }
)
"""Modules that report what happens and never change a result, and the version."""
COUNTING = frozenset({"aam.train.monitoring.roofline", "aam.model.flops"})
"""Modules whose figures training only logs; they are results where a benchmark imports them."""
MOST_KEPT = 1000
"""Sources whose parsed form is kept: a checkout has some 260."""
Parsed = tuple[str, Sequence[str], Sequence[str]]
"""A source without docstrings and comments, modules of `PACKAGES` that it imports, and names that
it imports from them, which may be modules as well."""
_NEW: set[str] = set()
"""Sources that no earlier run has parsed."""
TEMPLATES = frozenset({".html", ".css", ".js", ".tsv"})


def source_folders() -> list[Path]:
    """Return where workflow and benchmarks may lie: in the checkout, or below a prefix."""
    parent = PACKAGE_ROOT.parent
    # Packages are installed in PREFIX/lib/python3.x/site-packages, or in what `pip --target` names.
    prefixes = [*parent.parents[2:3], parent]
    return [parent, *(prefix / "share" / "aam" for prefix in prefixes)]


def code_digest(*modules: str) -> str:
    """Return the SHA-256 of modules and of everything of `PACKAGES` that they import.

    Comments, docstrings and formatting do not change it; any other edit does, of templates too.

    Parameters
    ----------
    *modules
        Dotted names, `aam.stages.rarefy` for instance.

    Raises
    ------
    ModuleNotFoundError
        There is no such module.
    """
    digest = hashlib.sha256()
    for name in sorted(set().union(*map(imported_modules, modules))):
        path = _required(name)
        digest.update(f"{name}\n{_normalized(path)[0]}\n".encode())
        if path.name != "__init__.py":
            continue
        folder = path.parent
        for template in sorted(path for path in folder.glob("*.*") if path.suffix in TEMPLATES):
            digest.update(f"{template.name}\n{template.read_text(encoding='utf-8')}\n".encode())
    return digest.hexdigest()


def script_digest(script: Path, *modules: str) -> str:
    """Return the SHA-256 of the code that a rule runs: its script, and what that imports of `aam`.

    Parameters
    ----------
    script
        File of the script. Like modules it is compared without comments and docstrings.
    *modules
        Dotted names of further modules that run, which the script imports by name.

    Returns
    -------
    str
        Hexadecimal digits.
    """
    source, imports = _normalized(script)
    named = {name for name in imports if name not in NEUTRAL}
    code = code_digest(*named, *modules)
    _keep_sources()
    return hashlib.sha256(f"{source}\n{code}\n".encode()).hexdigest()


def imported_modules(module: str) -> set[str]:
    """Return the names of a module and of the package's modules that it imports, at any depth.

    Parameters
    ----------
    module
        Dotted name. `NEUTRAL` modules are left out, with all that only they import.
    """
    names = set[str]()
    waiting = {module}
    while waiting:
        name = waiting.pop()
        names.add(name)
        neutral = NEUTRAL if name.startswith("benchmarks.") else NEUTRAL | COUNTING
        waiting |= set(_normalized(_required(name))[1]) - neutral - names
    return names


@cache
def _normalized(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the source without docstrings and comments, and the package's modules it names."""
    code, modules, members = _parsed(path.read_bytes())
    names = {*modules, *(name for name in members if _source(name) is not None)}
    # A package's __init__ runs too whenever one of its modules is imported.
    for name in list(names):
        parts = name.split(".")
        names.update(".".join(parts[:end]) for end in range(1, len(parts)))
    return code, tuple(sorted(names))


def _parsed(source: bytes) -> Parsed:
    """Return what a source says, which is kept from run to run: parsing takes seconds."""
    known = _known_sources()
    key = hashlib.sha256(source).hexdigest()
    if key not in known:
        tree = ast.parse(source)
        modules, members = _imports(tree)
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [item for item in body if not _is_bare_string(item)] or [ast.Pass()]  # type: ignore[attr-defined]
        known[key] = (ast.unparse(tree), modules, members)
        _NEW.add(key)
    return known[key]


@cache
def _known_sources() -> dict[str, Parsed]:
    """Return what earlier runs have parsed, by the SHA-256 of the source."""
    # What is missing or damaged is parsed again.
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(_kept_file().read_text(encoding="utf-8"))
        if kept["parser"] == _parser():
            return {key: tuple(parsed) for key, parsed in kept["sources"].items()}
    return {}


def _keep_sources() -> None:
    """Keep what was parsed for the next run."""
    if not _NEW:
        return
    known = _known_sources()
    chosen = known if len(known) <= MOST_KEPT else {key: known[key] for key in _NEW}
    # Without a folder for caches each run parses.
    with suppress(OSError):
        text = json.dumps({"parser": _parser(), "sources": chosen})
        write_text(_kept_file(), text)
    _NEW.clear()


def _kept_file() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches, "aam", "parsed_code.json")


@cache
def _parser() -> str:
    """Return what stands for how sources are parsed: this module, and Python."""
    return hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()


def _required(name: str) -> Path:
    """Return the file of a module."""
    path = _source(name)
    if path is None:
        raise ModuleNotFoundError(f"{name} is in none of {source_folders()}")
    return path


def _imports(tree: ast.AST) -> tuple[list[str], list[str]]:
    """Return modules that are imported, and names of what is imported from them."""
    modules: set[str] = set()
    members: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
            modules.update(name for name in named if name.split(".")[0] in PACKAGES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            assert node.module is not None
            modules.add(node.module)
            # What is imported from a package may itself be a module.
            members.update(f"{node.module}.{alias.name}" for alias in node.names)
    return sorted(modules), sorted(members)


def _source(name: str) -> Path | None:
    package, *parts = name.split(".")
    folders = [PACKAGE_ROOT] if package == "aam" else [f / package for f in source_folders()]
    for folder in folders:
        base = folder.joinpath(*parts)
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None


def _is_bare_string(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
