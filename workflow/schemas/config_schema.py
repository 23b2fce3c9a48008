"""The JSON schema of the configuration, and the generated list of its keys in the documents."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from aam.config.configuration import Config
from aam.config.digest import PACKAGE_ROOT

REPOSITORY = PACKAGE_ROOT.parent
SCHEMA = REPOSITORY / "workflow" / "schemas" / "config.schema.json"
REFERENCE = REPOSITORY / "docs" / "reference" / "configuration.md"
BEGIN = "<!-- keys: begin -->\n"
END = "<!-- keys: end -->\n"
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}
SMALL = 100
"""Larger upper bounds only catch typing errors; the list of keys leaves them out."""

Node = dict[str, Any]


class _WithoutTitles(GenerateJsonSchema):
    """A title would only repeat the name of its key."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema() -> Node:
    """Return the JSON schema of the configuration, keys in the order of their declaration."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(schema_generator=_WithoutTitles),
    }


def schema_text() -> str:
    """Return the schema as the text of its file, a line per key of the configuration."""

    def text(node: Any, levels: int, indent: str = "") -> str:
        if levels == 0 or not isinstance(node, dict):
            return json.dumps(node)
        deeper = indent + "  "
        rows = [f'{deeper}"{key}": {text(node[key], levels - 1, deeper)}' for key in node]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"

    return text(schema(), levels=4) + "\n"


def keys() -> Iterator[tuple[str, Node, bool]]:
    """Yield every key as a dotted path, its schema, and whether it must be given."""
    whole = schema()
    yield from _keys(whole, whole["$defs"], "")


def keys_list() -> str:
    """Return the keys of the configuration as Markdown: a list for each section."""
    lines = ["\n"]
    heading = ""
    for path, node, required in keys():
        meaning = node.get("description", "").replace("\n", " ")
        # A section without a meaning of its own is only the name in front of its keys.
        if not meaning:
            continue
        section, _, key = path.replace(".<name>.", ".").partition(".")
        holds_sections = isinstance(node.get("additionalProperties"), dict)
        if section != heading and (key or holds_sections):
            heading = section
            lines.append(f"\n## {heading}\n\n")
        if key or not holds_sections:
            lines.append(f"- **`{key or section}`**: {_values(node, required)}. {meaning}\n")
        else:
            lines.append(f"{meaning}\n\n")
    return "".join(lines) + "\n"


def page_with_keys(text: str) -> str:
    """Return the text of docs/reference/configuration.md with a new list of keys."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + keys_list() + END + rest.partition(END)[2]


def _keys(node: Node, definitions: Node, prefix: str) -> Iterator[tuple[str, Node, bool]]:
    for name, child in node.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, child, name in node.get("required", [])
        by_name = child.get("additionalProperties")
        named = [by_name] if isinstance(by_name, dict) else []
        for holder, below in (
            *((option, f"{path}.") for option in (child, *child.get("anyOf", []))),
            *((option, f"{path}.<name>.") for option in named),
        ):
            if "$ref" in holder:
                yield from _keys(definitions[holder["$ref"].rpartition("/")[2]], definitions, below)


def _values(node: Node, required: bool) -> str:
    """Return the type of a key with its default, or whether it must be given."""
    default = node.get("default")
    kind = _type(node)
    if required:
        return f"{kind}, required"
    if kind.startswith("section"):
        return "section"
    if default in (None, [], {}):
        # That null is allowed follows from the default.
        return f"{kind.removesuffix(' or null')}, optional"
    return f"{kind}, default `{default if isinstance(default, str) else json.dumps(default)}`"


def _type(node: Node) -> str:
    if "anyOf" in node:
        return " or ".join(_type(option) for option in node["anyOf"])
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "const" in node:
        constant = node["const"]
        return f"`{constant if isinstance(constant, str) else json.dumps(constant)}`"
    if "prefixItems" in node:
        return f"[{', '.join(_type(item) for item in node['prefixItems'])}]"
    if node.get("type") == "array":
        return f"list of {_type(node['items'])}"
    values = node.get("additionalProperties")
    if isinstance(values, dict):
        return f"{_type(values)} by name"
    bounds = [
        f"{sign} {node[key]:g}"
        for key, sign in BOUNDS.items()
        if isinstance(node.get(key), int | float)
        and not (key in ("maximum", "exclusiveMaximum") and node[key] >= SMALL)
    ]
    name = TYPES.get(node.get("type", "object"), "section")
    return f"{name} {', '.join(bounds)}" if bounds else name


def main() -> None:
    """Write the schema, and the list of keys in docs/reference/configuration.md."""
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    REFERENCE.write_text(page_with_keys(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
