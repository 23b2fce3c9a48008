"""Which sentences a page has of a task and of an encoder, and the facts that they name."""

import pandas as pd
import pytest
from page_reports import (
    CALIBRATED,
    NETWORK,
    RECIPES,
    answer_to,
    classes,
    comparison,
    guessing,
    regression,
)

from aam.config.names import FIRST
from aam.evaluate.task_report import (
    CoverageOfTest,
    Draws,
    TaskReport,
    Unnested,
    WithoutNetworks,
)
from aam.report.page.details import HIDDEN_IMPORTANCES, left_out_sentences, task_sentences
from aam.report.page.encoders import EncoderReport, encoder_sentences

UNNESTED = Unnested(score=3.5, difference=-0.5)


def text_of(report: TaskReport) -> str:
    return "\n".join(task_sentences(answer_to(report)))


def added(plain: TaskReport, report: TaskReport) -> str:
    """Return the sentences that the second of two reports gets and the first does not."""
    old = text_of(plain).splitlines()
    return "\n".join(sentence for sentence in text_of(report).splitlines() if sentence not in old)


TESTED = regression().targets[0].method("base").model_copy(update={"n": 9})
WORSE = {**TESTED.scores, "mae_fold_mean": 7.0}


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"training": {"labels": 0.125}}, ["AAM", "12.5 %"]),
        ({"training": {"unnested": UNNESTED}}, ["AAM's recipes", "3.50", "better by 0.5"]),
        (
            {
                "networks": {"test": TESTED},
                "of_baselines": {"test": TESTED.model_copy(update={"scores": WORSE})},
            },
            ["AAM on 9", "4.00", "random forest 7.00"],
        ),
        ({"coverage": {"test": CoverageOfTest(n=9, coverage=0.5, size=1)}}, ["50.0 %"]),
        ({"training": {"evaluation": "inductive"}}, ["Inductive"]),
        (
            {"training": {"evaluation": "inductive", "start_directory": "pretrained/model"}},
            ["Inductive", "pretrained/model"],
        ),
    ],
)
def test_what_is_known_of_a_task_is_one_sentence_with_its_facts(changes, facts):
    sentence = added(regression(), regression(**changes))
    assert "\n" not in sentence
    assert [fact for fact in facts if fact not in sentence] == []


def test_recipes_and_draws_of_networks_have_their_scores_and_one_draw_is_a_limit():
    mixed = text_of(regression(training={"recipes": RECIPES}))
    assert "full 75 % (4.50 alone), kernel 25 % (5.00 alone)" in mixed
    assert "one draw" in text_of(regression(training={"recipes": NETWORK}))
    draws = Draws(networks=5, mean=4.1, sd=0.2)
    text = text_of(regression(training={"recipes": NETWORK, "draws": draws}))
    assert "5 networks" in text
    assert "4.10 ± 0.200" in text
    assert "one draw" not in text
    assert "one draw" not in text_of(regression())


@pytest.mark.parametrize(
    ("structure", "facts"),
    [
        ({"column": None, "groups": None, "independent": True}, []),
        ({"column": "host_id", "groups": 9, "independent": True}, ["host id"]),
        ({"column": "host_id", "groups": 9, "independent": False}, ["host id", "9 groups"]),
    ],
)
def test_a_task_says_which_samples_belong_together(structure, facts):
    sentence = text_of(regression(structure=structure)).splitlines()[0]
    assert [fact for fact in ("host id", "9 groups") if fact in sentence] == facts


def test_a_super_learner_names_its_score_and_weights_and_what_networks_add():
    text = text_of(regression(super_learner={"scores": {"mae_fold_mean": 3.75}}))
    assert "3.75. Its weights for new samples: random forest 84 %, AAM 16 %." in text
    assert "elastic" not in text
    assert "Without AAM the super learner reaches 4.25" in text
    assert "-0.1 (could be chance, p = 0.4)" in text
    assert "AAM alone: MAE, mean of the folds 4.00 ± 0.500" in text
    assert "(random forest in 2 folds, AAM in 1 fold) reaches 3.90" in text
    assert "+0.1 (worse, p = 0.03)" in text
    weights = {"base": 0.0, "random_forest": 1.0}
    weightless = text_of(regression(super_learner={}, mixing={"weights": weights}))
    assert "random forest 100 %, AAM 0 %." in weightless


@pytest.mark.parametrize(
    ("make", "difference", "p", "said"),
    [
        (regression, -0.1, 0.01, "-0.1 (better, p = 0.01)"),
        (regression, 0.1, 0.01, "+0.1 (worse, p = 0.01)"),
        (regression, 0.1, 0.05, "+0.1 (could be chance, p = 0.05)"),
        (regression, 0.1, None, "+0.1 (no test"),
        (classes, 0.1, 0.01, "+0.1 (better, p = 0.01)"),
        (classes, -0.1, 0.01, "-0.1 (worse, p = 0.01)"),
        (classes, 0.0, 0.01, "+0 (could be chance"),
    ],
)
def test_the_sign_of_a_difference_and_its_p_value_decide_the_word(make, difference, p, said):
    without = WithoutNetworks(score=4.0, comparison=comparison(difference, p))
    assert said in text_of(make(super_learner={}, mixing={"without_networks": without}))


