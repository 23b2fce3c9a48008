"""What the page says and shows of later samples, predicted from earlier ones."""

from typing import Any

import pytest
from page_reports import answer_to, classes, regression

from aam.evaluate.task_report import Forecast, Forecasted, ForecastRival, TaskReport
from aam.report.page.answers import list_answers
from aam.report.page.forecast import forecast_sentences, forecast_tables, write_forecast


def part(score: float, *rivals: tuple[str, float, float | None], people: int = 12) -> Forecasted:
    return Forecasted(
        n=30,
        people=people,
        score=score,
        interval=(score - 0.1, score + 0.1),
        rivals=tuple(
            ForecastRival(name=name, score=other, difference=score - other, p=p, holm_p=p)
            for name, other, p in rivals
        ),
    )


def asked(report: TaskReport, **parts: Any) -> TaskReport:
    given = {"column": "host", "time": "day", "after": "365", "known": None, "new": None, **parts}
    target = report.targets[0].model_copy(update={"forecast": Forecast(**given)})
    return report.model_copy(update={"task": f"{report.task}@forecast", "targets": (target,)})


@pytest.mark.parametrize(
    ("report", "parts", "facts"),
    [
        (
            regression,
            {
                "known": part(1.0, ("last value", 2.0, 0.004), ("guessing", 5.0, 0.001)),
                "new": part(4.0, ("time alone", 4.1, 0.6), people=8),
            },
            ["Samples after day 365, from those up to it: people known from before (12): off by"]
            + ["1.0 years (95 % interval 0.9 to 1.1)"]
            + ["better than the best rival, the person's last value (2.0) (p = 0.008 when correc"]
            + ["New people (8): off by 4.0 years", "a line of time alone (4.1), could be chance"],
        ),
        (
            regression,
            {"known": part(3.0, ("trend", 2.0, 0.01))},
            ["worse than the best rival, the person's trend (2.0) (p = 0.01)"],
        ),
        (
            regression,
            {"known": part(3.0, ("trend", 0.0, None), ("mean", 5.0, 0.01))},
            ["the person's trend (0.0) needs no features to be right in all"],
        ),
        (
            classes,
            {"new": part(0.7, ("guessing", 0.5, None), people=3)},
            ["new people (3): right in 70.0 %", "the difference to guessing (50.0 %) cannot be"],
        ),
        (classes, {}, ["all are of one class, so that nothing is told apart"]),
    ],
)
def test_the_forecast_stands_beside_its_best_rival(report, parts, facts):
    answer = answer_to(report(), asked(report(), **parts))
    said = write_forecast(answer)
    assert [fact for fact in facts if fact not in said] == [], said
    assert any("up to day 365 alone" in sentence for sentence in forecast_sentences(answer))
    (table,) = forecast_tables(answer)
    assert len(table.rows) == sum(1 + len(one.rivals) for one in parts.values())
    assert all(len(row) == len(table.header) for row in table.rows)


def test_a_forecast_changes_no_verdict():
    report = regression()
    both = list_answers([report, asked(report, known=part(1.0, ("mean", 2.0, 0.001)))])
    assert [one.verdict for one in both] == [one.verdict for one in list_answers([report])]
    alone = list_answers([report])[0]
    assert write_forecast(alone) == ""
    assert not list(forecast_tables(alone))
    assert not list(forecast_sentences(alone))
