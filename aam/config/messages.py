"""Files of the configuration, and errors of it in the words of its keys."""

import codecs
import difflib
import json
import re
import reprlib
from collections import Counter
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from aam.config.sections.base import Section
from aam.util.errors import InputError, first_line, first_names, problem, problems

_SHORT = reprlib.Repr()
_SHORT.maxstring = 200
_SHORT.maxother = 200

MEANT = {
    "Dataset": "table",
    "Finetuning": "recipe",
    "Folds": "k",
    "ModelSettings": "start",
    "Pretraining": "epochs",
    "Rarefaction": "depth",
}
"""The key of a section that a value in its place is probably one of, by the section's class."""

RENAMED = {"Finetuning": {"encoder": "recipe", "models": "networks"}}
"""Keys of earlier versions with the names that they have, by the section's class."""
REMOVED = {
    "Dataset": {
        "root": "remove it; a tree without a root needs one (`qiime phylogeny midpoint-root`), or "
        "set `tree: null` to build one"
    }
}
"""Keys that sections had in earlier versions, and what is done without them."""

CONFIGURATION = "a configuration: keys in YAML, such as `datasets`"
BINARY = {
    b"PK\x03\x04": "a zip archive, such as a QIIME 2 artifact or an Excel file",
    b"\x89HDF": "an HDF5 file, such as a BIOM table",
    b"\x1f\x8b": "a compressed file",
}
"""What a file is by its first bytes."""
NO_TEXT = {"int": "a number", "float": "a number", "bool": "true or false", "null": "nothing"}
NO_TEXT |= {"timestamp": "a date"}
"""What YAML may read a key as, by the ends of its tags."""
_OTHER_BASE = re.compile(r"[-+]?(0[0-7_]+$|\d[\d_]*:)")
"""A number that is octal, or the beginning of one that has minutes."""
_IF_TABLE = (
    "name the configuration; one for a table is written by "
    "`aam init TABLE METADATA --output mine.yaml`"
)

_ADD_DATASETS = (
    "add `datasets: {mine: {table: table.tsv, metadata: metadata.tsv}}`, or let `aam init` write "
    "the configuration; a file that only changes keys follows the one that it changes: "
    "aam run mine.yaml changes.yaml"
)


def config_error(error: ValidationError, section: type[Section], prefix: str = "") -> InputError:
    """Turn a validation error of pydantic into one line per key, in the words of the configuration.

    Parameters
    ----------
    error
        What pydantic raised.
    section
        The class that was validated; its keys are those that an unknown key is compared with.
    prefix
        Where the section stands, `tasks.age.finetuning` for instance.

    Returns
    -------
    InputError
        The error, with the nearest known key as the hint.
    """
    lines = []
    for detail in error.errors():
        location = [str(part) for part in detail["loc"]]
        where = "configuration key " + (".".join([p for p in [prefix, *location] if p]) or "(root)")
        actual = _SHORT.repr(detail["input"])
        expected = detail["msg"]
        hint = "see config/README.md"
        if detail["type"] == "value_error":
            lines.append(InputError(f"{where}: {detail['ctx']['error']}. Hint: {hint}"))
            continue
        if detail["type"] == "extra_forbidden":
            holder = _section_at(section, location[:-1])
            actual, expected, hint = _unknown_key(location[-1], holder, detail["input"])
        elif detail["type"] == "missing":
            actual = "nothing"
            expected = "a value"
            hint = f"add it; {hint}"
            if location == ["datasets"] and not prefix:
                hint = _ADD_DATASETS
        elif detail["type"] == "model_type":
            keys = _section_at(section, location).model_fields
            expected = f"keys of a section: {', '.join(keys)}"
            hint = _as_section(location[-1], detail) or hint
        elif detail["type"] == "string_type" and not isinstance(detail["input"], list | dict):
            expected = "text"
            hint = (
                "write it in quotes, as the metadata have it: without them YAML reads a number, a "
                "date or a truth value"
            )
        elif detail["type"] == "dict_type" and len(location) == 1:
            expected = "names, each with a section of its own"
            hint = f"write {location[-1]}: {{name: {{…}}}}"
        elif detail["type"] == "dict_type":
            expected = f"keys of the section `{location[-1]}`"
        lines.append(problem(where, actual, expected.removeprefix("Input should be "), hint))
    return problems(lines)


