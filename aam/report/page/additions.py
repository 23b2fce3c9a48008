"""What the page says of a task with covariates: these alone, the features alone, and both."""

from collections.abc import Callable, Iterator

from aam.data.nouns import OF_ASVS, Nouns
from aam.evaluate.scores import is_better
from aam.evaluate.task_report import Addition, Answered, Difference
from aam.report.labels import (
    SCORES,
    capitalize,
    choose_decimals,
    format_interval,
    format_p_value,
    format_percent,
    to_words,
)
from aam.report.page.answers import Answer, mention_correction, name_difference
from aam.report.page.tables import Table

PARTS = {
    "covariates": "covariates alone",
    "features": "features alone",
    "joint_ridge": "a ridge on CLR that learns what a spline of the covariates leaves",
    "joint_forest": "a forest that learns what a spline of the covariates leaves",
}
"""What the details call the parts of the mixture of both."""
LEAST_SHOWN = 0.01
"""Least weight of a part that is named."""


def write_addition(answer: Answer, nouns: Nouns = OF_ASVS) -> str:
    """Return how covariates, features and both predict, and what the features add.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`; without covariates the text is empty.
    nouns
        What the values of the table are called.
    """
    addition = answer.target.addition
    if addition is None:
        return ""
    show = _format_scores(answer, addition)
    off = "off by " if answer.kind == "regression" else ""
    alone = _with_interval(addition.alone, show)
    return (
        f"{capitalize(name_covariates(addition))} alone: {off}{alone}; the {nouns.value} alone: "
        f"{show(addition.features.score)}; together: {_with_interval(addition.both, show)}. "
        f"{_say_difference(answer, addition, nouns)}"
    )


def name_covariates(addition: Addition) -> str:
    """Return the names of covariates in words: `age and sex`.

    Parameters
    ----------
    addition
        What was measured beside them.
    """
    names = [to_words(name) for name in addition.covariates]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _format_scores(answer: Answer, addition: Addition) -> Callable[[float], str]:
    """Return what writes the scores of a task such that those that differ look so."""
    if answer.kind != "regression":
        return lambda value: format_percent(value, 1)
    others = (addition.features.score, addition.both.score)
    decimals = choose_decimals(addition.alone.score, others)
    return lambda value: f"{value:,.{decimals}f}"


def _with_interval(answered: Answered, show: Callable[[float], str]) -> str:
    interval = answered.guessing.interval
    if interval is None:
        return show(answered.score)
    low, high = map(show, interval)
    return f"{show(answered.score)} (95 % interval {low} to {high})"


def _say_difference(answer: Answer, addition: Addition, nouns: Nouns) -> str:
    """Say what the features add, or that it cannot be told from nothing."""
    found = addition.of_features
    if found.p is None:
        return f"What the {nouns.value} add cannot be tested with {answer.units}."
    tested = format_p_value(found.p)
    test = answer.addition
    if test is not None and test.tests > 1:
        corrected = format_p_value(test.corrected_p)
        when = mention_correction(test.tests, "that ask what is added")
        tested += f", also {when}" if corrected == tested else f"; {corrected} {when}"
    p = found.p if test is None else test.corrected_p
    word = name_difference(answer.kind, found.difference, p)
    change, ends = _format_change(answer, found, word)
    brackets = f"({ends}{tested})"
    if word is None:
        return f"The {nouns.value} add nothing that can be told from chance: {change} {brackets}."
    if word == "worse":
        return f"With the {nouns.value} it is worse by {change} {brackets}."
    if answer.kind == "regression":
        return f"The {nouns.value} take {change} off the error {brackets}."
    return f"The {nouns.value} add {change} {brackets}."


def _format_change(answer: Answer, found: Difference, word: str | None) -> tuple[str, str]:
    """Return the size of a difference, and the ends of its interval.

    Both are counted in the direction of the word, better or worse. A difference without a word,
    which could be chance, has a sign, which is positive where both are better.
    """
    gain = 1.0 if is_better(answer.kind, 1.0) else -1.0
    is_worse = gain * found.difference < 0
    sign = -gain if word == "worse" else gain
    ends = [] if found.interval is None else sorted(sign * end for end in found.interval)
    if answer.kind == "regression":
        # A small difference is read to the digits of its interval.
        decimals = choose_decimals(max([abs(found.difference), *map(abs, ends)]))
        unit = "" if answer.unit is None else f" {answer.unit}"

        def show(value: float) -> str:
            return f"{value:,.{decimals}f}"

    else:
        unit = " points"

        def show(value: float) -> str:
            return f"{100 * value:.1f}"

    size = f"{show(abs(found.difference))}{unit}"
    if word is None:
        size = f"{'-' if is_worse else '+'}{size}"
    text = f"95 % interval {show(ends[0])} to {show(ends[1])}; " if ends else ""
    return size, text


def addition_sentences(answer: Answer, nouns: Nouns = OF_ASVS) -> Iterator[str]:
    """Yield what else was measured of a task with covariates; nothing without.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    nouns
        What the values of the table are called.
    """
    addition = answer.target.addition
    if addition is None:
        return
    weights = sorted(addition.weights.items(), key=lambda item: (-item[1], item[0]))
    parts = ", ".join(
        f"{PARTS[name]} {format_percent(weight)}"
        for name, weight in weights
        if weight >= LEAST_SHOWN
    )
    yield (
        f"The score of this task is that of the {nouns.value} alone, and other tables are "
        f"predicted from them alone. What sees {name_covariates(addition)}, too, mixes: {parts}."
    )
    other = addition.of_covariates
    if other.p is not None:
        word = name_difference(answer.kind, other.difference, other.p) or "could be chance"
        yield (
            f"Both minus the {nouns.value} alone, which is what {name_covariates(addition)} add: "
            f"{other.difference:+.3g} ({word}, {format_p_value(other.p)})."
        )


def addition_table(answer: Answer, nouns: Nouns = OF_ASVS) -> Table:
    """Return the scores of covariates, features and both.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`, whose target has an addition.
    nouns
        What the values of the table are called.
    """
    addition = answer.target.addition
    assert addition is not None, "a task without covariates has no such table"
    named = {
        f"{name_covariates(addition)} alone": addition.alone,
        f"{nouns.value} alone": addition.features,
        "both": addition.both,
    }
    rows = []
    for name, part in named.items():
        low, high = part.guessing.interval or (None, None)
        p = format_p_value(part.guessing.p).removeprefix("p = ").removeprefix("p ")
        rows.append([name, format_interval(part.score, low, high), p])
    label = SCORES[answer.report.headline]
    title = f"With and without {name_covariates(addition)}; in brackets 95 % intervals"
    return Table(title, ["from", label, "p against guessing"], rows)
