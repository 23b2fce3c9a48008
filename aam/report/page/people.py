"""What the page says of a target between people, and of its change within each."""

from collections.abc import Iterator

from aam.evaluate.scores import LEAST_UNITS, LEAST_UNITS_OF_CLASS
from aam.evaluate.task_report import Guessing, OfPeople, People
from aam.report.labels import (
    choose_decimals,
    format_interval,
    format_p_value,
    format_percent,
    to_words,
)
from aam.report.page.answers import Answer, name_difference
from aam.report.page.tables import Table


def write_people(answer: Answer) -> str:
    """Return how a target is predicted between people, within them, and from sample to sample.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`; without `time` the text is empty.
    """
    people = answer.target.people
    if people is None:
        return ""
    counted = f"{people.people} people (values of {to_words(people.column)})"
    parts = [
        _say(answer, f"Between the {counted}, one value for each", people.between, "between"),
        _say(answer, "Within a person, around the person's own mean", people.within, "within"),
        _say(answer, "From the sample before", people.change, "change"),
        _say_time(answer, people),
    ]
    if people.between is None:
        parts[0] = f"Between the {counted} nothing is told apart: all have the same value, or none."
    if people.within is None:
        parts[1] = f"Within a person, {answer.what} does not change: no change can be predicted."
    text = " ".join(part for part in parts if part)
    if answer.people_tests > 1:
        text += (
            f" p-values of people are corrected for the {answer.people_tests} tests that ask "
            "about people."
        )
    return text


def _say(answer: Answer, where: str, part: OfPeople | None, name: str) -> str:
    """Return a score with what it is compared with, and whether it is better."""
    if part is None:
        return ""
    is_number = answer.kind == "regression"
    verb = "off by" if is_number else "right in"
    rival = "guessing"
    if name != "between":
        rival = "no change" if is_number else "chance"
        if not is_number:
            verb = "two samples of different classes are told apart in"
    unit = f" {answer.unit}" if answer.unit is not None else ""
    score = f"{_format(answer, part, part.score)}{unit}"
    brackets = f"{rival}: {_format(answer, part, part.guessing.score)}"
    if part.guessing.interval is not None:
        low, high = (_format(answer, part, end) for end in part.guessing.interval)
        brackets = f"95 % interval {low} to {high}; {brackets}"
    word, why = _compare(answer, part.guessing, part.people, name)
    said = f"which {why}" if word is None else f"{word} than {rival} {why}"
    return f"{where}: {verb} {score} ({brackets}), {said}."


def _format(answer: Answer, part: OfPeople, value: float) -> str:
    if answer.kind != "regression":
        return format_percent(value, 1)
    others = [part.guessing.score] + ([] if part.time is None else [part.time.score])
    return f"{value:,.{choose_decimals(part.score, others)}f}"


def _compare(answer: Answer, against: Guessing, people: int, name: str) -> tuple[str | None, str]:
    """Return whether a difference is better or worse, with p; None, and why this is not said."""
    p = answer.people.get(name)
    if p is None or against.p is None:
        needed = f"{LEAST_UNITS} are needed"
        if answer.kind != "regression" and name == "between":
            needed += f", {LEAST_UNITS_OF_CLASS} of each class"
        counted = "one person" if people == 1 else f"{people} people"
        return None, f"cannot be tested with {counted}: {needed}"
    word = name_difference(answer.kind, against.difference, p)
    tested = f"({format_p_value(p)})"
    return word, tested if word is not None else f"could be chance {tested}"


def _say_time(answer: Answer, people: People) -> str:
    """Say what the time alone tells of the change, and whether more is told."""
    within = people.within
    if within is None or within.time is None:
        return ""
    name = to_words(people.time)
    if within.follows_time:
        return (
            f"Within a person, {answer.what} follows the time ({name}), so that a calendar tells "
            "its change, too."
        )
    unit = f" {answer.unit}" if answer.unit is not None else ""
    line = f"{_format(answer, within, within.time.score)}{unit}"
    word, why = _compare(answer, within.time, within.people, "time")
    verdict = f"the difference {why}"
    if word is not None:
        verdict = f"the prediction is {word} than that {why}"
    if answer.kind == "regression":
        return (
            f"A line of {name} alone, of the other people, is off by {line} around the person's "
            f"mean; {verdict}."
        )
    return (
        f"Who knows {name} alone, and which class is mostly the later one in other people, tells "
        f"them apart in {line}; {verdict}."
    )


def people_sentences(answer: Answer) -> Iterator[str]:
    """Yield how the scores of people were made; nothing where nobody asked.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    """
    people = answer.target.people
    if people is None:
        return
    if answer.kind == "regression":
        yield (
            "Between people, the mean of a person's held-out predictions is compared with the mean "
            "of the label; within, what differs from these means is. No change is what to beat: a "
            "prediction that moves at random is worse. People count alike, however many samples "
            "they have, and are the units of tests and intervals."
        )
    else:
        yield (
            "Between people, each has the most frequent class of its samples; people with two such "
            "classes are left out. Within, the pairs of a person's samples of different classes "
            "are told apart, half of them by chance. People count alike, however many samples "
            "they have, and are the units of tests and intervals."
        )
    if people.single:
        count = "one person has" if people.single == 1 else f"{people.single} people have"
        yield f"Of {people.people} people, {count} one sample, and so no change."
    if people.untimed:
        yield (
            f"{people.untimed} of {people.samples} samples have no {to_words(people.time)}: they "
            "are left out where samples follow each other."
        )


def people_tables(answer: Answer) -> Iterator[Table]:
    """Yield the scores between and within people.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`; without `time` there is no table.
    """
    people = answer.target.people
    if people is None:
        return
    is_number = answer.kind == "regression"
    parts = {
        "between people": (people.between, "between"),
        "within people": (people.within, "within"),
        "from the sample before": (people.change, "change"),
    }
    rows = []
    for label, (part, name) in parts.items():
        if part is None:
            continue
        time = "" if part.time is None else _format(answer, part, part.time.score)
        rows.append(
            [
                label,
                str(part.people),
                str(part.n),
                format_interval(part.score, *(part.guessing.interval or (None, None))),
                _format(answer, part, part.guessing.score),
                time,
                _p_text(answer, name),
                _p_text(answer, "time") if name == "within" else "",
            ]
        )
    score = "mean absolute error" if is_number else "share that is right"
    chance = "guessing or no change" if is_number else "chance"
    time_label = f"{to_words(people.time)} alone"
    header = ["", "people", "values", score, chance, time_label]
    header += [f"p against {chance}", f"p against {time_label}"]
    yield Table("Between and within people; in brackets 95 % intervals", header, rows)


def _p_text(answer: Answer, name: str) -> str:
    p = answer.people.get(name)
    return "" if p is None else format_p_value(p).removeprefix("p = ").removeprefix("p ")
