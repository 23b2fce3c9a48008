"""Errors of the configuration in the words of its keys."""

import difflib
import reprlib
from collections import Counter
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from aam.config.sections.base import Section
from aam.util.errors import InputError, first_names, problem, problems

_SHORT = reprlib.Repr()
_SHORT.maxstring = 200
_SHORT.maxother = 200

MEANT = {
    "Dataset": "table",
    "Finetuning": "encoder",
    "Folds": "k",
    "ModelSettings": "start",
    "Pretraining": "epochs",
    "Rarefaction": "depth",
}
"""The key of a section that a value in its place is probably one of, by the section's class."""


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
            keys = _known_keys(section, location[:-1])
            near = difflib.get_close_matches(location[-1], keys, n=1)
            actual = "an unknown key"
            expected = f"one of {', '.join(keys)}"
            hint = f"did you mean '{near[0]}'?" if near else f"remove it, or {hint}"
        elif detail["type"] == "missing":
            actual = "nothing"
            expected = "a value"
            hint = f"add it; {hint}"
        elif detail["type"] == "model_type":
            expected = f"keys of a section: {', '.join(_known_keys(section, location))}"
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


def _as_section(key: str, detail: ErrorDetails) -> str | None:
    """Return how a value that stands in place of a section was probably meant."""
    inner = MEANT.get(detail["ctx"]["class_name"])
    value = detail["input"]
    if inner is None or isinstance(value, bool | list) or value is None:
        return None
    return f"write {key}: {{{inner}: {_SHORT.repr(value)}}}"


def refuse_duplicate_keys(path: Path) -> None:
    """Check that no mapping of a YAML file has a key twice, since one of the two would be lost.

    Parameters
    ----------
    path
        The file of the configuration.

    Raises
    ------
    InputError
        A key occurs twice in a section.
    """
    waiting = [yaml.compose(path.read_text(encoding="utf-8"))]
    seen = set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        waiting += [value for _, value in node.value]
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        duplicates = [key for key, count in keys.items() if count > 1]
        if duplicates:
            line = node.start_mark.line + 1
            raise problem(
                path,
                f"duplicate keys in the section from line {line} on: {first_names(duplicates)}",
                "every key once",
                "remove or rename one of them",
            )


def _known_keys(section: type[Section], path: list[str]) -> list[str]:
    current: Any = section
    parts = iter(path)
    for part in parts:
        annotation = current.model_fields[part].annotation
        current = _section_in(annotation)
        if get_origin(annotation) is dict:
            next(parts, None)
    return list(current.model_fields)


def _section_in(annotation: Any) -> Any:
    """Return the section class inside an annotation such as `dict[str, ModelSettings]`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)
