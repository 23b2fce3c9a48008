"""The package, the changelog, the citation and the README name the same version."""

import re
from pathlib import Path

import yaml

import aam

REPOSITORY = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    version, date = re.findall(r"^## \[([\d.]+)\] - (\S+)$", read("CHANGELOG.md"), re.MULTILINE)[0]
    citation = yaml.safe_load(read("CITATION.cff"))
    assert version == aam.__version__ == citation["version"]
    assert str(citation["date-released"]) == date
    assert f"Version {version}:" in read("README.md")


def test_the_citation_has_what_its_format_requires() -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    assert {"authors", "cff-version", "message", "title"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0"
    assert all(author.get("name") for author in citation["authors"])
