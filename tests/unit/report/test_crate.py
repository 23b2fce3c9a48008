"""The crate of a run: what its profile requires, and that it says nothing untrue."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import aam
from aam.cli import main
from aam.config import slices
from aam.config.configuration import load
from aam.data.table import read_biom, write_biom
from aam.stages.import_metadata import import_metadata
from aam.stages.import_table import import_table
from aam.util.atomic import read_json, write_json, write_text
from aam.util.digests import file_digest, provenance
from aam.util.log import WORK_WORDS
from aam.util.records import write_digests

REPOSITORY = Path(__file__).resolve().parents[3]
LICENSE = "https://spdx.org/licenses/CC0-1.0"
TASK = {"dataset": "mine", "column": "age", "kind": "regression", "folds": {"k": 2}}
REFERRING = ("about", "conformsTo", "hasPart", "instrument", "mainEntity", "mentions", "object")
REFERRING += ("programmingLanguage", "result", "softwareRequirements")


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a study whose files are imported, with a page of results."""
    monkeypatch.chdir(tmp_path)
    table, metadata = tmp_path / "table.tsv", tmp_path / "metadata.tsv"
    table.write_text(f"#OTU ID\ta\tb\n{'ACGT' * 10}\t5\t6\n")
    metadata.write_text("sample-id\tage\na\t1\nb\t2\n")
    results = tmp_path / "results" / "mine"
    imported = {name: results / "inputs" / name for name in ("table.biom", "metadata.parquet")}
    import_table(
        table=table,
        table_out=imported["table.biom"],
        sequences_out=results / "inputs" / "sequences.fasta",
        dropped_out=results / "inputs" / "dropped.tsv",
        notes_out=results / "inputs" / "notes" / "table.tsv",
        provenance=provenance({}, {"table": table}),
    )
    import_metadata(
        table=imported["table.biom"],
        metadata=metadata,
        metadata_out=imported["metadata.parquet"],
        notes_out=results / "inputs" / "notes" / "metadata.tsv",
        provenance=provenance({}, {"table": imported["table.biom"], "metadata": metadata}),
    )
    (results / "report.html").write_text("<p>An answer.</p>")
    # An answer of the run, and one to a task that an earlier configuration had.
    scores = [results / "answers" / name / "first" / "scores.json" for name in ("age", "years")]
    for path in scores:
        write_text(path, "{}")
    write_digests([*imported.values(), results / "report.html", *scores])
    write_text(
        results / "logs" / "one.log", f"INFO: {WORK_WORDS % (1e9, 1e9 + 1, 1e9 + 2, 1, 9, 9)}\n"
    )
    write_text(
        results / "logs" / "b" / "c.log", f"{WORK_WORDS % (1e9 + 3, 1e9 + 4, 1e9 + 60, 1, 9, 9)}\n"
    )
    files = {"table": "table.tsv", "metadata": "metadata.tsv"}
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump({"datasets": {"mine": files}, "models": {}, "tasks": {"age": TASK}})
    )
    return tmp_path


def crate_of(study: Path, *further: str) -> dict[str, dict[str, Any]]:
    """Write the crate of a study and return its entities by ID."""
    main(["crate", "mine.yaml", *further, "--license", LICENSE])
    crate = read_json(study / "results" / "mine" / "ro-crate-metadata.json")
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(entities) == len(crate["@graph"]), "an ID names one entity"
    return entities


def references(entity: dict[str, Any]) -> list[str]:
    """Return the IDs that an entity refers to."""
    values = [entity[key] for key in REFERRING if key in entity]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [one["@id"] for several in lists for one in several]


