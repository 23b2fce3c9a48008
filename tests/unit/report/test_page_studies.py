"""What the page says, shows and draws of a task in studies that were never seen."""

import pytest
from page_reports import answer_to, classes, guessing, regression

from aam.evaluate.task_report import Answered, Studies, StudyScore, TaskReport
from aam.report.figures import studies as figure
from aam.report.page.answers import list_answers
from aam.report.page.cautions import list_cautions
from aam.report.page.unseen_studies import studies_sentences, studies_tables, write_studies


def scored(unseen: float, p: float | None, guess: float = 0.5, studies: int = 6) -> Studies:
    """Return the scores of some studies, the last of which has one class."""
    interval = None if p is None else (unseen - 0.1, unseen + 0.1)
    of_unseen = guessing(guess, unseen - guess, p, interval)
    seen = guessing(guess, 0.3, 0.001, (0.75, 0.85))
    each = [
        StudyScore(study=f"clinic {i}", n=30 - i, within=0.8, unseen=unseen, guessing=guess)
        for i in range(studies)
    ]
    alone = StudyScore(study="clinic 9", n=4, within=None, unseen=None, guessing=None)
    return Studies(
        column="clinic_name",
        studies=(*each, alone),
        within=Answered(score=0.8, guessing=seen),
        unseen=Answered(score=unseen, guessing=of_unseen),
    )


def asked(report: TaskReport, studies: Studies) -> TaskReport:
    """Return the report of the further question about a task."""
    target = report.targets[0].model_copy(update={"studies": studies})
    return report.model_copy(update={"task": f"{report.task}@studies", "targets": (target,)})


@pytest.mark.parametrize(
    ("studies", "facts", "light"),
    [
        (
            scored(0.62, 0.004),
            ["Within the 6 studies (values of clinic name): right in 80.0 % (95 % interval 75.0 %"]
            + ["in a study never seen: 62.0 % (95 % interval 52.0 % to 72.0 %; guessing: 50.0 %)"]
            + ["better than guessing (p = 0.004)"],
            None,
        ),
        (scored(0.54, 0.004), ["better than guessing"], "8 % of the way"),
        (scored(0.54, 0.3), ["could be chance (p = 0.3)"], "may not hold outside of these studies"),
        (scored(0.44, 0.01), ["worse than guessing (p = 0.01)"], "may not hold outside"),
        (scored(0.9, None, studies=4), ["cannot be tested with 4: 5 are needed"], None),
    ],
)
def test_the_page_answers_twice(studies, facts, light):
    report = classes()
    answer = answer_to(report, asked(report, studies))
    said = write_studies(answer)
    assert [fact for fact in facts if fact not in said] == [], said
    lights = [one.text for one in list_cautions(answer) if "study never seen" in one.text]
    assert len(lights) == (light is not None)
    assert all(light in text for text in lights)
    assert any("One study has" in sentence for sentence in studies_sentences(answer))


def test_a_second_question_changes_nothing_of_the_first():
    report = classes()
    other = regression()
    alone = list_answers([report, other])
    both = list_answers([report, asked(report, scored(0.62, 0.04)), other])
    assert [one.verdict for one in both] == [one.verdict for one in alone]
    assert both[0].further["studies"].verdict.corrected_p == 0.04
    assert not both[1].further
    assert write_studies(both[1]) == ""
    assert not list(studies_tables(both[1]))


def test_tables_have_every_study_and_every_method():
    report = classes()
    answer = answer_to(report, asked(report, scored(0.62, 0.004)))
    by_study, methods = studies_tables(answer)
    assert len(by_study.rows) == 7
    assert by_study.rows[0] == ["clinic 0", "30", "0.620", "0.800", "0.500"]
    assert by_study.rows[-1][2:] == ["–", "–", "–"]
    assert len(methods.rows) == len(answer.target.methods)


@pytest.mark.parametrize("report", [classes, regression])
def test_the_figure_names_every_study_and_has_no_bar_for_one_class(report, tmp_path):
    path = tmp_path / "studies.svg"
    figure.draw(asked(report(), scored(0.62, 0.004)), path)
    drawn = path.read_text()
    for i in range(6):
        assert f"clinic {i} (n={30 - i})" in drawn
    assert "clinic 9 (n=4)" in drawn
    assert drawn.count("one class: no score") == 1
    assert drawn.count("0.62 (0.80)") == 6
