"""Configurations that name what is not there, and results of an earlier configuration."""

from pathlib import Path
from typing import Any

import yaml
from checkouts import merged
from gallery.case import Case, Outcome, Ran, Step, Twist, either, refused
from gallery.study import Study

CHECK = ("check", "FILES", "--cores", "1")
RUN = ("run", "FILES", "--cores", "1", "--", "first")


def healthy(study: Study, folder: Path) -> None:
    """Change nothing."""


def changed(**settings: Any) -> Twist:
    """Return the twist that lays further settings over the configuration."""

    def twist(study: Study, folder: Path) -> None:
        path = folder / "cheap.yaml"
        laid_over = merged(yaml.safe_load(path.read_text()), settings)
        path.write_text(yaml.safe_dump(laid_over))

    return twist


def dataset(**files: str) -> dict[str, Any]:
    """Return the settings that give the dataset other files."""
    return {"datasets": {"mine": files}}


def gone(name: str) -> Twist:
    """Return the twist that deletes a file."""

    def twist(study: Study, folder: Path) -> None:
        (folder / name).unlink()

    return twist


def rename_the_task(study: Study, folder: Path) -> None:
    """Call the task otherwise, with other labels, so that its verdict is another one."""
    for name in ("mine.yaml", "cheap.yaml"):
        path = folder / name
        content = yaml.safe_load(path.read_text())
        content["tasks"]["diagnosis"] = content["tasks"].pop("group")
        path.write_text(yaml.safe_dump(content))


