"""The answer to a task: the verdict on it, its score, what guessing reaches, the best baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from aam.config.names import name_models
from aam.config.questions import asked_task, question_of
from aam.evaluate.scores import (
    LEAST_UNITS,
    LEAST_UNITS_OF_CLASS,
    SUPER_LEARNER,
    correct_p_values,
    is_better,
)
from aam.evaluate.task_report import (
    Guessing,
    MethodReport,
    TargetKey,
    TargetReport,
    TaskReport,
)
from aam.report.labels import (
    choose_decimals,
    format_p_value,
    format_percent,
    name_and_unit,
    row_label,
    to_words,
)

Outcome = Literal["works", "works, weakly", "doubtful", "does not work"]

CHANCE = 0.05
"""p-value from which on a difference could be chance."""
WEAK_SKILL = 0.1
"""Part of the way from guessing to perfect predictions, below which a task works weakly."""


@dataclass(frozen=True)
class Verdict:
    """Whether a target can be predicted better than by guessing, and the test that says so."""

    outcome: Outcome
    p: float | None
    """p-value of the difference to guessing; None: no test is possible."""
    corrected_p: float | None
    """The same, corrected for all tests of the page."""
    tests: int
    """Tests of the page."""


@dataclass(frozen=True)
class AdditionTest:
    """The test of what features add to covariates, among all of these of the page."""

    corrected_p: float
    """Its p-value, corrected (Holm) for those of all answers with covariates: a family of its own,
    since it is another question than whether a target can be predicted."""
    tests: int
    """Such tests of the page."""


@dataclass(frozen=True)
class Answer:
    """What a report says of one target, with the verdict on it and the names of its methods."""

    report: TaskReport
    target: TargetReport
    key: TargetKey
    networks: str
    """What people read instead of the model's name: `AAM`, `AAM (NAME)`; empty: there is none."""
    verdict: Verdict
    addition: AdditionTest | None = None
    """None: there are no covariates, or no test is possible."""
    people: Mapping[str, float] = field(default_factory=dict)
    """p-values of claims on people (`People.tests`), corrected (Holm) for all of these of the page:
    a family of its own."""
    people_tests: int = 0
    """Such tests of the page."""
    further: Mapping[str, "Answer"] = field(default_factory=dict)
    """Answers to further questions about the target, by `aam.config.questions`."""

    @property
    def name(self) -> str:
        """What the page calls the target: `task`, or `task, column` where it is one of several."""
        return ", ".join(name for name in self.key if name)

    @property
    def kind(self) -> str:
        """Kind of the task."""
        return self.report.kind

    @property
    def best(self) -> MethodReport:
        """The leading method, whose score and predictions come first."""
        return self.target.best

    @property
    def owner(self) -> str:
        """What sentences call the leading method."""
        name = self.label(self.best)
        return name if self.best.role == "network" else f"the {name}"

    @property
    def what(self) -> str:
        """What is predicted, in words."""
        if self.kind != "regression":
            return to_words(self.target.column)
        return name_and_unit(self.target.column)[0]

    @property
    def unit(self) -> str | None:
        """The unit in which the name of a column of numbers ends; None: it ends in none."""
        return name_and_unit(self.target.column)[1] if self.kind == "regression" else None

    def label(self, method: MethodReport) -> str:
        """Return what lists and tables call a method."""
        if method.role == "network":
            return self.networks
        return (
            SUPER_LEARNER if method.role == "super learner" else row_label(method.name, "baseline")
        )

    def score(self, method: MethodReport) -> float:
        """Return the headline score of a method."""
        score = method.scores[self.report.headline]
        assert score is not None, "a headline score is defined for any sample"
        return score

    @property
    def skill(self) -> float:
        """Part of the way from guessing to perfect predictions; 0 is guessing, 1 is perfect."""
        return self.best.guessing.skill(self.kind)

    @property
    def asked_skill(self) -> float:
        """The same by the score that the task asks for."""
        return self.target.asked_guessing.skill(self.kind)

    @property
    def units(self) -> str:
        """How many units are predicted, in words: groups, or samples where they have none."""
        structure = self.target.structure
        if structure.independent or structure.groups is None:
            return f"{self.best.n} samples"
        return f"{structure.groups} groups (values of {to_words(structure.column or '')})"

    @property
    def best_baseline(self) -> MethodReport | None:
        """The baseline with the best headline score; None: there is none to compare with.

        Constants are no candidates: what guessing reaches is compared separately.
        """
        compared = self.best.comparisons
        learners = [method for method in self.target.baselines if method.name in compared]
        sign = 1 if self.kind == "regression" else -1
        return min(learners, key=lambda one: (sign * self.score(one), one.name), default=None)


