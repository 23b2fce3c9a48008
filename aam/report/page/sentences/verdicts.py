"""Sentences that say what a verdict rests on."""

from aam.evaluate.scores import is_better
from aam.report.page.verdicts import CHANCE


def explain_success(tests: int) -> str:
    """Say why a task works; `tests` is the number of tests of the page."""
    corrected = f", also when corrected for the {tests} tests of this page" if tests > 1 else ""
    return f"Better than guessing{corrected}."


def explain_doubt(p: float | None, corrected: float | None, tests: int) -> str:
    """Say why a task is doubtful.

    Parameters
    ----------
    p, corrected
        p-value of the difference to guessing, alone and corrected for all tests of the page; None:
        no test is possible.
    tests
        Tests of the page.
    """
    if p is None or corrected is None:
        return "Better than guessing, but no test is possible with these folds."
    return (
        f"Better than guessing before correction for the {tests} tests of this page, but not after "
        "it."
    )


def explain_failure(kind: str, difference: float, p: float | None, folds: int) -> str:
    """Say why a task does not work.

    Parameters
    ----------
    kind
        Kind of the task.
    difference
        Headline score minus that of guessing.
    p
        Its p-value, or None where no test is possible.
    folds
        Number of folds.
    """
    if is_better(kind, difference):
        return f"With {folds} folds, the difference to guessing could be chance."
    if p is not None and p < CHANCE and difference != 0:
        return "Worse than guessing."
    return "Not better than guessing."
