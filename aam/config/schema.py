"""The JSON schema of the configuration, and the table of its keys in config/README.md."""

import json
from collections.abc import Iterator
from typing import Any

from aam.config.configuration import Config
from aam.config.digest import PACKAGE_ROOT

REPOSITORY = PACKAGE_ROOT.parent
SCHEMA = REPOSITORY / "workflow" / "schemas" / "config.schema.json"
README = REPOSITORY / "config" / "README.md"
BEGIN, END = "<!-- keys: begin -->\n", "<!-- keys: end -->\n"
HEADER = "| key | type | default | meaning |\n|---|---|---|---|\n"


def schema() -> dict[str, Any]:
    """Return the JSON schema of the configuration, keys in the order of their declaration."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(),
    }


def schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(schema(), indent=2) + "\n"


def keys() -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield every key as a dotted path, its schema, and whether it must be given."""
    whole = schema()
    yield from _keys(whole, whole["$defs"], "")


def keys_table() -> str:
    """Return one row per key of the configuration, as a Markdown table."""
    rows = (
        f"| `{path}` | {_type(node)} | {_default(node, required)} "
        f"| {_cell(node.get('description', ''))} |\n"
        for path, node, required in keys()
    )
    return HEADER + "".join(rows)


def readme_with_keys(text: str) -> str:
    """Return the text of config/README.md with its table of keys made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + keys_table() + END + after


def _keys(
    node: dict[str, Any], definitions: dict[str, Any], prefix: str
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    required = node.get("required", [])
    for name, child in node.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, child, name in required
        inner = _definition(child, definitions)
        if inner is not None:
            yield from _keys(inner, definitions, f"{path}.")
        values = child.get("additionalProperties")
        if isinstance(values, dict) and "$ref" in values:
            yield from _keys(_referred(values, definitions), definitions, f"{path}.<name>.")


def _definition(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any] | None:
    """Return the section that a key holds itself, if it holds one."""
    options = [node, *node.get("anyOf", [])]
    found = next((option for option in options if "$ref" in option), None)
    return None if found is None else _referred(found, definitions)


def _referred(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    section: dict[str, Any] = definitions[node["$ref"].rpartition("/")[2]]
    return section


def _type(node: dict[str, Any]) -> str:
    if "anyOf" in node:
        return " or ".join(_type(option) for option in node["anyOf"])
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
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
    ]
    name = NAMES.get(node.get("type", "object"), "section")
    return name + (f" ({', '.join(bounds)})" if bounds else "")


BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
NAMES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}


def _default(node: dict[str, Any], required: bool) -> str:
    if required:
        return "must be given"
    default = node.get("default")
    if isinstance(default, dict):
        return "" if default else "`{}`"
    return f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def main() -> None:
    """Write the schema, and the table of keys in config/README.md."""
    SCHEMA.parent.mkdir(parents=True, exist_ok=True)
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    README.write_text(readme_with_keys(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
