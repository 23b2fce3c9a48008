"""What the page says of a task with covariates."""

from typing import Any

import pytest
from page_reports import answer_to, classes, guessing, regression

from aam.data.nouns import Nouns
from aam.evaluate.task_report import Addition, Answered, Difference
from aam.report.page.additions import addition_sentences, addition_table, write_addition
from aam.report.page.answers import list_answers

AMOUNTS = Nouns("genus", "genera", "amounts")


def added(
    alone: float, features: float, both: float, p: float | None, step: float, guess: float = 0.2
) -> Addition:
    def answered(score: float) -> Answered:
        interval = None if p is None else (score - step, score + step)
        return Answered(score=score, guessing=guessing(guess, score - guess, p, interval))

    difference = both - alone
    interval = None if p is None else (difference - step, difference + step)
    return Addition(
        covariates=("age", "sex_at_birth"),
        alone=answered(alone),
        features=answered(features),
        both=answered(both),
        of_features=Difference(difference=difference, interval=interval, p=p),
        of_covariates=Difference(difference=both - features, interval=None, p=0.3),
        weights={"covariates": 0.25, "features": 0.5, "joint_ridge": 0.15, "joint_forest": 0.1},
    )


@pytest.mark.parametrize(
    ("report", "addition", "facts"),
    [
        (
            classes,
            added(0.61, 0.70, 0.723, 0.012, 0.05),
            ["Age and sex at birth alone: 61.0 %", "56.0 % to 66.0 %", "the reads alone: 70.0 %"]
            + ["together: 72.3 %", "add 11.3 points (95 % interval 6.3 to 16.3; p = 0.012)"],
        ),
        (
            classes,
            added(0.61, 0.60, 0.60, 0.4, 0.05),
            ["nothing", "chance: -1.0 points (95 % interval -6.0 to 4.0; p = 0.4)"],
        ),
        (
            classes,
            added(0.61, 0.5, 0.55, 0.01, 0.04),
            ["worse by 6.0 points (95 % interval 2.0 to 10.0; p = 0.01)"],
        ),
        (
            regression,
            added(8.1, 7.0, 6.8, 0.003, 0.5, guess=9.0),
            ["off by 8.1 (95 % interval 7.6 to 8.6)", "alone: 7.0", "together: 6.8"]
            + ["1.3 years off the error (95 % interval 0.8 to 1.8; p = 0.003)"],
        ),
        (
            regression,
            added(8.1, 7.0, 8.0, 0.6, 0.5, guess=9.0),
            ["chance: +0.10 years (95 % interval -0.40 to 0.60; p = 0.6)"],
        ),
        (regression, added(8.1, 7.0, 6.8, None, 0.5, guess=9.0), ["cannot be tested", "40 groups"]),
    ],
)
def test_the_page_says_what_features_add(report, addition, facts):
    said = write_addition(answer_to(report(addition=addition)))
    assert [fact for fact in facts if fact not in said] == [], said


def test_words_are_those_of_the_table():
    answer = answer_to(classes(addition=added(0.61, 0.70, 0.723, 0.012, 0.05)))
    everything: list[Any] = [write_addition(answer, AMOUNTS)]
    everything += [*addition_sentences(answer, AMOUNTS), addition_table(answer, AMOUNTS)]
    text = " ".join(map(str, everything))
    assert "amounts" in text
    assert "reads" not in text


def test_tests_of_a_page_are_corrected_as_a_family_of_their_own():
    first = classes(addition=added(0.61, 0.70, 0.723, 0.03, 0.05))
    second = regression(addition=added(8.1, 7.0, 6.8, 0.2, 0.5, guess=9.0))
    without = regression(task="other")
    answers = list_answers([first, second, without])
    assert [one.addition and one.addition.corrected_p for one in answers] == [0.06, 0.2, None]
    said = write_addition(answers[0])
    assert "nothing" in said
    assert "p = 0.03; p = 0.06 when corrected for the 2 tests" in said
    # The tests against guessing are as many as without covariates.
    assert answers[0].verdict.tests == 3


def test_a_task_without_covariates_says_nothing_of_them():
    answer = answer_to(classes())
    assert [*addition_sentences(answer)] == []
    assert "addition" not in answer.report.model_dump_json()


def test_the_table_has_all_three_and_the_details_what_is_mixed():
    answer = answer_to(classes(addition=added(0.61, 0.70, 0.723, 0.012, 0.05)))
    table = addition_table(answer)
    assert [row[0] for row in table.rows] == ["age and sex at birth alone", "reads alone", "both"]
    assert table.rows[2][1] == "0.723 [0.673, 0.773]"
    details = " ".join(addition_sentences(answer))
    assert "features alone 50 %" in details
    assert "+0.023 (could be chance, p = 0.3)" in details
