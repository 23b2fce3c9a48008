"""What `aam init`, `check` and `run` did wrong with sixteen public studies: a small one for each.

The studies are those of issue 56, whose first table has a row for each mistake.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from gallery.study import Study, healthy

from aam.cli import main
from aam.config.configuration import Config, load
from aam.data.predictions import mean_recall, read_predictions
from aam.evaluate.task_report import TaskReport

SAMPLES = 40
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Console:
    """The commands, and what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def init(self, study: Study, *, columns: str | None = None) -> tuple[Config, str]:
        """Return the configuration that `aam init` writes for a study, and what it prints."""
        study.write(Path())
        options = [] if columns is None else ["--columns", columns]
        for name in ("sequences", "tree"):
            options += [f"--{name}", study.files[name]]
        Path("mine.yaml").unlink(missing_ok=True)
        self.said("init", "table.tsv", "metadata.tsv", *options, "--output", "mine.yaml")
        text = Path("mine.yaml").read_text(encoding="utf-8")
        return load(yaml.safe_load(text)), text

    def check(self, **changes: Any) -> str:
        """Return what `aam check` prints of the configuration, with sections changed."""
        raw = yaml.safe_load(Path("mine.yaml").read_text(encoding="utf-8"))
        Path("changed.yaml").write_text(
            yaml.safe_dump({**raw, **changes}, sort_keys=False), encoding="utf-8"
        )
        return self.said("check", "changed.yaml")

    def said(self, *command: str) -> str:
        """Return what a command prints, in one line."""
        self.capsys.readouterr()
        main([*command])
        return " ".join(self.capsys.readouterr().out.split())


@pytest.fixture
def aam(capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(capsys)


def with_columns(columns: Mapping[str, Sequence[str]], samples: int = SAMPLES) -> Study:
    """Return the healthy study with further columns."""
    study = healthy(samples)
    study.columns |= {name: list(values) for name, values in columns.items()}
    return study


def with_reads(study: Study, row: int, reads: int) -> None:
    """Give a sample few reads, all of one ASV."""
    for counts in study.counts:
        counts[row] = 0
    study.counts[0][row] = reads


def in_a_process(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "aam", *command],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )


def groups_of(config: Config) -> set[Any]:
    return {task.folds.groups for task in config.tasks.values()}


def test_wells_are_no_groups_where_people_are_known(aam: Console) -> None:
    study = with_columns(
        {
            "WELL_ID": [f"{'ABCDEFGH'[i % 8]}{i // 8 % 4}" for i in range(SAMPLES)],
            "HOST_SUBJECT_ID": [f"person{i // 5}" for i in range(SAMPLES)],
            "TUBE_ID": [f"t{i // 2}" for i in range(SAMPLES)],
        }
    )
    config, text = aam.init(study, columns="age")
    assert groups_of(config) == {"HOST_SUBJECT_ID"}
    assert "could name groups" not in text
    said = aam.check()
    assert "Samples of one `HOST_SUBJECT_ID` should stay together (`groups`): there are 8" in said
    assert "`WELL_ID`" not in said


def test_nested_units_are_told_and_the_coarsest_is_proposed(aam: Console) -> None:
    study = with_columns(
        {
            "patient": [f"p{i // 2}" for i in range(SAMPLES)],
            "household": [f"home{i // 4}" for i in range(SAMPLES)],
        }
    )
    config, text = aam.init(study, columns="age")
    assert groups_of(config) == {"household"}
    for said in (text, aam.check()):
        assert "one `patient`, which lies within one `household`" in said
        assert "could name groups: patient (20)" in said


def test_a_diagnosis_called_subject_is_a_target(aam: Console) -> None:
    study = healthy()
    del study.columns["group"]
    study.columns["Subject"] = ["Patient" if i % 2 else "Control" for i in range(SAMPLES)]
    study.columns["MBases_l"] = [str(100 + i) for i in range(SAMPLES)]
    config, text = aam.init(study)
    assert [task.column for task in config.tasks.values()] == ["Subject", "age"]
    assert groups_of(config) == {None}
    assert "MBases_l:" not in text.partition("tasks:")[2]
    assert "Samples of one `Subject`" not in aam.check()