def _unknown_key(key: str, section: type[Section], value: Any) -> tuple[str, str, str]:
    """Return what is wrong with a key that a section does not have, what it has, and a hint."""
    renamed = RENAMED.get(section.__name__, {}).get(key)
    if renamed is not None:
        hint = f"write {renamed}: {_SHORT.repr(value)}"
        return "the name that it had in an earlier version", f"`{renamed}`", hint
    removed = REMOVED.get(section.__name__, {}).get(key)
    if removed is not None:
        return "a key that earlier versions had", "no such key", removed
    keys = list(section.model_fields)
    near = difflib.get_close_matches(key, keys, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "remove it, or see config/README.md"
    return "an unknown key", f"one of {', '.join(keys)}", hint


def _as_section(key: str, detail: ErrorDetails) -> str | None:
    """Return how a value that stands in place of a section was probably meant."""
    inner = MEANT.get(detail["ctx"]["class_name"])
    value = detail["input"]
    if inner is None or isinstance(value, bool | list) or value is None:
        return None
    return f"write {key}: {{{inner}: {_SHORT.repr(value)}}}"


def read_configuration(path: Path) -> dict[str, Any]:
    """Read a file of the configuration, YAML or JSON, in which every key stands once.

    Parameters
    ----------
    path
        The file, whatever its ending.

    Returns
    -------
    dict
        What it says, not yet validated.

    Raises
    ------
    InputError
        The file is not there, is no text in UTF-8 or no YAML, has no keys, or has a key twice in a
        section, of which one would be lost, or a key that YAML does not read as text.
    """
    text = _read_text(path)
    keys: Any = _read_json(path, text)
    if keys is None:
        keys = _read_yaml(path, text)
    if "matrix_type" in keys:
        raise problem(path, "a BIOM table", CONFIGURATION, _IF_TABLE)
    return keys


def _read_text(path: Path) -> str:
    """Read a file of text; the commonest binary files of a study are named."""
    if path.is_dir():
        hint = f"name the file, for instance {path / 'config.yaml'}"
        raise problem(path, "a folder", CONFIGURATION, hint)
    if not path.exists():
        hint = "correct the path, or write a configuration with `aam init`"
        raise problem(path, "no such file", CONFIGURATION, hint)
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = "give yourself the right to read it"
        raise problem(path, first_line(error), CONFIGURATION, hint) from error
    for start, kind in BINARY.items():
        if content.startswith(start):
            raise problem(path, kind, CONFIGURATION, _IF_TABLE)
    # Windows' editors call it Unicode; without its mark every other byte of plain text is zero.
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:4]:
        raise problem(path, "text in UTF-16", "text in UTF-8", "save the file as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise problem(
            f"{path}, line {line}",
            f"the byte 0x{content[error.start]:02x}, which is not UTF-8",
            "text in UTF-8",
            "save the file as UTF-8; if it is a table, write its configuration with `aam init`",
        ) from error
    return text


def _read_json(path: Path, text: str) -> dict[str, Any] | None:
    """Read an object of JSON, in which tabs may stand, unlike in YAML; None: the text is none."""
    duplicates: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _ in pairs)
        duplicates.extend(key for key, count in counts.items() if count > 1)
        return dict(pairs)

    try:
        keys = json.loads(text, object_pairs_hook=unique)
    except ValueError:
        return None
    if duplicates:
        actual = f"duplicate keys: {first_names(duplicates)}"
        raise problem(path, actual, "every key once", "remove or rename one of them")
    return keys if isinstance(keys, dict) else None


