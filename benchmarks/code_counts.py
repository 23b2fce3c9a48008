"""How large the package is, and how many places a reader has to know.

`python -m benchmarks.code_counts CHECKOUT [CHECKOUT]` prints a line for each checkout.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

LAYOUT = (
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.COMMENT,
)
"""Tokens that make no line a line of code."""


def count_code(checkout: Path) -> str:
    """Return the counts of the package of a checkout, in one line.

    Parameters
    ----------
    checkout
        Folder that holds the folder `aam`.
    """
    modules = {_module_name(path, checkout): path for path in sorted(checkout.glob("aam/**/*.py"))}
    code = comments = docstrings = nodes = 0
    lengths = []
    importers: Counter[str] = Counter()
    arrows = 0
    for name, path in modules.items():
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        documented = set(_docstring_lines(tree))
        code += len(_code_lines(source) - documented)
        docstrings += len(documented)
        comments += sum(token.type == tokenize.COMMENT for token in _tokens(source))
        nodes += sum(1 for _ in ast.walk(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lengths.append(node.end_lineno - node.lineno + 1)
        imported = set(_imports(tree, modules)) - {name}
        importers.update(imported)
        arrows += len(imported)
    alone = [
        name for name, path in modules.items() if path.stem != "__init__" and importers[name] == 1
    ]
    return (
        f"{len(modules)} files, {code} lines of code ({1000 * len(modules) / code:.1f} files per "
        f"1000), {docstrings} of docstrings, {100 * comments / code:.1f} comments per 100 lines, "
        f"{nodes / code:.2f} nodes per line, {len(alone)} modules with one importer, "
        f"{arrows} imports; {len(lengths)} functions: median {median(lengths):.0f} lines, "
        f"90 % up to {quantiles(lengths, n=10)[-1]:.0f}, longest {max(lengths)}"
    )


def _module_name(path: Path, checkout: Path) -> str:
    parts = path.relative_to(checkout).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(source).readline)


def _code_lines(source: str) -> set[int]:
    """Return the numbers of lines with code, docstrings among them."""
    lines: set[int] = set()
    for token in _tokens(source):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the numbers of the lines of docstrings of modules, classes and functions."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if ast.get_docstring(node, clean=False) is not None and first is not None:
            assert first.end_lineno is not None
            yield from range(first.lineno, first.end_lineno + 1)


def _imports(tree: ast.Module, modules: dict[str, Path]) -> Iterator[str]:
    """Yield the names of the package's modules that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"{argument}: {count_code(Path(argument))}")