def test_the_crate_has_what_its_profile_requires(study: Path) -> None:
    entities = crate_of(study)
    descriptor, root, run = (entities[name] for name in ("ro-crate-metadata.json", "./", "#run"))
    assert {"@id": "https://w3id.org/ro/crate/1.1"} in descriptor["conformsTo"]
    assert (descriptor["@type"], root["@type"]) == ("CreativeWork", "Dataset")
    assert {"name", "description", "datePublished", "license"} <= root.keys()
    profiles = ["process/0.5", "workflow/0.5"]
    for profile in (f"https://w3id.org/ro/wfrun/{name}" for name in profiles):
        assert {"@id": profile} in root["conformsTo"]
        assert entities[profile]["@type"] == "CreativeWork"
    workflow = entities[root["mainEntity"]["@id"]]
    assert workflow["@type"] == ["File", "SoftwareSourceCode", "ComputationalWorkflow"]
    assert entities[workflow["programmingLanguage"]["@id"]]["@type"] == "ComputerLanguage"
    assert run["@type"] == "CreateAction"
    assert run["instrument"] == root["mainEntity"]
    unknown = {one for entity in entities.values() for one in references(entity)} - entities.keys()
    assert unknown == {"https://w3id.org/ro/crate/1.1"}
    data = [one for one in entities.values() if {"File", "Dataset"} & set(as_list(one["@type"]))]
    parts = references({"hasPart": root["hasPart"]})
    assert {one["@id"] for one in data} - {"./"} == set(parts)
    folder = study / "results" / "mine"
    assert [part for part in parts if ":" not in part and not (folder / part).exists()] == []


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_files_times_and_versions_are_those_of_the_run(study: Path) -> None:
    entities = crate_of(study)
    run = entities["#run"]
    assert (run["startTime"], run["endTime"]) == (
        "2001-09-09T01:46:40+00:00",
        "2001-09-09T01:47:40+00:00",
    )
    objects = [entities[name] for name in references({"object": run["object"]})]
    given = {entity["name"]: entity["sha256"] for entity in objects}
    paths = {name: study / name for name in ("table.tsv", "metadata.tsv", "mine.yaml")}
    copies = {"mine.yaml": "crate/1-mine.yaml"}
    assert given == {copies.get(name, name): file_digest(path) for name, path in paths.items()}
    made = {name: entities[name]["sha256"] for name in references({"result": run["result"]})}
    results = study / "results" / "mine"
    # Not the answer to a task that an earlier configuration had.
    names = (
        "answers/age/first/scores.json",
        "inputs/metadata.parquet",
        "inputs/table.biom",
        "report.html",
    )
    assert made == {name: file_digest(results / name) for name in names}
    programs = {
        one["name"]: one.get("softwareVersion") for one in entities.values() if "name" in one
    }
    assert programs["AAM"] == aam.__version__
    assert {"Python", "snakemake", "scikit-learn"} <= programs.keys()
    assert str(study) not in (results / "ro-crate-metadata.json").read_text()


def test_the_workflow_goes_with_the_crate_and_the_same_run_gives_the_same_bytes(
    study: Path,
) -> None:
    (study / "more.yaml").write_text("runtime: {threads: 1}\n")
    entities = crate_of(study, "more.yaml")
    assert {"crate/1-mine.yaml", "crate/2-more.yaml"} <= entities.keys()
    copy = study / "results" / "mine" / "crate" / "workflow"
    assert (copy / "Snakefile").read_bytes() == (REPOSITORY / "workflow/Snakefile").read_bytes()
    assert (copy / "rules" / "common.smk").is_file()
    assert crate_of(study, "more.yaml") == entities


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("results/mine/report.html", "content that its stage did not write"),
        ("metadata.tsv", "another content than that which the results were made from"),
        ("table.tsv", "another content than that which the results were made from"),
    ],
)
def test_a_file_that_is_not_that_of_the_run_is_refused(study: Path, path: str, words: str) -> None:
    with (study / path).open("a") as handle:
        handle.write("\n")
    with pytest.raises(SystemExit, match=words):
        crate_of(study)
    assert not (study / "results" / "mine" / "ro-crate-metadata.json").exists()


def test_a_configuration_that_was_edited_since_is_refused(study: Path) -> None:
    results = study / "results" / "mine"
    scores = results / "answers" / "age" / "first" / "scores.json"
    rarefied = results / "rarefied" / "view0.biom"
    edited = study / "more.yaml"
    edited.write_text("rarefaction: {depth: 1}\n")
    raw = yaml.safe_load((study / "mine.yaml").read_text()) | {"rarefaction": {"depth": 1}}
    settings = {name: one.plain() for name, one in slices.recorded(load(raw), "mine").items()}
    assert settings.keys() == {"rarefied/view0.biom", "answers/age/first/scores.json"}
    made = [provenance(one, {}) for one in settings.values()]
    rarefied.parent.mkdir()
    write_biom(rarefied, read_biom(results / "inputs" / "table.biom"), made[0])
    write_json(scores, {"provenance": made[1]})
    write_digests([scores, rarefied])
    assert "rarefied/view0.biom" in crate_of(study, "more.yaml")
    edited.write_text("rarefaction: {depth: 5}\n")
    with pytest.raises(SystemExit, match=r"view0\.biom: got other settings than those"):
        crate_of(study, "more.yaml")
    edited.write_text("rarefaction: {depth: 1}\ntasks: {age: {bounds: [0, 9]}}\n")
    with pytest.raises(SystemExit, match=r"scores\.json: got other settings than those"):
        crate_of(study, "more.yaml")


def test_a_run_that_has_not_ended_is_refused(study: Path) -> None:
    (study / "results" / "mine" / "report.html").unlink()
    with pytest.raises(SystemExit, match="no page of results"):
        crate_of(study)


def test_a_configuration_that_is_not_there_is_refused(study: Path) -> None:
    with pytest.raises(SystemExit, match=r"nowhere\.yaml: got no such file"):
        crate_of(study, "nowhere.yaml")