@pytest.mark.parametrize(
    ("make", "difference", "said"),
    [
        (regression, -0.5, "better by 0.5, which is not real"),
        (regression, 0.5, "no better"),
        (classes, 0.05, "better by 0.05, which is not real"),
    ],
)
def test_weights_that_saw_the_fold_are_said_to_be_too_good(make, difference, said):
    unnested = Unnested(score=0.5, difference=difference)
    assert said in text_of(make(super_learner={}, mixing={"unnested": unnested}))


def test_intervals_and_probabilities_are_those_of_the_method_that_leads():
    calibrated = CALIBRATED.model_copy(update={"brier": 0.1})
    report = classes(super_learner={"scores": {"ece": 0.3}, "calibrated": calibrated})
    sentences = text_of(report).splitlines()
    sets, calibration = (
        next(one for one in sentences if fact in one) for fact in ("prediction sets", "Brier score")
    )
    for fact in ("90 %", "of the super learner", "88.7 %", "85.0 % to 92.0 %", "2.50 classes"):
        assert fact in sets
    for fact in ("the super learner from 0.200 to 0.100", "0.166", "from 0.300 to 0.068"):
        assert fact in calibration
    assert "likeliest" in text_of(classes())
    assert "likeliest" not in text_of(regression())


def test_intervals_of_numbers_have_a_width_with_its_unit_where_there_are_enough_samples():
    width = "12.50 years"
    assert width in text_of(regression())
    too_few = text_of(regression(coverage={"size": None}))
    assert width not in too_few
    assert "too few samples for 90 %" in too_few


@pytest.mark.parametrize(
    ("report", "is_explained", "said"),
    [
        (regression(), True, "those of AAM."),
        (regression(super_learner={}), True, "AAM has 16 % of the super learner's weight"),
        (
            regression(networks={"guessing": guessing(9.0, -0.1, 0.5)}),
            True,
            HIDDEN_IMPORTANCES,
        ),
        (regression(), False, "importance: false"),
    ],
)
def test_a_task_says_whose_importances_it_shows_or_why_it_shows_none(report, is_explained, said):
    *_, last = task_sentences(answer_to(report), is_explained=is_explained)
    assert said in last


def test_an_answer_without_networks_names_none():
    mixing = {"weights": {"kernel_clr": 0.16, "random_forest": 0.84}, "without_networks": None}
    text = text_of(regression(answer=FIRST, super_learner={}, mixing=mixing))
    assert "random forest 84 %, kernel" in text
    network_words = "AAM alone", "Without", "Transductive", "encoder", "recipes", "Importances"
    assert [word for word in network_words if word in text] == []
    single = classes(answer=FIRST)
    assert "sets of the majority" in text_of(single)
    assert "The majority class alone: balanced accuracy 0.900" in text_of(single)


def test_one_of_several_models_is_called_by_its_name():
    training = {"recipes": RECIPES, "labels": 0.5}
    report = regression(super_learner={}, training=training)
    text = "\n".join(task_sentences(answer_to(report, regression(answer="other"))))
    assert text.replace("AAM (base)", "").count("AAM") == 0
    assert "random forest 84 %, AAM (base) 16 %." in text


ENCODER = {
    "held_out_samples": 3,
    "steps": 100,
    "wall_s": 90.0,
    "samples_per_s": 512.0,
    "parameters": 123456,
}
DISTANCES = {"unifrac_pearson": 0.91, "unifrac_mae": 0.04}


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        (DISTANCES, ["3 samples", "not trained on", "0.910", "0.04"]),
        ({"nucleotide_accuracy": 0.8, "nucleotide_baseline_accuracy": 0.55}, ["80.0 %", "55.0 %"]),
        ({"near_known_reads": 0.987}, ["99 %"]),
        ({"samples_per_s": None}, ["100 steps", "1.5 minutes", "123,456"]),
        ({"steps": 0}, ["not trained on this study", "123,456"]),
    ],
)
def test_an_encoder_says_what_was_measured(changes, facts):
    plain = list(encoder_sentences(EncoderReport(**ENCODER)))
    (sentence,) = (
        one
        for one in encoder_sentences(EncoderReport(**{**ENCODER, **changes}))
        if one not in plain
    )
    assert [fact for fact in facts if fact not in sentence] == []


def test_an_encoder_that_was_not_trained_held_no_samples_out():
    distances, last = encoder_sentences(EncoderReport(**{**ENCODER, **DISTANCES, "steps": 0}))
    assert "3 samples of this study" in distances
    assert "minutes" not in last


def test_what_was_left_out_is_counted_by_its_reason():
    same = ["same sequence as a", "same sequence as b", "no reads"]
    imported = pd.DataFrame({"what": "feature", "why": same})
    rarefied = pd.DataFrame({"depth": [9]})
    said = list(left_out_sentences([imported, rarefied], drops_long_branches=False))
    assert [sentence.split(" with ")[0] for sentence in said] == [
        "1 feature",
        "2 features",
        "1 sample",
    ]
    assert "fewer than 9 reads" in said[2]
    with_branches = list(left_out_sentences([imported, rarefied], drops_long_branches=True))
    assert "long_branches: drop" in with_branches[0]
    assert with_branches[1:] == said
