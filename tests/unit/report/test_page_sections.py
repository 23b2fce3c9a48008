"""The sections of the page: the order of tasks, figures, tables, and the page around them."""

import html
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from page_reports import KERNEL, NETWORK, classes, comparison, guessing, regression, rival

from aam.config.names import FIRST
from aam.data.nouns import Nouns
from aam.data.table import TableFacts
from aam.evaluate.scores import is_better
from aam.evaluate.task_report import TaskReport
from aam.report.page.cautions import Caution
from aam.report.page.details import HIDDEN_IMPORTANCES
from aam.report.page.methods import MethodsText
from aam.report.page.render import (
    EncoderSection,
    PageFigure,
    Results,
    TaskSection,
    render_page,
    render_summary,
)
from aam.report.page.sections import AnswerFiles, task_sections
from aam.report.page.tables import in_training, prediction_table

SVG = '<svg viewBox="0 0 72 72">drawn</svg>'
TITLES = "Training curves", "Predictions", "The other methods", "Important ASVs"
FAILS = {"guessing": guessing(9.0, -0.1, 0.5)}
WORKS = {"guessing": guessing(9.0, -5.0, 0.001)}
PLATE = rival("plate")


IMPORTANCE = pd.DataFrame({"feature-id": ["ACGT"], "importance": [0.5]})


def files(
    report: TaskReport, importance: pd.DataFrame | None = IMPORTANCE, **changes: Any
) -> AnswerFiles:
    predictions = pd.DataFrame({"sample-id": ["a"], "fold": [0], "predicted": [1.5]})
    if len(report.columns) > 1:
        predictions = pd.concat([predictions.assign(target=name) for name in report.columns])
    figures = [PageFigure(title, "", SVG, link=f"{title[:3]}.svg") for title in TITLES]
    given = {
        "cross_validated": predictions,
        "importance": importance,
        "figures": figures,
        **changes,
    }
    return AnswerFiles(report, **given)


def sections(*reports: TaskReport) -> list[TaskSection]:
    return list(task_sections(files(report) for report in reports))


def test_tasks_and_targets_stand_in_the_order_of_the_configuration():
    reports = [regression(task=name) for name in ("weight", "age", "bmi")]
    assert [one.name for one in sections(*reports)] == ["weight", "age", "bmi"]
    (target,) = regression().targets
    targets = tuple(target.model_copy(update={"column": name}) for name in ("bmi", "age"))
    body = regression(task="body").model_copy(update={"targets": targets})
    assert [one.name for one in sections(body)] == ["body, bmi", "body, age"]


def test_verdicts_are_corrected_for_every_model_and_target_of_the_page():
    doubtful = {"guessing": guessing(9.0, -5.0, 0.03)}
    report = regression(networks=doubtful)
    other = regression(networks=doubtful, answer="other")
    pages = [sections(report), sections(report, other, classes())]
    assert pages[0][0].answer.startswith("Works: ")
    assert [one.answer.split(":")[0] for one in pages[1]] == ["Doubtful", "Doubtful", "Works"]


@pytest.mark.parametrize(
    ("report", "is_shown"),
    [
        (regression(), True),
        (regression(networks=FAILS), False),
        (regression(networks=FAILS, super_learner=WORKS), True),
        (regression(rivals=[PLATE]), False),
    ],
)
def test_importances_under_a_red_light_are_a_sentence(report, is_shown):
    (section,) = sections(report)
    tables = [table.title for table in section.tables]
    assert ("Important ASVs" in [figure.title for figure in section.figures]) == is_shown
    assert ("The ASVs that matter most to the AAM model for host age" in tables) == is_shown
    assert (HIDDEN_IMPORTANCES in section.sentences) != is_shown


@pytest.mark.parametrize("report", [regression(), regression(networks=FAILS)])
def test_importances_that_were_not_asked_for_are_a_sentence(report):
    (section,) = task_sections([files(report, importance=None)])
    assert not any("matter most" in table.title for table in section.tables)
    assert sum("importance: false" in text for text in section.sentences) == 1
    assert not any("matter most" in text for text in section.sentences)
    assert section.commands == []


def test_the_most_important_asvs_get_names_by_commands_where_they_have_no_taxa():
    report = regression()
    (section,) = sections(report)
    (commands,) = section.commands
    assert "key taxonomy" in commands.text
    imported, classified = (line.split() for line in commands.lines)
    fasta = "finetune/base/age/importance.fasta"
    assert imported[imported.index("--input-path") + 1] == fasta
    reads = classified[classified.index("--i-reads") + 1]
    assert imported[imported.index("--output-path") + 1] == reads
    text = html.unescape(render_page(Results("d", [section], [])))
    assert all(line in text for line in commands.lines)
    named = IMPORTANCE.assign(taxon="g__Blautia")
    for other in (files(report, importance=named), files(regression(networks=FAILS))):
        (section,) = task_sections([other])
        assert section.commands == []


