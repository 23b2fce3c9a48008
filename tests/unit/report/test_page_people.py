"""What the page says and shows of a task between and within people."""

from typing import Any

import pytest
from page_reports import answer_to, classes, guessing, regression

from aam.evaluate.task_report import OfPeople, People, TaskReport
from aam.report.page.answers import list_answers
from aam.report.page.people import people_sentences, people_tables, write_people


def part(score: float, guess: float, p: float | None, **others: Any) -> OfPeople:
    interval = None if p is None else (score - 0.1, score + 0.1)
    against = guessing(guess, score - guess, p, interval)
    return OfPeople(**{"score": score, "guessing": against, "people": 20, "n": 90, **others})


def people(**changes: Any) -> People:
    given = {
        "column": "host_id",
        "time": "day",
        "people": 25,
        "single": 5,
        "samples": 95,
        "untimed": 3,
        "between": part(4.0, 9.0, 0.001),
        "within": part(1.0, 2.0, 0.004, time=guessing(1.1, -0.1, 0.5)),
        "change": part(1.5, 1.4, 0.5),
    }
    return People(**{**given, **changes})


def with_people(report: TaskReport, of: People) -> TaskReport:
    target = report.targets[0].model_copy(update={"people": of})
    return report.model_copy(update={"targets": (target,)})


def test_people_of_too_few_of_a_class_are_said_to_be_too_few_of_it():
    of = people(between=part(0.8, 0.5, None, people=17), within=None, change=None)
    said = write_people(answer_to(with_people(classes(), of)))
    assert "cannot be tested with 17 people: 5 are needed, 3 of each class" in said


@pytest.mark.parametrize(
    ("of", "facts"),
    [
        (
            people(),
            ["Between the 25 people (values of host id), one value for each: off by 4.0 years"]
            + ["(95 % interval 3.9 to 4.1; guessing: 9.0), better than guessing (p = 0.004)"]
            + ["Within a person, around the person's own mean: off by 1.0"]
            + ["better than no change (p = 0.012)"]
            + ["From the sample before: off by 1.5", "which could be chance (p > 0.99)"]
            + ["A line of day alone, of the other people, is off by 1.1 years"]
            + ["the difference could be chance", "corrected for the 4 tests that ask about people"],
        ),
        (
            people(within=part(3.0, 2.0, 0.001, follows_time=True, time=guessing(0, 3.0, 0.001))),
            ["worse than no change", "a calendar tells its change, too"],
        ),
        (
            people(within=None, change=None),
            ["does not change: no change can be predicted"],
        ),
        (
            people(between=None, within=part(1.0, 2.0, None, people=3), change=None),
            ["nothing is told apart", "cannot be tested with 3 people: 5 are needed"],
        ),
        (
            people(between=None, within=part(1.0, 2.0, None, people=1), change=None),
            ["cannot be tested with one person: 5 are needed"],
        ),
    ],
)
def test_the_page_tells_people_from_their_changes(of, facts):
    answer = answer_to(with_people(regression(), of))
    said = write_people(answer)
    assert [fact for fact in facts if fact not in said] == [], said
    sentences = " ".join(people_sentences(answer))
    assert "Of 25 people, 5 people have" in sentences
    assert "3 of 95 samples have no day" in sentences
    (table,) = people_tables(answer)
    parts = (of.between, of.within, of.change)
    assert len(table.rows) == sum(one is not None for one in parts)
    assert all(len(row) == len(table.header) for row in table.rows)


def test_classes_are_told_apart_by_pairs():
    of = people(
        between=part(0.8, 0.5, 0.001), within=part(0.7, 0.5, 0.001), change=part(0.5, 0.5, 1.0)
    )
    answer = answer_to(with_people(classes(), of))
    said = write_people(answer)
    assert "two samples of different classes are told apart in 70.0 %" in said
    assert "chance: 50.0 %" in said
    (table,) = people_tables(answer)
    assert [row[0] for row in table.rows] == [
        "between people",
        "within people",
        "from the sample before",
    ]
    assert all(len(row) == len(table.header) for row in table.rows)


def test_questions_about_people_change_no_verdict():
    report = regression()
    both = list_answers([with_people(report, people()), classes()])
    assert [one.verdict for one in both] == [
        one.verdict for one in list_answers([report, classes()])
    ]
    assert both[1].people == {}
    assert write_people(both[1]) == ""
    assert not list(people_tables(both[1]))
    assert not list(people_sentences(both[1]))