def with_covariates(study: Study, folder: Path) -> None:
    """Add what was asked of some people beside their reads, with gaps and a rare answer."""
    samples = len(study.rows)
    study.columns["sex"] = ["fm"[i // 2 % 2] for i in range(samples)]
    study.columns["sex"][3] = ""
    study.columns["sex"][4] = "not asked"
    study.columns["crp"] = [f"{0.1 + i * 7 % 11:.1f}" for i in range(samples)]
    study.columns["crp"][5] = ""


def in_hospitals(study: Study, folder: Path) -> None:
    """Add the hospital of each sample; in one of six all have the same label."""
    group = study.columns["group"]
    study.columns["hospital"] = [f"h{i // 2 % 5}" for i in range(len(study.rows))]
    for row, label in enumerate(group):
        if row % 20 == 0 and label == group[0]:
            study.columns["hospital"][row] = "alone"


def words_among_ages(study: Study, folder: Path) -> None:
    study.columns["age"][:2] = ["old", "very old"]


def only_the_new_task(ran: Ran) -> None:
    closing = ran.said["step 0"].rpartition("[")[2]
    assert "diagnosis" in closing
    assert "mine, group" not in closing
    assert "2 tests" not in closing
    assert "2 tasks" not in closing


def missing(name: str, *facts: str, **settings: Any) -> Case:
    """Return the case of a configuration that names a file which is not there."""
    return Case(
        name=name,
        report="snakemake#2160",
        twist=healthy,
        settings=settings,
        may_be_late=True,
        reading=refused(*facts, never=("MissingInputException",)),
    )


def after_a_run(name: str, report: str, *facts: str, twist: Twist) -> Case:
    """Return the case of a configuration that names no such file any more, after a good run."""
    outcome = refused(*facts, never=("everything is there", "works:", "MissingInputException"))
    return Case(
        name=name,
        report=report,
        twist=healthy,
        runs=True,
        steps=(Step(RUN, outcome, twist), Step(CHECK, outcome)),
    )


def late(name: str, *facts: str, **task: Any) -> Case:
    """Return the case of a task whose column is not there: `check` says so, before any run."""
    return Case(
        name=name,
        report="issue 54",
        twist=healthy,
        settings={"tasks": {"group": task}},
        may_be_late=True,
        reading=refused(*facts, "group"),
    )


def after(name: str, *steps: Step) -> Case:
    """Return the case of commands behind `init` and `check` of a healthy study."""
    return Case(name=name, report="issue 54", twist=healthy, steps=steps)


def written(text: str) -> Twist:
    """Return the twist that writes the second configuration by hand."""

    def twist(study: Study, folder: Path) -> None:
        (folder / "cheap.yaml").write_text(text)

    return twist


UNREADABLE = refused(r"cheap\.yaml", never=("WorkflowError",))
NEW = {"table": "new.tsv", "tasks": ["group"]}
CASES = (
    missing("no such table", r"other\.tsv", **dataset(table="other.tsv")),
    missing("no such metadata", r"other\.tsv", **dataset(metadata="other.tsv")),
    missing("no such tree", r"other\.nwk", **dataset(tree="other.nwk")),
    missing("no such taxonomy", r"other\.tsv", **dataset(taxonomy="other.tsv")),
    missing("no such folder", "elsewhere", data_dir="elsewhere"),
    missing("no such table to predict", r"new\.tsv", predictions={"new": NEW}),
    after_a_run(
        "no such table after a run",
        "snakemake#3280",
        r"other\.tsv",
        twist=changed(**dataset(table="other.tsv")),
    ),
    after_a_run(
        "no such metadata after a run",
        "snakemake#3953",
        r"other\.tsv",
        twist=changed(**dataset(metadata="other.tsv")),
    ),
    after_a_run(
        "no such folder after a run",
        "snakemake#2160",
        "elsewhere",
        twist=changed(data_dir="elsewhere"),
    ),
    after_a_run(
        "no such table to predict after a run",
        "snakemake#2160",
        r"new\.tsv",
        twist=changed(predictions={"new": NEW}),
    ),
    after_a_run(
        "a table deleted after a run", "snakemake#3280", r"table\.tsv", twist=gone("table.tsv")
    ),
    Case(
        name="a task renamed after a run",
        report="issue 54",
        twist=healthy,
        runs=True,
        steps=(Step(RUN, Outcome(passes=("diagnosis",)), rename_the_task),),
        then=only_the_new_task,
    ),
    Case(
        name="a profile that is not there",
        report="issue 54",
        twist=healthy,
        runs=True,
        steps=(
            Step(
                ("run", "FILES", "--workflow-profile", "profiles/slrum", "--", "first"),
                refused("slrum", never=("cores have to be specified",)),
            ),
        ),
    ),
    Case(
        name="results touched after a change",
        report="issue 54",
        twist=healthy,
        runs=True,
        steps=(
            Step(
                ("run", "FILES", "--cores", "1", "--touch", "--", "first"),
                either(passes=("touch",), refused=("touch",), never=("works:",)),
                changed(rarefaction={"depth": 300}),
            ),
        ),
    ),
    late("a column to report by that is not there", "clinic", report_by=["clinic"]),
    late("a category for networks that is not there", "clinic", condition=["clinic"]),
    late("a covariate that is not there", "clinic", covariates=["clinic"]),
    Case(
        name="age, sex and a marker of the blood beside the reads",
        report="siamcat#46",
        twist=with_covariates,
        settings={"tasks": {"group": {"covariates": ["age", "sex", "crp"]}}},
        runs=True,
        first=Outcome(
            passes=(
                r"age, sex and crp alone: [3-6]\d\.\d %",
                "the reads alone: [89]|100",
                r"the reads add \d\d\.\d points \(95 % interval \d",
            )
        ),
    ),
    Case(
        name="a number beside the reads that says nothing of another number",
        report="microeco#456",
        twist=with_covariates,
        columns="age",
        settings={"tasks": {"age": {"covariates": ["crp"]}}},
        runs=True,
        first=Outcome(passes=("crp alone: off by", r"the reads take \d.* off the error")),
    ),
    Case(
        name="words among the numbers of a covariate",
        report="siamcat#16",
        twist=words_among_ages,
        settings={"tasks": {"group": {"covariates": ["age"]}}},
        may_be_late=True,
        reading=refused("covariate 'age'", "'old'", "categorical"),
    ),
    Case(
        name="samples of six hospitals, one of which has cases alone",
        report="ConQuR#5",
        twist=in_hospitals,
        settings={"tasks": {"group": {"studies": "hospital"}}},
        runs=True,
        first=Outcome(
            passes=(
                r"within the 5 studies \(values of hospital\): right in",
                r"in a study never seen: (\d\d\.\d|100\.0) % \(95 % interval",
                "one study has samples of one class alone",
            )
        ),
    ),
    Case(
        name="a hospital that is kept for the test",
        report="ConQuR#5",
        twist=in_hospitals,
        settings={"tasks": {"group": {"folds": {"test": {"hospital": "h1"}}}}},
        runs=True,
        first=Outcome(passes=(r"8 held-out.*\(95 % interval", "hospital h1 had been set aside")),
    ),
    late("a column of studies that is not there", "clinic", studies="clinic"),
    late("a test set in a column that is not there", "clinic", folds={"test": {"clinic": "x"}}),
    late("a column of folds that is not there", "clinic", folds={"groups": "clinic"}),
    after(
        "a target that is misspelt",
        Step(
            ("run", "FILES", "--cores", "1", "--", "frist"),
            refused("frist", r"\bfirst\b", never=("MissingRuleException",)),
        ),
    ),
    after(
        "an empty configuration",
        Step(CHECK, either(refused=(r"cheap\.yaml",), never=("WorkflowError",)), written("")),
    ),
    after("a configuration that is a list", Step(CHECK, UNREADABLE, written("- tasks\n"))),
    after("tabs in a configuration", Step(CHECK, UNREADABLE, written("tasks:\n\tgroup: {}\n"))),
    after("a bracket that is not closed", Step(CHECK, UNREADABLE, written("tasks: {group: {\n"))),
    Case(
        name="a key that is misspelt",
        report="issue 54",
        twist=healthy,
        settings={"rarefaction": {"deph": 100}},
        may_be_late=True,
        reading=refused(r"rarefaction\.deph", "depth"),
    ),
    Case(
        name="a task of a dataset that is not there",
        report="issue 54",
        twist=healthy,
        settings={"tasks": {"group": {"dataset": "theirs"}}},
        may_be_late=True,
        reading=refused("theirs", "mine"),
    ),
)