def test_features_without_sequences_are_called_what_they_are():
    genera = Nouns.of_table(TableFacts(has_sequences=False, noun="genus"))
    (section,) = task_sections([files(regression())], genera)
    titles = [table.title for table in section.tables]
    assert "The genera that matter most to the AAM model for host age" in titles
    assert not any("ASV" in text for text in section.sentences)
    assert section.commands == []
    assert genera.rename_asvs("Of an ASV and its ASVs") == "Of a genus and its genera"


@pytest.mark.parametrize(("recipes", "is_shown"), [(KERNEL, False), (NETWORK, True)])
def test_training_curves_are_shown_where_a_network_was_trained(recipes, is_shown):
    (section,) = sections(regression(training={"recipes": recipes}))
    assert bool(section.training) == is_shown


def test_a_figure_says_whose_predictions_it_shows_and_links_to_those_of_other_methods():
    mixed = regression(super_learner={})
    for report, owner in ((mixed, "the super learner"), (regression(), "AAM")):
        (section,) = sections(report)
        figure = section.figures[0]
        assert figure.title == f"Predictions of {owner}"
        assert figure.caption.startswith(f"Predictions of {owner}")
        page = render_page(Results("d", [section], []))
        assert f'aria-label="Predictions of {owner}"' in page
        assert page.count('<a href="The.svg">The other methods</a>') == 1
        assert page.count("drawn</svg>") == 2, "the answer and the importances"
    alone = mixed.targets[0].model_copy(update={"methods": mixed.targets[0].methods[1:2]})
    (section,) = sections(mixed.model_copy(update={"targets": (alone,)}))
    assert section.linked == []


def test_tables_say_whose_they_are():
    titles = [table.title for table in sections(regression(super_learner={}))[0].tables]
    assert "Super learner minus each baseline: MAE, mean of the folds (lower is better)" in str(
        titles
    )
    assert "Cross-validated predictions of the super learner" in titles
    alone = [table.title for table in sections(regression())[0].tables]
    assert "Cross-validated predictions of AAM" in alone
    without = regression(networks={"comparisons": {}})
    assert not any("minus" in table.title for table in sections(without)[0].tables)


def test_a_title_names_intervals_where_there_are_some():
    without = regression(networks={"interval": None})
    titles = [sections(report)[0].tables[0].title for report in (regression(), without)]
    assert titles == [
        "Scores, the best first; in brackets 95 % intervals",
        "Scores, the best first",
    ]


def test_models_are_called_aam_by_their_names_only_where_there_are_several():
    report = regression(super_learner={})
    several = sections(report, regression(super_learner={}, answer="other"))
    assert [one.model for one in several] == ["AAM (base)", "AAM (other)"]
    assert [one.model for one in sections(report)] == [""]
    methods = [
        {row[0] for row in page_sections[0].tables[0].rows}
        for page_sections in (sections(report), several)
    ]
    assert {"AAM", "super learner", "random forest"} <= methods[0]
    assert {"AAM (other)", "super learner with AAM (other)", "random forest"} <= methods[1]
    titles = [table.title for table in several[1].tables]
    assert "The ASVs that matter most to the AAM (other) model for host age" in titles


@pytest.mark.parametrize(("p", "is_noted"), [(0.01, False), (None, True)])
def test_a_dash_in_a_table_has_a_note(p, is_noted):
    against = comparison(-1.0, p, wilcoxon_folds_p=p)
    networks = {"comparisons": {"random_forest": against}}
    (section,) = sections(regression(networks=networks))
    table = next(one for one in section.tables if "minus" in one.title)
    assert ("–" in table.rows[0]) == is_noted
    assert ("A dash (–): no test is possible" in table.note) == is_noted
    assert table.rows[0][2] == "4 of 5"
    pearson = None if is_noted else 0.5
    (section,) = sections(regression(networks={**networks, "scores": {"pearson": pearson}}))
    assert ("A dash (–): the score is not defined" in section.tables[0].note) == is_noted
    assert ("A dash (–)" in render_page(Results("d", [section], []))) == is_noted


def test_scores_of_probabilities_are_those_before_calibration():
    header = sections(classes())[0].tables[0].header
    assert "Brier score before calibration" in header
    assert "calibration error before calibration" in header


def test_samples_that_were_in_training_are_counted_and_marked():
    frame = pd.DataFrame({"sample-id": ["a", "b", "c"], "in_training": ["id", None, "reads"]})
    assert in_training(frame) == [True, False, True]
    assert in_training(frame[["sample-id"]]) == [False, False, False]
    assert prediction_table("new", frame).marked == {0, 2}
    assert prediction_table("new", frame[["sample-id"]]).marked == ()


