"""What the page says of later samples, predicted from earlier ones."""

from collections.abc import Iterator

from aam.config.questions import FORECAST
from aam.evaluate.scores import LEAST_UNITS
from aam.evaluate.task_report import Forecast, Forecasted, ForecastRival
from aam.report.labels import (
    choose_decimals,
    format_interval,
    format_p_value,
    format_percent,
    to_words,
)
from aam.report.page.answers import Answer, mention_correction, name_difference
from aam.report.page.tables import Table

WORDS = {
    "last value": "the person's last value",
    "mean": "the person's mean",
    "most frequent class": "the person's most frequent class",
    "trend": "the person's trend",
    "time alone": "a line of time alone",
    "covariates": "the covariates alone",
    "guessing": "guessing",
}
"""What the page calls rivals."""
WHOM = {"known": "people known from before", "new": "new people"}
"""What the page calls the people of later samples."""


def write_forecast(answer: Answer) -> str:
    """Return how later samples are predicted from earlier ones, beside the best rival.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`; without a forecast the text is empty.
    """
    forecast = _forecast_of(answer)
    if forecast is None:
        return ""
    further = answer.further[FORECAST]
    parts = [
        _say(further, part, name)
        for name, part in (("known", forecast.known), ("new", forecast.new))
        if part is not None
    ]
    opening = f"Samples after {to_words(forecast.time)} {forecast.after}, from those up to it"
    if not parts:
        return f"{opening}: all are of one class, so that nothing is told apart."
    first, *others = parts
    sentences = [f"{opening}: {first}", *(other[0].upper() + other[1:] for other in others)]
    return " ".join(sentences)


def _forecast_of(answer: Answer) -> Forecast | None:
    """Return the forecast of an answer; None: nobody asked for it."""
    further = answer.further.get(FORECAST)
    return None if further is None else further.target.forecast


def _say(further: Answer, part: Forecasted, name: str) -> str:
    """Return the score of people who are known, or new, and whether a rival is as good."""
    verb = "off by" if further.kind == "regression" else "right in"
    unit = f" {further.unit}" if further.unit is not None else ""
    best = part.rivals[0]
    score = f"{_format(further, part, part.score)}{unit}"
    if part.interval is not None:
        low, high = (_format(further, part, end) for end in part.interval)
        score += f" (95 % interval {low} to {high})"
    rival = f"{WORDS[best.name]} ({_format(further, part, best.score)})"
    said = _compare(further, part, best, name, rival)
    return f"{WHOM[name]} ({part.people}): {verb} {score}; {said}."


def _format(further: Answer, part: Forecasted, value: float) -> str:
    if further.kind != "regression":
        return format_percent(value, 1)
    return f"{value:,.{choose_decimals(part.score, [part.rivals[0].score])}f}"


def _compare(further: Answer, part: Forecasted, best: ForecastRival, name: str, rival: str) -> str:
    """Say whether predictions are better than the best of all rivals."""
    p = further.people.get(name)
    if p is None:
        if part.people >= LEAST_UNITS and further.kind == "regression" and best.score == 0:
            return f"{rival} needs no features to be right in all"
        return f"the difference to {rival} cannot be tested"
    tested = format_p_value(p)
    if further.people_tests > 1:
        tested += f" {mention_correction(further.people_tests, 'on forecasts')}"
    word = name_difference(further.kind, best.difference, p)
    if word is None:
        return f"the difference to the best rival, {rival}, could be chance ({tested})"
    return f"{word} than the best rival, {rival} ({tested})"


def forecast_sentences(answer: Answer) -> Iterator[str]:
    """Yield how the forecast was made; nothing where nobody asked.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    """
    forecast = _forecast_of(answer)
    if forecast is None:
        return
    further = answer.further[FORECAST]
    yield (
        f"The forecast was learned, tuned and calibrated on {further.best.n} samples up to "
        f"{to_words(forecast.time)} {forecast.after} alone. Its rivals see no features; p-values "
        "are corrected for them, and people are the units."
    )


def forecast_tables(answer: Answer) -> Iterator[Table]:
    """Yield the forecast beside all of its rivals.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`; without a forecast there is no table.
    """
    forecast = _forecast_of(answer)
    if forecast is None:
        return
    further = answer.further[FORECAST]
    is_number = further.kind == "regression"
    rows = []
    for which, part in (("known", forecast.known), ("new", forecast.new)):
        if part is None:
            continue
        counts = [which, str(part.people), str(part.n)]
        shown = format_interval(part.score, *(part.interval or (None, None)))
        rows.append([*counts, further.label(further.best), shown, ""])
        for rival in part.rivals:
            p = "" if rival.holm_p is None else format_p_value(rival.holm_p)
            p = p.removeprefix("p = ").removeprefix("p ")
            rows.append([*counts, WORDS[rival.name], format_interval(rival.score, None, None), p])
    score = "mean absolute error" if is_number else "balanced accuracy"
    header = ["people", "number", "samples", "from", score, "p of the difference"]
    title = f"The forecast after {to_words(forecast.time)} {forecast.after}, and its rivals"
    yield Table(title, header, rows)
