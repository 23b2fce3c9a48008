"""The gallery: studies as people have them, and what `init`, `check`, `run` and predicting say.

`docs/developing.md` says how to add one.
"""

import html
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkouts import merged
from gallery import (
    amplicons,
    columns,
    configurations,
    courses,
    identifiers,
    no_sequences,
    predictions,
    profilers,
    tables,
    trees,
)
from gallery.case import Case, Outcome, Ran
from gallery.study import healthy

from tests.warm import Warm

pytestmark = pytest.mark.workflow

CASES = {
    case.name: case
    for case in chain(
        columns.CASES,
        identifiers.CASES,
        tables.CASES,
        trees.CASES,
        configurations.CASES,
        courses.CASES,
        predictions.CASES,
        no_sequences.CASES,
        profilers.CASES,
        amplicons.CASES,
    )
}
MODULES = (
    columns,
    identifiers,
    tables,
    trees,
    configurations,
    courses,
    predictions,
    no_sequences,
    profilers,
    amplicons,
)
FEW_FOLDS = 3
"""Folds of the studies that are carried out."""
TARGET = "results/mine/predict/first/group/new.tsv"


def test_every_case_has_a_name_of_its_own_and_a_report() -> None:
    assert len(CASES) == sum(len(module.CASES) for module in MODULES)
    reports = {case.report for case in CASES.values()}
    wrong = [name for name in reports if not re.fullmatch(r"[\w.-]+#\d+|issue 54", name)]
    assert wrong == []


@pytest.mark.parametrize("name", CASES)
def test_a_study_as_people_have_it(name: str, warm: Warm, tmp_path: Path) -> None:
    _Walk(CASES[name], warm, tmp_path).to_the_end()


