"""Sentences of an answer: the score, what guessing reaches, and the best baseline.

`kind` is the kind of a task, `unit` that of its numbers or None, and a `difference` is the headline
score of the method that is named first minus that of the other one.
"""

from collections.abc import Sequence

from aam.evaluate.scores import is_better
from aam.report.labels import format_p_value, format_percent
from aam.report.page.verdicts import CHANCE


def format_headline(kind: str, value: float, unit: str | None = None, *, decimals: int) -> str:
    """Return a headline score: an error with its unit, or a balanced accuracy in percent.

    Parameters
    ----------
    kind
        Kind of the task.
    value
        Mean absolute error, or balanced accuracy.
    unit
        Unit of an error, where it is known.
    decimals
        Decimals of an error; a percentage has one.
    """
    if kind != "regression":
        return format_percent(value, 1)
    number = f"{value:,.{decimals}f}"
    return number if unit is None else f"{number} {unit}"


def describe_score(
    kind: str,
    what: str,
    value: float,
    *,
    unit: str | None,
    interval: Sequence[float] | None,
    guess: float,
    decimals: int,
) -> str:
    """Say how well something is predicted, and what guessing reaches.

    Parameters
    ----------
    kind
        Kind of the task.
    what
        What is predicted, in words.
    value, guess
        Headline score of the method, and of guessing.
    unit
        Unit of an error, where it is known.
    interval
        Lower and upper end of the 95 % interval of the score, or None.
    decimals
        Decimals of an error.
    """
    shown = format_headline(kind, value, unit, decimals=decimals)
    brackets = ""
    if interval is not None:
        low = format_headline(kind, interval[0], decimals=decimals)
        high = format_headline(kind, interval[1], decimals=decimals)
        brackets = f" (95 % interval {low} to {high})"
    guessing = f"guessing: {format_headline(kind, guess, decimals=decimals)}."
    if kind == "regression":
        return f"{what} is off by {shown} on average{brackets}; {guessing}"
    return (
        f"{what} is predicted right in {shown} of the samples of a class, averaged over the "
        f"classes{brackets}; {guessing}"
    )


def explain_missing_interval(units: int, what: str) -> str:
    """Say that units are too few for an interval; `what` they are: groups, for instance."""
    return f"There is no interval, because {units} {what} are too few."


def explain_undefined_interval() -> str:
    """Say that units are enough, but that a score has no interval all the same.

    A perfect score has none, nor one that a single group decides.
    """
    return "There is no interval: it cannot be estimated for this score."


def compare_with_guessing(
    kind: str, difference: float, *, p: float | None, corrected: float | None, tests: int
) -> str:
    """Say whether predictions are better than guessing, or whether that could be chance.

    Parameters
    ----------
    kind
        Kind of the task.
    difference
        Headline score minus that of guessing.
    p, corrected
        Its p-value, alone and corrected for all tests of the page; None: no test is possible.
    tests
        Tests of the page.
    """
    if p is None or corrected is None:
        return "The difference to guessing cannot be tested with these folds."
    values = format_p_value(p)
    if tests > 1:
        # A p-value that the correction leaves alone is written once.
        changed = format_p_value(corrected)
        when = f"when corrected for the {tests} tests of this page"
        values += f", also {when}" if changed == values else f"; {changed} {when}"
    if corrected >= CHANCE or difference == 0:
        return f"The difference to guessing could be chance ({values})."
    word = "Better" if is_better(kind, difference) else "Worse"
    return f"{word} than guessing ({values})."


def compare_with_best_baseline(
    kind: str,
    label: str,
    other: float,
    *,
    unit: str | None,
    difference: float,
    p: float | None,
    decimals: int,
) -> str:
    """Say how a method does against the best baseline.

    Parameters
    ----------
    kind
        Kind of the task.
    label
        What the page calls the baseline.
    other
        Headline score of the baseline.
    unit
        Unit of an error, where it is known.
    difference
        Headline score of the method minus that of the baseline.
    p
        Its p-value, or None where no test is possible.
    decimals
        Decimals of an error.
    """
    shown = format_headline(kind, other, unit, decimals=decimals)
    if p is None:
        return (
            f"The difference to the best baseline, {label} ({shown}), cannot be tested with these "
            "folds."
        )
    if p >= CHANCE or difference == 0:
        return (
            f"The difference to the best baseline, {label} ({shown}), could be chance "
            f"({format_p_value(p)})."
        )
    word = "Better" if is_better(kind, difference) else "Worse"
    return f"{word} than the best baseline, {label} ({shown}; {format_p_value(p)})."
