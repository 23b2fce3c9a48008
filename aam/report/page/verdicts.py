"""The verdict on a task: whether it can be predicted better than by guessing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aam.evaluate.scores import correct_p_values, is_better
from aam.report.page.reports import leading_scores

Outcome = Literal["works", "doubtful", "does not work"]

CHANCE = 0.05
"""p-value from which on a difference could be chance."""


@dataclass(frozen=True)
class Verdict:
    """Whether a task can be predicted, and the test that says so."""

    outcome: Outcome
    p: float | None
    """p-value of the difference to guessing; None: no test is possible."""
    corrected_p: float | None
    """The same, corrected for all tests of the page."""
    tests: int
    """Tests of the page."""


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
