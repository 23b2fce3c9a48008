"""The schema file and the list of keys follow the sections; our own configurations are valid."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from aam.config.configuration import load
from aam.config.losses import LOSSES
from workflow.schemas import config_schema as schema

CONFIGS = [
    path
    for folder in ("config", "benchmarks/config")
    for path in sorted((schema.REPOSITORY / folder).glob("*.yaml"))
]
WHOLE = schema.schema()


def test_generated_files_are_in_step() -> None:
    hint = "run: python -m workflow.schemas.config_schema"
    assert schema.SCHEMA.read_text(encoding="utf-8") == schema.schema_text(), hint
    text = schema.REFERENCE.read_text(encoding="utf-8")
    assert text == schema.page_with_keys(text), hint


def test_every_key_is_explained() -> None:
    unexplained = [
        path
        for path, node, _ in schema.keys()
        if not node.get("description") and "$ref" not in node
    ]
    assert unexplained == []


def test_the_page_of_tasks_names_the_losses_of_each_kind() -> None:
    page = schema.REPOSITORY / "docs" / "how-to" / "tasks.md"
    text = page.read_text(encoding="utf-8")
    for kind, losses in LOSSES.items():
        row = re.search(rf"^\| `{kind}` \| [^|]* \| (?P<losses>[^|]*) \|$", text, re.MULTILINE)
        assert row is not None, kind
        # The ordered thresholds are the default of their kind, and no value of the key.
        may_be_named = [loss for loss in losses if loss != "ordinal"]
        assert re.findall(r"`(\w+)`", row["losses"]) == may_be_named


class Yaml12(yaml.SafeLoader):
    """Reads 1e-3 as a number, as editors do and PyYAML does not."""


Yaml12.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_configurations_that_we_ship_are_valid(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    # A file without data says what it is laid over.
    under = re.search(r"--configfile (config/\w+\.yaml) ", text)
    base = {} if under is None else yaml.load((schema.REPOSITORY / under[1]).read_text(), Yaml12)
    load(base | yaml.safe_load(text))
    jsonschema.validate(base | yaml.load(text, Yaml12), WHOLE)
