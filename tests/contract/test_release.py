"""What a release names more than once is the same everywhere: versions, licence, dependencies."""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment, StrictUndefined

import aam

REPOSITORY = Path(__file__).resolve().parents[2]
CONDA_NAMES = {
    "edlib": "python-edlib",
    "lightning-fabric": "pytorch-lightning",
    "matplotlib": "matplotlib-base",
    "snakemake": "snakemake-minimal",
    "torch": "pytorch",
}
"""What conda-forge and Bioconda call a package of PyPI, where they call it otherwise."""
PROGRAMS = {"fasttree", "mafft", "unifrac-binaries"}


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


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads(read("pyproject.toml"))["project"]


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    template = Environment(undefined=StrictUndefined).from_string(read("conda-recipe/meta.yaml"))
    text = template.render(PYTHON="python", pin_subpackage=lambda name, max_pin: name)
    return yaml.safe_load(text)


def requirements(lines: list[str]) -> dict[str, str]:
    """Return versions by package: of `numpy>=2.0` or `numpy >=2.0`, `>=2.0`."""
    pairs = (re.fullmatch(r"([\w-]+) *(.*)", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair is not None}


def test_the_recipe_is_that_of_this_release(recipe: dict[str, Any]) -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    package = recipe["package"]
    assert (package["name"], package["version"]) == ("aam", aam.__version__)
    assert recipe["source"]["url"].endswith(f"/aam-{aam.__version__}.tar.gz")
    assert re.fullmatch("[0-9a-f]{64}", recipe["source"]["sha256"])
    assert recipe["about"]["license"] == citation["license"]
    assert (REPOSITORY / recipe["about"]["license_file"]).is_file()


def test_the_recipe_has_the_parts_that_bioconda_asks_for(recipe: dict[str, Any]) -> None:
    parts = {"package", "source", "build", "requirements", "test", "about"}
    assert recipe.keys() == parts
    assert {"number", "noarch", "entry_points", "script", "run_exports"} <= recipe["build"].keys()
    assert recipe["build"]["noarch"] == "python"
    assert {"home", "license", "license_file", "summary"} <= recipe["about"].keys()
    assert "aam --version" in recipe["test"]["commands"]


def test_the_recipe_has_the_dependencies_of_the_package(
    recipe: dict[str, Any], project: dict[str, Any]
) -> None:
    run = requirements(recipe["requirements"]["run"])
    programs = {name: run.pop(name) for name in PROGRAMS}
    assert run.pop("python") == project["requires-python"]
    required = requirements(project["dependencies"])
    assert run == {CONDA_NAMES.get(name, name): limit for name, limit in required.items()}
    optional = requirements(project["optional-dependencies"]["slurm"])
    assert requirements(recipe["requirements"]["run_constrained"]) == optional
    environment = yaml.safe_load(read("environment.yml"))["dependencies"]
    texts = requirements([line for line in environment if isinstance(line, str)])
    assert programs == {name: texts[name] for name in PROGRAMS}


def test_the_recipe_builds_and_starts_the_package_as_pip_does(
    recipe: dict[str, Any], project: dict[str, Any]
) -> None:
    scripts = [f"{name} = {function}" for name, function in project["scripts"].items()]
    assert recipe["build"]["entry_points"] == scripts
    (backend,) = tomllib.loads(read("pyproject.toml"))["build-system"]["requires"]
    host = requirements(recipe["requirements"]["host"])
    assert host == {"python": project["requires-python"], "pip": "", **requirements([backend])}


PLUGIN = REPOSITORY / "q2_aam" / "q2_aam"


def test_the_plugin_is_of_this_release() -> None:
    """It refuses to call a command of another one."""
    text = (PLUGIN / "__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{aam.__version__}"' in text
    assert f"Version {aam.__version__}}}" in (PLUGIN / "citations.bib").read_text(encoding="utf-8")


def test_the_plugin_reads_on_the_python_of_qiime_and_imports_nothing_of_aam() -> None:
    """QIIME 2 2022.11 has Python 3.8, and none of the packages that AAM needs."""
    there = {"biom", "numpy", "pandas", "qiime2", "skbio", "yaml", "q2_aam"}
    there |= {"q2_types", "q2_sample_classifier"}
    for path in sorted(PLUGIN.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        names = [
            one.name if isinstance(node, ast.Import) else node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for one in node.names
        ]
        roots = {name.partition(".")[0] for name in names}
        assert roots <= there | sys.stdlib_module_names, path
