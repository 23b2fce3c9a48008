"""What the page says of a task in studies that were never seen, next to those that were."""

from collections.abc import Iterator

from aam.config.questions import STUDIES
from aam.evaluate.scores import LEAST_UNITS
from aam.evaluate.task_report import Answered, Studies
from aam.report.labels import (
    DASH,
    choose_decimals,
    format_p_value,
    format_percent,
    format_score,
    to_words,
)
from aam.report.page.answers import Answer, mention_correction, name_difference
from aam.report.page.tables import Table, score_table


def write_studies(answer: Answer) -> str:
    """Return how a target is predicted within its studies, and in one that was never seen.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`; without studies the text is empty.
    """
    studies = _studies_of(answer)
    if studies is None:
        return ""
    counted = f"{len(studies.scored)} studies (values of {to_words(studies.column)})"
    within = _describe(answer, studies, studies.within)
    unseen = _describe(answer, studies, studies.unseen)
    verb = "off by" if answer.kind == "regression" else "right in"
    return (
        f"Within the {counted}: {verb} {within}; in a study never seen: {unseen}. "
        f"{_compare_with_guessing(answer, studies)}"
    )


def _studies_of(answer: Answer) -> Studies | None:
    """Return the scores of studies of an answer; None: nobody asked for them."""
    further = answer.further.get(STUDIES)
    return None if further is None else further.target.studies


def _describe(answer: Answer, studies: Studies, part: Answered) -> str:
    """Return a score with its interval and what guessing reaches."""
    score = _format(answer, studies, part.score)
    if answer.unit is not None:
        score += f" {answer.unit}"
    guess = f"guessing: {_format(answer, studies, part.guessing.score)}"
    if part.guessing.interval is None:
        return f"{score} ({guess})"
    low, high = (_format(answer, studies, end) for end in part.guessing.interval)
    return f"{score} (95 % interval {low} to {high}; {guess})"


def _format(answer: Answer, studies: Studies, value: float) -> str:
    if answer.kind != "regression":
        return format_percent(value, 1)
    others = [studies.within.score, studies.unseen.guessing.score]
    return f"{value:,.{choose_decimals(studies.unseen.score, others)}f}"


def _compare_with_guessing(answer: Answer, studies: Studies) -> str:
    """Say whether a study that was never seen is predicted better than by guessing."""
    verdict = answer.further[STUDIES].verdict
    if verdict.p is None or verdict.corrected_p is None:
        return (
            f"Whether it holds in other studies cannot be tested with {len(studies.scored)}: "
            f"{LEAST_UNITS} are needed."
        )
    tested = format_p_value(verdict.p)
    if verdict.tests > 1:
        corrected = format_p_value(verdict.corrected_p)
        when = mention_correction(verdict.tests, "that ask about studies")
        tested += f", also {when}" if corrected == tested else f"; {corrected} {when}"
    difference = studies.unseen.guessing.difference
    word = name_difference(answer.kind, difference, verdict.corrected_p)
    if word is None:
        return f"In a study never seen, the difference to guessing could be chance ({tested})."
    return f"In a study never seen, it is {word} than guessing ({tested})."


def studies_sentences(answer: Answer) -> Iterator[str]:
    """Yield how the scores of studies were made; nothing where there are none.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    """
    studies = _studies_of(answer)
    if studies is None:
        return
    column = to_words(studies.column)
    score = "mean absolute error"
    if answer.kind != "regression":
        score = "balanced accuracy, over the classes that the study has"
    yield (
        f"Each {column} was also left out as a whole, from all that is learned and tuned. Both "
        f"scores are means over studies of the {score}; the interval of the first holds for these "
        f"studies, that of the second for studies like these, which are its units."
    )
    single = [study.study for study in studies.studies if study.unseen is None]
    if single:
        count = "One study has" if len(single) == 1 else f"{len(single)} studies have"
        yield f"{count} samples of one class alone, and so no score: nothing can be told apart."


def studies_tables(answer: Answer) -> Iterator[Table]:
    """Yield the scores by study, and those of all methods where studies are left out.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`; without studies there is no table.
    """
    studies = _studies_of(answer)
    if studies is None:
        return
    label = "mean absolute error" if answer.kind == "regression" else "balanced accuracy"
    rows = []
    for one in studies.studies:
        scores = map(format_score, [one.unseen, one.within, one.guessing])
        rows.append([one.study, str(one.n), *scores])
    note = ""
    if len(studies.scored) < len(studies.studies):
        note = f"A dash ({DASH}): the study has one class alone."
    header = [studies.column, "n", "never seen", "seen in part", "guessing, never seen"]
    yield Table(f"Study by study: {label}", header, rows, note=note)
    all_methods = score_table([answer.further[STUDIES]])
    title = f"All methods, where each {to_words(studies.column)} is left out"
    yield Table(title, all_methods.header, all_methods.rows, note=all_methods.note)
