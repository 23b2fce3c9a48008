"""The answer to a task: the verdict on it, its score, what guessing reaches, the best baseline.

A report is the content of a `scores.json` of one target, as `label_reports` returns it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aam.config.names import name_models
from aam.evaluate.scores import (
    HEADLINE,
    LEAST_UNITS,
    SUPER_LEARNER,
    correct_p_values,
    is_better,
)
from aam.report.labels import (
    choose_decimals,
    format_p_value,
    format_percent,
    name_and_unit,
    row_label,
)
from aam.report.page.mappings import split_targets

Outcome = Literal["works", "doubtful", "does not work"]

CHANCE = 0.05
"""p-value from which on a difference could be chance."""


@dataclass(frozen=True)
class Verdict:
    """Whether a task can be predicted better than by guessing, and the test that says so."""

    outcome: Outcome
    p: float | None
    """p-value of the difference to guessing; None: no test is possible."""
    corrected_p: float | None
    """The same, corrected for all tests of the page."""
    tests: int
    """Tests of the page."""


def label_reports(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one report per target, with what people read instead of the name of its model.

    Parameters
    ----------
    reports
        Contents of `scores.json`: all that a page shows, since the names of models depend on how
        many there are.

    Returns
    -------
    list of dict
        What `split_targets` returns, with the key `display_name`: "AAM",
        "AAM (NAME)", or the baseline that stands in for a model.
    """
    networks = name_models(report["model"] for report in reports if not is_baseline(report))
    labelled = []
    for report in reports:
        model = report["model"]
        display_name = model if is_baseline(report) else networks[model]
        labelled.append({**report, "display_name": display_name})
    return split_targets(labelled)