def list_answers(reports: Sequence[TaskReport]) -> list[Answer]:
    """Return the answers of a page, one per report and target of the user's tasks.

    Parameters
    ----------
    reports
        All that the page shows: p-values are corrected for their number, and the names of models
        depend on how many there are. Reports of further questions are part of the answers that
        they are about. Each question is a family of tests of its own.
    """
    labels = name_models(report.answer for report in reports if _has_networks(report))
    by_question: dict[str | None, list[TaskReport]] = {None: []}
    for report in reports:
        by_question.setdefault(question_of(report.task), []).append(report)
    own = _list_alike(by_question.pop(None), labels)
    further: dict[tuple[str, TargetKey], dict[str, Answer]] = {}
    for question, alike in by_question.items():
        assert question is not None, "the reports of the tasks themselves are taken out"
        for answer in _list_alike(alike, labels):
            key = answer.key._replace(task=asked_task(answer.key.task))
            further.setdefault((answer.report.answer, key), {})[question] = answer
    return [
        replace(answer, further=further.get((answer.report.answer, answer.key), {}))
        for answer in own
    ]


def _list_alike(reports: Sequence[TaskReport], labels: Mapping[str, str]) -> list[Answer]:
    """Return the answers to tasks that ask the same question, whose tests are corrected together.

    Parameters
    ----------
    reports
        Those of the tasks.
    labels
        What people read instead of the names of models.
    """
    targets = [(report, *one) for report in reports for one in report.by_key()]
    guesses = [target.asked_guessing for _, _, target in targets]
    corrected = correct_p_values([guess.p for guess in guesses])
    tests = sum(p is not None for p in corrected)
    additions = correct_p_values(
        [
            None if target.addition is None else target.addition.of_features.p
            for _, _, target in targets
        ]
    )
    added = sum(p is not None for p in additions)
    of_people = _correct_people([target for _, _, target in targets])
    people_tests = sum(map(len, of_people))
    answers = []
    for (report, key, target), guess, corrected_p, added_p, people in zip(
        targets, guesses, corrected, additions, of_people, strict=True
    ):
        outcome = judge(report.kind, guess, corrected_p)
        verdict = Verdict(outcome, p=guess.p, corrected_p=corrected_p, tests=tests)
        networks = labels[report.answer] if _has_networks(report) else ""
        addition = None if added_p is None else AdditionTest(added_p, tests=added)
        answers.append(
            Answer(report, target, key, networks, verdict, addition, people, people_tests)
        )
    return answers


def _correct_people(targets: Sequence[TargetReport]) -> list[dict[str, float]]:
    """Return the p-values of what is claimed of people, corrected for all of them, by target."""
    named = [
        (number, name, p)
        for number, target in enumerate(targets)
        for name, p in _tests_of_people(target).items()
    ]
    corrected: list[dict[str, float]] = [{} for _ in targets]
    for (number, name, _), p in zip(named, correct_p_values([p for *_, p in named]), strict=True):
        if p is not None:
            corrected[number][name] = p
    return corrected


def _tests_of_people(target: TargetReport) -> dict[str, float | None]:
    """Return the p-values of what is claimed of people, or forecast of them."""
    asked = target.people if target.forecast is None else target.forecast
    return {} if asked is None else asked.tests


def _has_networks(report: TaskReport) -> bool:
    return any(target.networks is not None for target in report.targets)


def judge(kind: str, guessing: Guessing, corrected_p: float | None) -> Outcome:
    """Return the outcome of a task.

    A task works where it is predicted better than by guessing with p < 0.05, also after Holm's
    correction for all tests of the page; weakly where that is less than `WEAK_SKILL` of the way to
    perfect predictions. It is doubtful where it is predicted better, but p < 0.05 holds before the
    correction alone, where no test is possible, or where ordered classes are told apart but missed
    by more steps than by a constant. It does not work otherwise. Neither baselines nor cautions
    change the verdict: they have lights of their own.

    Parameters
    ----------
    kind
        Kind of the task.
    guessing
        The leading method against guessing.
    corrected_p
        Its p-value after the correction, or None.
    """
    if not is_better(kind, guessing.difference):
        return "does not work"
    if guessing.p is None or corrected_p is None:
        return "doubtful"
    if guessing.p >= CHANCE:
        return "does not work"
    if corrected_p >= CHANCE or misses_ranks(guessing):
        return "doubtful"
    return "works, weakly" if guessing.skill(kind) < WEAK_SKILL else "works"


def misses_ranks(guessing: Guessing) -> bool:
    """Return whether ordered classes are missed by as many steps as by a constant, or more."""
    ranks = guessing.ranks
    return ranks is not None and ranks.score >= ranks.constant


def is_stopped(kind: str, target: TargetReport) -> bool:
    """Return whether a target has a red light, for which no other task of the page matters.

    Parameters
    ----------
    kind
        Kind of the task.
    target
        The report of one of its targets.
    """
    guess = target.best.guessing
    # The correction only decides between "works" and "doubtful", so that any value serves here.
    outcome = judge(kind, guess, corrected_p=guess.p)
    return outcome == "does not work" or bool(target.confounders or target.leaks)