class _Walk:
    """The steps of a case, one after the other, as far as they pass."""

    def __init__(self, case: Case, warm: Warm, folder: Path) -> None:
        self.case = case
        self.warm = warm
        self.logs = folder / "logs"
        self.folder = folder / "study"
        self.said: dict[str, str] = {}
        for path in (self.logs, self.folder):
            path.mkdir()
        self.study = healthy()
        case.twist(self.study, self.folder)
        self.study.write(self.folder)

    def to_the_end(self) -> None:
        """Take the steps, and look at what they said and left."""
        if self._read():
            self._look_at_the_configuration()
            if self.case.runs:
                self._answer()
            elif self.case.prediction is not None:
                self._predict()
            self._go_on()
        self._look_for_tracebacks()
        if self.case.then is not None:
            self.case.then(Ran(self.folder, self.study, self.said, self._page()))

    def _read(self) -> bool:
        """Run `init` and `check`; return whether both passed."""
        outcome = self.case.reading
        paths = dict(self.study.files)
        command = ["init", paths.pop("table"), paths.pop("metadata")]
        for name, path in paths.items():
            command += [f"--{name}", path]
        if self.case.columns is not None:
            command += ["--columns", self.case.columns]
        passed = self._aam("init", *command, "--output", "mine.yaml")
        assert passed == (self.folder / "mine.yaml").exists(), self.said["init"]
        if not passed:
            self._expect("init", outcome, False)
            return False
        written = (self.folder / "mine.yaml").read_text(encoding="utf-8")
        self._lay_over(yaml.safe_load(written))
        passed = self._aam("check", "check", *self._files(), "--cores", "1")
        assert passed == (self._results / "check.txt").exists(), self.said["check"]
        assert passed or self.case.may_be_late or outcome.refused is None, (
            "check refuses what init took:\n" + self.said["check"]
        )
        text = "\n".join([self.said["init"], written, self.said["check"]])
        self._expect("check", outcome, passed, text=text)
        if passed:
            _require(self.case.decided, text, "init and check")
        return passed

    def _lay_over(self, proposed: Mapping[str, Any]) -> None:
        """Write what makes the run cheap, and the settings of the case."""
        cheap: dict[str, Any] = {"baselines": list(self.case.baselines)}
        if self.case.runs or self.case.prediction is not None:
            cheap["folds"] = {"k": FEW_FOLDS}
        tasks = dict.fromkeys(proposed.get("tasks") or {}, cheap)
        laid_over = merged({"tasks": tasks} if tasks else {}, self.case.settings)
        text = yaml.safe_dump(laid_over, allow_unicode=True, sort_keys=False)
        (self.folder / "cheap.yaml").write_text(text, encoding="utf-8")

    def _look_at_the_configuration(self) -> None:
        proposed = yaml.safe_load((self.folder / "mine.yaml").read_text(encoding="utf-8"))
        tasks = (proposed.get("tasks") or {}).values()
        kinds = {task["column"]: task["kind"] for task in tasks}
        assert kinds.items() >= self.case.kinds.items(), f"init proposed {kinds}"

    def _answer(self) -> None:
        """Make the first answer, and predict where the case asks for it."""
        passed = self._first()
        assert passed == (self._results / "first.html").exists(), self.said["first"]
        assert passed or self.case.first.refused is not None, (
            "run refuses what check promised:\n" + self.said["first"]
        )
        text = "\n".join([self.said["first"], self._page()])
        self._expect("first", self.case.first, passed, text=text)
        if passed:
            _require(self.case.decided, self._page(), "the page")
            if self.case.prediction is not None:
                self._predict()

    def _go_on(self) -> None:
        """Run the commands behind all this."""
        for number, step in enumerate(self.case.steps):
            if step.twist is not None:
                step.twist(self.study, self.folder)
            words = chain.from_iterable(
                self._files() if word == "FILES" else [word] for word in step.command
            )
            passed = self._aam(f"step {number}", *words)
            self._expect(f"step {number}", step.outcome, passed)

    def _first(self) -> bool:
        return self._aam("first", "run", *self._files(), "--cores", "1", "--", "first")

    def _predict(self) -> None:
        assert self.case.prediction is not None
        files = self._files()
        passed = self._aam("predict", "run", *files, "--cores", "1", "--", TARGET)
        assert passed == (self.folder / TARGET).exists(), self.said["predict"]
        self._expect("predict", self.case.prediction, passed)

    def _aam(self, step: str, *command: str) -> bool:
        """Run a command; return whether it passed."""
        log = self.logs / f"{step}.txt"
        status = self.warm.run(self.folder, "aam", *command, log=log)
        self.said[step] = log.read_text(encoding="utf-8")
        assert status in (0, 1), f"{step} ended with {status}:\n{self.said[step]}"
        assert "Traceback" not in self.said[step], self.said[step]
        return status == 0

    def _expect(
        self, step: str, outcome: Outcome, passed: bool, *, text: str | None = None
    ) -> None:
        """Compare what a step said with its outcome; `text` is what it left where it passed."""
        said = self.said[step]
        facts = outcome.passes if passed else outcome.refused
        assert facts is not None, f"{step} {'passes' if passed else 'is refused'}:\n{said}"
        shown = said if text is None or not passed else text
        _require(facts, shown, step)
        for words in outcome.never:
            assert not re.search(words, _flat(shown), re.IGNORECASE), (
                f"{step} says {words}:\n{shown}"
            )

    def _files(self) -> list[str]:
        return ["mine.yaml", "cheap.yaml"]

    @property
    def _results(self) -> Path:
        return self.folder / "results" / "mine"

    def _page(self) -> str:
        path = self._results / "first.html"
        return _text_of(path.read_text(encoding="utf-8")) if path.exists() else ""

    def _look_for_tracebacks(self) -> None:
        for path in sorted(self.folder.rglob("*.log")):
            text = path.read_text(encoding="utf-8", errors="replace")
            assert "Traceback" not in text, f"{path}:\n{text}"


def _require(facts: tuple[str, ...], text: str, where: str) -> None:
    flat = _flat(text)
    missing = [fact for fact in facts if not re.search(fact, flat, re.IGNORECASE)]
    assert missing == [], f"{where} lacks {missing}:\n{text}"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _text_of(page: str) -> str:
    """Return what a reader of the page sees, without tables that list every sample."""
    page = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    page = re.sub(
        r"<table\b.*?</table>",
        lambda table: " " if "sample-id" in table[0] else table[0],
        page,
        flags=re.DOTALL,
    )
    return html.unescape(re.sub(r"<[^>]+>", " ", page))