def _read_yaml(path: Path, text: str) -> dict[str, Any]:
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise _without_keys(path, node)
        _check_nodes(path, node)
        keys: dict[str, Any] = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _yaml_problem(path, text, error) from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        hint = "remove control characters, and correct dates that no calendar has"
        raise problem(path, first_line(error), "YAML", hint) from error
    return keys


def _without_keys(path: Path, node: yaml.Node | None) -> InputError:
    """Return the error for a file that is YAML and no mapping."""
    if node is None:
        return problem(path, "an empty file, or comments alone", CONFIGURATION, _ADD_DATASETS)
    is_list = isinstance(node, yaml.SequenceNode)
    if not is_list and "\t" in str(node.value):
        return problem(path, "a table or other text", CONFIGURATION, _IF_TABLE)
    actual = "a list" if is_list else f"the text {_SHORT.repr(node.value)}"
    return problem(f"{path}, line {node.start_mark.line + 1}", actual, CONFIGURATION, _ADD_DATASETS)


def _yaml_problem(path: Path, text: str, error: yaml.MarkedYAMLError) -> InputError:
    """Return the error for what is no YAML, with its line."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return problem(path, "no YAML", "YAML", str(error.problem))
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    where = f"{path}, line {mark.line + 1}"
    if any("\t" in one.strip() for one in lines[:2]):
        return problem(path, "a table or other text", CONFIGURATION, _IF_TABLE)
    if "\t" in line[: mark.column + 1]:
        return problem(where, "a tab", "spaces", "replace every tab by spaces, two for each level")
    if line.startswith("---"):
        hint = "keep one, and name the other file behind it"
        return problem(where, "a second document behind `---`", "one document", hint)
    hint = "correct this line or the one above: brackets and quotes that are open, spaces in front"
    if isinstance(error, yaml.constructor.ConstructorError):
        hint = "write plain text, numbers, lists and sections"
    actual = f"{_SHORT.repr(line.strip())} ({error.problem})" if line else f"{error.problem}"
    return problem(where, actual, "YAML", hint)


def _check_nodes(path: Path, root: yaml.Node) -> None:
    """Check that no mapping has a key twice, all keys are text, and all numbers as they look."""
    waiting = [root]
    seen = set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            _check_number(path, node)
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        waiting += [value for _, value in node.value]
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        counts = Counter(key.value for key in scalars)
        duplicates = [key for key, count in counts.items() if count > 1]
        if duplicates:
            line = node.start_mark.line + 1
            raise problem(
                path,
                f"duplicate keys in the section from line {line} on: {first_names(duplicates)}",
                "every key once",
                "remove or rename one of them",
            )
        for key in scalars:
            kind = NO_TEXT.get(key.tag.rpartition(":")[2])
            if kind is not None:
                raise problem(
                    f"{path}, line {key.start_mark.line + 1}",
                    f"the key {key.value or 'nothing'}, which YAML reads as {kind}",
                    "text",
                    f'write it in quotes: "{key.value}"',
                )


def _check_number(path: Path, node: yaml.ScalarNode) -> None:
    """Refuse what YAML 1.1 reads as an octal or sexagesimal number: 010 is 8, and 1:30 is 90."""
    if node.tag.endswith((":int", ":float")) and _OTHER_BASE.match(node.value):
        raise problem(
            f"{path}, line {node.start_mark.line + 1}",
            f"the value {node.value}, which YAML reads as {yaml.safe_load(node.value)}",
            "a decimal number, or text",
            f'write it in quotes if it is text, "{node.value}", or as a decimal number',
        )


def _section_at(section: type[Section], path: list[str]) -> type[Section]:
    """Return the class of what stands at a path of keys below a section."""
    current: Any = section
    parts = iter(path)
    for part in parts:
        annotation = current.model_fields[part].annotation
        current = _section_in(annotation)
        if get_origin(annotation) is dict:
            next(parts, None)
    found: type[Section] = current
    return found


def _section_in(annotation: Any) -> Any:
    """Return the section class inside an annotation such as `dict[str, ModelSettings]`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)