def name_difference(kind: str, difference: float, p: float | None) -> str | None:
    """Return `better` or `worse`, or None where a difference is not tested or could be chance."""
    if p is None or p >= CHANCE or difference == 0:
        return None
    return "better" if is_better(kind, difference) else "worse"


def mention_correction(tests: int, which: str = "of this page") -> str:
    """Return what follows a p-value or a verdict that takes all tests of the page into account."""
    return f"when corrected for the {tests} tests {which}"


def write_short_answer(answer: Answer) -> str:
    """Return the verdict, the score with its interval, what guessing reaches, and p.

    Parameters
    ----------
    answer
        One of `list_answers`.
    """
    return f"{write_brief_answer(answer)} {_compare_with_guessing(answer)}"


def write_brief_answer(answer: Answer) -> str:
    """Return the verdict, the leading method's score with its interval, and what guessing reaches.

    Parameters
    ----------
    answer
        One of `list_answers`.
    """
    outcome = answer.verdict.outcome
    # A score that another column explains shows nothing, however good it is.
    opening = outcome.capitalize()
    if outcome != "does not work" and answer.target.leaks:
        opening = "Flattered"
    elif outcome != "does not work" and answer.target.confounders:
        opening = "Confounded"
    return f"{opening}: {_describe_score(answer)}"


def write_answer(answer: Answer) -> str:
    """Return the short answer, and how the best baseline does."""
    parts = [write_short_answer(answer)]
    if answer.best_baseline is not None:
        parts.append(_compare_with_baseline(answer, answer.best_baseline))
    return " ".join(parts)


def _describe_score(answer: Answer) -> str:
    """Say how well the target is predicted, and what guessing reaches."""
    score = _format_headline(answer, answer.score(answer.best), unit=answer.unit)
    brackets = ""
    if answer.best.interval is not None:
        low, high = (_format_headline(answer, end) for end in answer.best.interval)
        brackets = f" (95 % interval {low} to {high})"
    guess = _format_headline(answer, answer.best.guessing.score)
    if answer.kind == "regression":
        return (
            f"{answer.what} is off by {score} on average with {answer.owner}{brackets}; guessing: "
            f"{guess}."
        )
    return (
        f"{answer.what} is predicted right in {score} of the samples of a class, averaged over the "
        f"classes, with {answer.owner}{brackets}; guessing: {guess}."
    )


def _compare_with_guessing(answer: Answer) -> str:
    """Say whether predictions are better than guessing, or whether that could be chance."""
    verdict = answer.verdict
    if verdict.p is None or verdict.corrected_p is None:
        is_number = answer.kind == "regression"
        in_each_class = "" if is_number else f", {LEAST_UNITS_OF_CLASS} in each class"
        return (
            f"Neither a test nor an interval is possible with {answer.units}: they need "
            f"{LEAST_UNITS} units of about the same size{in_each_class}."
        )
    values = format_p_value(verdict.p)
    if verdict.tests > 1:
        # A p-value that the correction leaves alone is written once.
        corrected = format_p_value(verdict.corrected_p)
        when = mention_correction(verdict.tests)
        values += f", also {when}" if corrected == values else f"; {corrected} {when}"
    difference = answer.best.guessing.difference
    word = name_difference(answer.kind, difference, verdict.corrected_p)
    if word is None:
        return f"The difference to guessing could be chance ({values})."
    return f"{word.capitalize()} than guessing ({values})."


def _compare_with_baseline(answer: Answer, baseline: MethodReport) -> str:
    """Say how the leading method does against the best baseline."""
    comparison = answer.best.comparisons[baseline.name]
    p = comparison.holm_p
    shown = _format_headline(answer, answer.score(baseline), unit=answer.unit)
    name = f"the best baseline, {answer.label(baseline)}"
    if p is None:
        return f"The difference to {name} ({shown}), cannot be tested."
    word = name_difference(answer.kind, comparison.difference, p)
    if word is None:
        return f"The difference to {name} ({shown}), could be chance ({format_p_value(p)})."
    return f"{word.capitalize()} than {name} ({shown}; {format_p_value(p)})."


def _format_headline(answer: Answer, value: float, unit: str | None = None) -> str:
    """Return an error with decimals that tell it from what it is compared with, or a percentage."""
    if answer.kind != "regression":
        return format_percent(value, 1)
    baseline = answer.best_baseline
    guess = answer.best.guessing.score
    others = [guess, *([] if baseline is None else [answer.score(baseline)])]
    decimals = choose_decimals(answer.score(answer.best), others)
    # An end of the interval that guessing lies beyond is not read as the same number either.
    ends = [f"{end:.{decimals}f}" for end in answer.best.interval or ()]
    if f"{guess:.{decimals}f}" in ends:
        decimals += 1
    number = f"{value:,.{decimals}f}"
    return number if unit is None else f"{number} {unit}"