@pytest.mark.parametrize(
    ("kind", "difference", "expected"),
    [
        ("regression", -1, True),
        ("regression", 0, False),
        ("regression", 1, False),
        ("classification", 1, True),
        ("ordinal", -1, False),
    ],
)
def test_an_error_is_better_where_it_is_lower(kind, difference, expected):
    assert is_better(kind, difference) == expected


def study() -> Results:
    """Return a page of four tasks: one of each verdict, and one that is confounded."""
    predictions = pd.DataFrame(
        {"sample-id": ["a", "b"], "predicted": [1.0, 2.0], "in_training": ["id", None]}
    )
    reports = [
        regression(super_learner={}),
        classes(task="doubt", networks={"guessing": guessing(0.2, 0.1, 0.033)}),
        regression(task="weight", networks=FAILS),
        classes(task="site", rivals=[PLATE]),
    ]
    first = files(reports[0], predictions={"new": predictions})
    return Results(
        dataset="mouth",
        tasks=list(task_sections([first, *map(files, reports[1:])])),
        encoders=[EncoderSection("base", "It is used as it came.")],
        cautions=[Caution("caution", "2 samples have too few reads.")],
        methods=MethodsText("Counts were rarefied [1].", ["A <work>."]),
    )


def test_a_page_has_the_verdicts_and_marks_what_training_had():
    text = " ".join(html.unescape(render_page(study())).split())
    for words in (
        ">Works: host age",
        ">Doubtful: city",
        ">Does not work: host age",
        ">Confounded: city",
        '<span class="light good">Good</span>',
        '<span class="light stop">Stop</span><span>plate predicts',
        '<tr class="seen"><td>a</td>',
        "<tr><td>b</td>",
        "Marked rows are samples that were in training.",
        "<li>A <work>.</li>",
    ):
        assert words in text
    assert text.count('class="light good"') == 1


def test_the_summary_has_the_answers_and_lights_of_the_page():
    results = replace(study(), left_out=["1 sample"], decisions=["NA was read as missing"])
    text = render_summary(results, page="report.html")
    for section in results.tasks:
        assert f"## {section.name}\n\n{section.answer}\n\n- {section.cautions[0].text}" in text
    for line in ("- 1 sample", "- NA was read as missing", f"- {results.cautions[0].text}"):
        assert line in text.splitlines()
    assert "**base**: It is used as it came." in text
    assert "(report.html)" in text
    several = sections(regression(), regression(answer="other"))
    text = render_summary(Results("d", several, []), page="report.html")
    assert text.count("## age") == 1
    assert "\n**AAM (other)**: Works" in text


def test_every_section_has_an_anchor_of_its_own():
    """Tasks may have names without Latin letters, or that of a section."""
    names = ["\N{CJK UNIFIED IDEOGRAPH-4F53}", "\N{CJK UNIFIED IDEOGRAPH-8EAB}", "data"]
    tasks = sections(*(regression(task=name) for name in names))
    page = render_page(replace(study(), tasks=tasks))
    anchors = re.findall(r'<h2 id="([^"]*)"', page)
    assert len(anchors) == len({*anchors}) > 3
    assert {*re.findall(r'href="#([^"]*)"', page)} <= {*re.findall(r'id="([^"]*)"', page)}


def test_no_line_ends_within_a_percentage_or_a_p_value():
    page = html.unescape(render_page(study()))
    answers = " ".join(re.findall(r'<p class="sentence">(.*?)</p>', page))
    assert "\u00a0%" in answers
    assert "p\u00a0=\u00a00.3" in answers
    assert re.search(r"\d %|\bp [<>=]", answers) is None


def test_what_was_decided_for_the_user_stands_on_the_page():
    decided = replace(study(), decisions=["m.tsv: 'NA' in 3 cells was read as <missing>."])
    text = html.unescape(render_page(decided))
    assert text.index('<h2 id="decided">') < text.index("'NA' in 3 cells was read as <missing>.")
    assert 'id="decided"' not in render_page(study())


def test_an_answer_without_networks_has_no_importances_and_no_encoders():
    mixing = {"weights": {"random_forest": 1.0}, "without_networks": None}
    report = regression(answer=FIRST, super_learner={}, mixing=mixing)
    (section,) = task_sections([files(report, importance=None, figures=[])])
    assert [one.title for one in section.tables][1].startswith("Super learner minus each baseline")
    assert not any("matter most" in one.title for one in section.tables)
    results = Results("d", [section], [], networks="They follow.", methods=MethodsText("", []))
    text = render_page(results)
    assert text.index("They follow.") > text.index('id="provenance"')
    assert "AAM" not in text.replace("AAM in 1 fold", "")
    assert 'id="encoders"' not in text
    assert 'id="networks"' not in render_page(replace(results, networks=""))