def test_what_machines_write_down_is_no_task_and_few_numbers_are_numbers(aam: Console) -> None:
    study = healthy()
    study.columns = {
        "robot": ["rob1", "rob2"] * (SAMPLES // 2),
        "tm50_8_tool": ["108379Z", "311318B"] * (SAMPLES // 2),
        "plate_position": ["1", "2", "3", "4"] * (SAMPLES // 4),
        "run_bases": [str(9000 + 7 * i) for i in range(SAMPLES)],
        "pH": [f"{4 + (i % 10) / 4}" for i in range(SAMPLES)],
    }
    config, text = aam.init(study)
    assert [(task.column, task.kind) for task in config.tasks.values()] == [("pH", "regression")]
    assert text.partition("tasks:")[2].count("column:") == 1


def test_depths_are_those_of_labelled_samples_and_have_a_floor(aam: Console) -> None:
    study = healthy(60)
    for row in range(40, 60):
        study.columns["group"][row] = ""
        with_reads(study, row, reads=7 + row)
    for row in range(50, 60):
        study.samples[row] = f"BLANK.{row}"
    study.rows = list(study.samples)
    config, text = aam.init(study, columns="group")
    assert config.rarefaction.depth == 2600
    assert "Of 40 labelled samples, a depth of 1300 loses 0, a depth of 2600 loses 0" in text
    assert "10 samples are blanks by their names" in text
    said = aam.check()
    assert "Of 40 labelled samples, a depth of 1300 loses 0, a depth of 2600 loses 0" in said
    # Of twenty of sixty samples with few reads none is labelled.
    assert "have too few reads" not in said
    low = aam.check(rarefaction={"depth": 40})
    assert "40 reads are few" in low
    assert "500 would lose 0 samples" in low


def test_labelled_samples_that_rarefaction_loses_are_a_caution(aam: Console) -> None:
    study = healthy()
    for row in range(6):
        with_reads(study, row, reads=30)
    aam.init(study, columns="group")
    said = aam.check(rarefaction={"depth": 2000})
    assert re.search("6 of the 40 samples with a value of 'group', 15 %, have too few reads", said)
    assert "have too few reads" not in aam.check(rarefaction={"depth": 30})


def test_no_depth_below_the_floor_is_proposed_without_a_word(aam: Console) -> None:
    study = healthy()
    for row in range(20):
        with_reads(study, row, reads=31)
    config, text = aam.init(study, columns="group")
    assert config.rarefaction.depth == 31
    for said in (text, aam.check()):
        assert "31 reads are few" in said
        assert "500 would lose 20 samples" in said
    # One shallow sample in ten is given up for five hundred reads.
    study = healthy()
    for row in range(4):
        with_reads(study, row, reads=31)
    for name in study.files.values():
        Path(name).unlink()
    assert aam.init(study, columns="group")[0].rarefaction.depth == 500


def long_branched(study: Study) -> str:
    """Return the tree of a study in which one ASV has half of the length."""
    return re.sub(r"ASV30:[\d.]+", "ASV30:2.9", study.newick())


@pytest.mark.workflow
def test_files_closing_lines_and_page_say_the_same(folder: Path, aam: Console) -> None:
    """A page of one study: what leads, how many tests there are, long branches, whose it is."""
    study = healthy()
    (folder / "tree.nwk").write_text(long_branched(study))
    config, _ = aam.init(study, columns="group,age")
    cheap = {"folds": {"k": 3}, "baselines": ["kernel_clr", "knn_unifrac"]}
    raw = yaml.safe_load(Path("mine.yaml").read_text(encoding="utf-8"))
    for task in raw["tasks"].values():
        task |= cheap
    Path("both.yaml").write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    (name,) = config.datasets

    def run(configuration: str) -> list[str]:
        done = in_a_process("run", configuration, "--cores", "1", "--", "first")
        assert done.returncode == 0, done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if line]

    both = run("both.yaml")
    assert [line.partition(":")[0] for line in both[:2]] == [f"{name}, group", f"{name}, age"]
    assert all("with the super learner" in line for line in both[:2])
    results = folder / "results" / name
    page = " ".join((results / "first.html").read_text(encoding="utf-8").split())
    for said in (page, *both, aam.check()):
        is_told = "ASV30" in said and "long_branches: drop" in said
        assert is_told == (said is page or said.startswith(("Light", "Reading"))), said
    dropped = aam.check(rarefaction={"depth": 1000, "long_branches": "drop"})
    assert "long_branches: drop" not in dropped, "that is done"
    # The file that a user opens is the answer of the page.
    answer = results / "answers" / "group" / "first"
    (target,) = TaskReport.read(answer / "scores.json").targets
    assert target.leading == "super learner"
    leading = read_predictions(answer / "predictions.tsv")
    recall = mean_recall(leading["observed"].to_numpy(), leading["predicted"].to_numpy())
    assert recall == pytest.approx(target.best.scores["balanced_accuracy"])
    single = pd.read_csv(results / "baselines" / "group" / "by_baseline.tsv", sep="\t")
    assert {"kernel_clr", "knn_unifrac"} <= {*single["baseline"]}
    assert list(results.glob("*/*/predictions.tsv")) == [], "only answers have this name"
    # A task that nobody asks for any more is no test of the page.
    del raw["tasks"]["age"]
    Path("one.yaml").write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    one = run("one.yaml")
    assert one[0].startswith(f"{name}, group: ")
    assert "tests of this page" not in " ".join(one)
    assert "2 tests" not in (results / "first.html").read_text(encoding="utf-8")
    # Asked again, it says the same.
    assert run("one.yaml") == one
    # Another table is refused before anything is overwritten.
    other = healthy(seed=7)
    (folder / "other.tsv").write_text(other.table())
    raw["datasets"][name]["table"] = "other.tsv"
    Path("theirs.yaml").write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    before = (results / "first.html").read_bytes()
    for command in (["check", "theirs.yaml"], ["run", "theirs.yaml", "--cores", "1", "first"]):
        refused = in_a_process(*command)
        assert refused.returncode == 1
        assert "other.tsv, but" in refused.stderr
        assert "has the results of table.tsv" in refused.stderr
    assert (results / "first.html").read_bytes() == before