def leading_scores(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores that the page shows first: those of the super learner, if there is one.

    They need not be the best ones. Without a super learner they are the model's.
    """
    return report.get("super_learner", report)


def leading_name(report: Mapping[str, Any]) -> str:
    """Return what sentences call the method whose scores come first."""
    return f"the {SUPER_LEARNER}" if "super_learner" in report else model_name(report)


def is_baseline(report: Mapping[str, Any]) -> bool:
    """Return whether a baseline stands in for the model: no network was trained."""
    return bool(report.get("is_baseline", False))


def model_name(report: Mapping[str, Any]) -> str:
    """Return what sentences call the model, or the baseline in its stead: `the kernel machine`."""
    label = model_label(report)
    return f"the {label}" if is_baseline(report) else label


def model_label(report: Mapping[str, Any]) -> str:
    """Return what lists and tables call the model: `AAM`, `AAM (NAME)`, or the baseline."""
    return str(report["display_name"])


def target_and_unit(report: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what is predicted, in words, and its unit where the name of its column ends in one.

    The report of one of several targets has a name that ends in its column.
    """
    column = report["column"]
    name = column if isinstance(column, str) else report["task"].partition(", ")[2]
    return name_and_unit(name)


def best_baseline(report: Mapping[str, Any]) -> str | None:
    """Return the baseline with the best headline score, or None where there is none.

    Constants are no candidates: what guessing reaches is compared separately, so that
    `comparisons` lacks them.
    """
    name = HEADLINE[report["kind"]]
    rivals = list(leading_scores(report)["comparisons"])
    if not rivals:
        return None
    scores = [report["baselines"][rival][name] for rival in rivals]
    best = min(scores) if report["kind"] == "regression" else max(scores)
    return rivals[scores.index(best)]


def judge(kind: str, difference: float, p: float | None, corrected_p: float | None) -> Outcome:
    """Return the outcome of a task.

    A task works where it is predicted better than by guessing with p < 0.05, also after Holm's
    correction for all tests of the page. It is doubtful where it is predicted better, but p < 0.05
    holds before the correction alone, or where no test is possible. It does not work otherwise.
    Neither baselines nor cautions change the verdict: they have lights of their own.

    Parameters
    ----------
    kind
        Kind of the task.
    difference
        Mean over folds of the headline score minus that of guessing: `guessing.difference`.
    p
        Its p-value, two-sided, or None where no test is possible: `guessing.corrected_t_p`.
    corrected_p
        The p-value after the correction, or None.
    """
    if not is_better(kind, difference):
        return "does not work"
    if p is None or corrected_p is None:
        return "doubtful"
    if p >= CHANCE:
        return "does not work"
    return "works" if corrected_p < CHANCE else "doubtful"


def judge_all(reports: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """Return the verdict on every report of a page, in their order.

    Parameters
    ----------
    reports
        All that the page shows, one per model and target: p-values are corrected for their number.
    """
    guesses = [leading_scores(report)["guessing"] for report in reports]
    corrected = correct_p_values([guess["corrected_t_p"] for guess in guesses])
    tests = sum(guess["corrected_t_p"] is not None for guess in guesses)
    result = []
    for report, guess, corrected_p in zip(reports, guesses, corrected, strict=True):
        p = guess["corrected_t_p"]
        outcome = judge(report["kind"], guess["difference"], p, corrected_p)
        result.append(Verdict(outcome, p=p, corrected_p=corrected_p, tests=tests))
    return result


def is_stopped(report: Mapping[str, Any]) -> bool:
    """Return whether a task has a red light, for which no other task of the page matters.

    Parameters
    ----------
    report
        The content of a `scores.json`, of one target.
    """
    guess = leading_scores(report)["guessing"]
    p = guess["corrected_t_p"]
    # The correction only decides between "works" and "doubtful", so that any value serves here.
    outcome = judge(report["kind"], guess["difference"], p, corrected_p=p)
    return outcome == "does not work" or bool(report["confounders"])


def name_difference(kind: str, difference: float, p: float | None) -> str | None:
    """Return `better` or `worse`, or None where a difference is not tested or could be chance."""
    if p is None or p >= CHANCE or difference == 0:
        return None
    return "better" if is_better(kind, difference) else "worse"


def mention_correction(tests: int) -> str:
    """Return what follows a p-value or a verdict that takes all tests of the page into account."""
    return f"when corrected for the {tests} tests of this page"


def write_short_answer(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the verdict, the score with its interval, what guessing reaches, and p.

    Parameters
    ----------
    report
        One of `label_reports`.
    verdict
        The verdict on it, by `judge_all`.
    """
    # A score that another column explains shows nothing, however good it is.
    is_confounded = bool(report["confounders"]) and verdict.outcome != "does not work"
    opening = "Confounded" if is_confounded else verdict.outcome.capitalize()
    return f"{opening}: {_describe_score(report)} {_compare_with_guessing(report, verdict)}"


def write_answer(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the short answer, why it has no interval where it has none, and the best baseline."""
    parts = [write_short_answer(report, verdict)]
    if leading_scores(report)["bootstrap"][HEADLINE[report["kind"]]] is None:
        parts.append(_explain_missing_interval(report))
    baseline = best_baseline(report)
    if baseline is not None:
        parts.append(_compare_with_baseline(report, baseline))
    return " ".join(parts)


def _describe_score(report: Mapping[str, Any]) -> str:
    """Say how well the target is predicted, and what guessing reaches."""
    kind = report["kind"]
    best = leading_scores(report)
    what, unit = target_and_unit(report)
    decimals = _decimals(report)
    score = _format_headline(kind, best[HEADLINE[kind]], unit, decimals=decimals)
    brackets = ""
    if best["bootstrap"][HEADLINE[kind]] is not None:
        low, high = (
            _format_headline(kind, end, decimals=decimals)
            for end in best["bootstrap"][HEADLINE[kind]]
        )
        brackets = f" (95 % interval {low} to {high})"
    guess = _format_headline(kind, best["guessing"]["score"], decimals=decimals)
    if kind == "regression":
        return f"{what} is off by {score} on average{brackets}; guessing: {guess}."
    return (
        f"{what} is predicted right in {score} of the samples of a class, averaged over the "
        f"classes{brackets}; guessing: {guess}."
    )


def _compare_with_guessing(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Say whether predictions are better than guessing, or whether that could be chance."""
    if verdict.p is None or verdict.corrected_p is None:
        return "The difference to guessing cannot be tested with these folds."
    values = format_p_value(verdict.p)
    if verdict.tests > 1:
        # A p-value that the correction leaves alone is written once.
        corrected = format_p_value(verdict.corrected_p)
        when = mention_correction(verdict.tests)
        values += f", also {when}" if corrected == values else f"; {corrected} {when}"
    difference = leading_scores(report)["guessing"]["difference"]
    word = name_difference(report["kind"], difference, verdict.corrected_p)
    if word is None:
        return f"The difference to guessing could be chance ({values})."
    return f"{word.capitalize()} than guessing ({values})."


def _compare_with_baseline(report: Mapping[str, Any], baseline: str) -> str:
    """Say how the leading method does against the best baseline."""
    kind = report["kind"]
    comparison = leading_scores(report)["comparisons"][baseline]
    p = comparison["holm_p"]
    _, unit = target_and_unit(report)
    score = report["baselines"][baseline][HEADLINE[kind]]
    shown = _format_headline(kind, score, unit, decimals=_decimals(report))
    rival = f"the best baseline, {row_label(baseline, 'baseline')}"
    if p is None:
        return f"The difference to {rival} ({shown}), cannot be tested with these folds."
    word = name_difference(kind, comparison["difference"], p)
    if word is None:
        return f"The difference to {rival} ({shown}), could be chance ({format_p_value(p)})."
    return f"{word.capitalize()} than {rival} ({shown}; {format_p_value(p)})."


def _explain_missing_interval(report: Mapping[str, Any]) -> str:
    """Say why a headline score has no interval."""
    structure = report["structure"]
    is_by_sample = structure["independent"] or structure["groups"] is None
    units = report["n"] if is_by_sample else structure["groups"]
    if units < LEAST_UNITS:
        what = "samples" if is_by_sample else "groups"
        return f"There is no interval, because {units} {what} are too few."
    # A perfect score has none, nor one that a single group decides.
    return "There is no interval: it cannot be estimated for this score."


def _format_headline(kind: str, value: float, unit: str | None = None, *, decimals: int) -> str:
    """Return a headline score: an error with its unit, or a balanced accuracy in percent."""
    if kind != "regression":
        return format_percent(value, 1)
    number = f"{value:,.{decimals}f}"
    return number if unit is None else f"{number} {unit}"


def _decimals(report: Mapping[str, Any]) -> int:
    """Return the decimals of the errors in an answer, by which a score differs from its rivals."""
    best = leading_scores(report)
    name = HEADLINE[report["kind"]]
    others = [best["guessing"]["score"]]
    baseline = best_baseline(report)
    if baseline is not None:
        others.append(report["baselines"][baseline][name])
    return choose_decimals(best[name], others)
