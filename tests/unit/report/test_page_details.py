"""Which sentences a page has of a task and of an encoder, and the facts that they name."""

from typing import Any

import pandas as pd
import pytest
from page_reports import (
    baseline_report,
    classes,
    comparison,
    guessing,
    merged,
    mixed,
    regression,
)

from aam.report.page.details import (
    HIDDEN_IMPORTANCES,
    encoder_sentences,
    left_out_sentences,
    task_sentences,
)

NETWORK = {"full": {"score": 4.5, "weight": 1.0}}
RECIPES = {"kernel": {"score": 5.0, "weight": 0.25}, "full": {"score": 4.5, "weight": 0.75}}
UNNESTED = {"score": 3.5, "difference": -0.5}
CHOSEN = {
    "score": 3.9,
    "learners": {"0": "random_forest", "1": "base", "2": "random_forest"},
    "comparison": comparison(0.1, 0.03),
}


def text_of(report: dict[str, Any]) -> str:
    return "\n".join(task_sentences(report))


def changed(plain: dict[str, Any], report: dict[str, Any]) -> str:
    """Return the sentences that the second of two reports gets and the first does not."""
    old = list(task_sentences(plain))
    return "\n".join(sentence for sentence in task_sentences(report) if sentence not in old)


@pytest.mark.parametrize(
    ("plain", "changes", "facts"),
    [
        (regression(), {"labels": 0.125}, ["AAM", "12.5 %"]),
        (regression(), {"unnested": UNNESTED}, ["AAM's recipes", "3.50", "better by 0.5"]),
        (regression(recipes=NETWORK), {"recipes": RECIPES}, ["full 75 % (4.50", "nel 25 % (5.00"]),
        (
            regression(recipes=NETWORK),
            {"draws": {"models": 5, "mean": 4.1, "sd": 0.2}},
            ["5 networks", "4.10 ± 0.200"],
        ),
        (
            regression(),
            {
                "test": {"n": 9, "mae_fold_mean": 6.0},
                "baselines": {"random_forest": {"test": {"mae_fold_mean": 7.0}}},
            },
            ["AAM on 9", "6.00", "random forest 7.00"],
        ),
        (regression(), {"intervals": {"test": {"coverage": 0.5}}}, ["50.0 %"]),
        (regression(), {"evaluation": "inductive"}, ["Inductive"]),
        (
            regression(evaluation="inductive"),
            {"start_directory": "pretrained/model"},
            ["Inductive", "pretrained/model"],
        ),
        (mixed(regression()), {"super_learner": {"unnested": UNNESTED}}, ["super learner", "3.50"]),
        (
            mixed(regression()),
            {"super_learner": {"chosen": CHOSEN}},
            ["random forest in 2 folds, AAM in 1 fold", "3.90", "+0.1 (worse, p = 0.03)"],
        ),
    ],
)
def test_what_is_known_of_a_task_is_one_sentence_with_its_facts(plain, changes, facts):
    sentence = changed(plain, merged(plain, changes))
    assert "\n" not in sentence
    assert [fact for fact in facts if fact not in sentence] == []


def test_draws_of_initial_weights_are_a_limit_where_a_network_had_only_one():
    assert "one draw" in changed(regression(), regression(recipes=NETWORK))
    draws = {"models": 5, "mean": 4.1, "sd": 0.2}
    assert "one draw" not in text_of(regression(recipes=NETWORK, draws=draws))


@pytest.mark.parametrize(
    ("structure", "facts"),
    [
        ({"column": None, "groups": None, "independent": True}, []),
        ({"column": "host_id", "groups": 9, "independent": True}, ["host id"]),
        ({"column": "host_id", "groups": 9, "independent": False}, ["host id", "9 groups"]),
    ],
)
def test_a_task_says_which_samples_belong_together(structure, facts):
    sentence = next(iter(task_sentences(regression(structure=structure))))
    assert [fact for fact in ("host id", "9 groups") if fact in sentence] == facts


def test_a_super_learner_names_its_score_and_weights_and_what_the_model_adds():
    text = text_of(mixed(regression(mae_fold_mean=4.5), mae_fold_mean=4.0))
    assert "4.00. Its weights for new samples: random forest 84 %, AAM 16 %." in text
    assert "elastic" not in text
    assert "Without AAM the super learner reaches 4.50" in text
    assert "-0.1 (could be chance, p = 0.4)" in text
    assert "AAM alone: MAE, mean of the folds 4.50 ± 0.500" in text
    weightless = mixed(regression(), weights={"base": 0.0, "random_forest": 1.0})
    assert "random forest 100 %, AAM 0 %." in text_of(weightless)


@pytest.mark.parametrize(
    ("report", "difference", "p", "said"),
    [
        (regression(), -0.1, 0.01, "-0.1 (better, p = 0.01)"),
        (regression(), 0.1, 0.01, "+0.1 (worse, p = 0.01)"),
        (regression(), 0.1, 0.05, "+0.1 (could be chance, p = 0.05)"),
        (regression(), 0.1, None, "+0.1 (no test"),
        (classes(), 0.1, 0.01, "+0.1 (better, p = 0.01)"),
        (classes(), -0.1, 0.01, "-0.1 (worse, p = 0.01)"),
        (classes(), 0.0, 0.01, "+0 (could be chance"),
    ],
)
def test_the_sign_of_a_difference_and_its_p_value_decide_the_word(report, difference, p, said):
    against = {"comparison": comparison(difference, p)}
    assert said in text_of(mixed(report, without_own=against))


@pytest.mark.parametrize(
    ("report", "difference", "said"),
    [
        (regression(), -0.5, "better by 0.5, which is not real"),
        (regression(), 0.5, "no better"),
        (classes(), 0.05, "better by 0.05, which is not real"),
    ],
)
def test_weights_that_saw_the_fold_are_said_to_be_too_good(report, difference, said):
    report = merged(report, {"unnested": {"score": 0.5, "difference": difference}})
    assert said in text_of(report)


def test_intervals_and_probabilities_are_those_of_the_method_that_leads():
    report = mixed(classes(), ece=0.3, calibrated_brier=0.1, intervals={"coverage": 0.95})
    sets, calibration = (
        next(one for one in task_sentences(report) if fact in one)
        for fact in ("95.0 %", "Brier score")
    )
    for fact in ("90 % prediction sets of the super learner", "85.0 % to 92.0 %", "2.50 classes"):
        assert fact in sets
    for fact in ("the super learner from 0.200 to 0.100", "0.166", "from 0.300 to 0.068"):
        assert fact in calibration
    assert "likeliest" in text_of(classes())
    assert "likeliest" not in text_of(regression())


def test_intervals_of_numbers_have_a_width_with_its_unit_where_there_are_enough_samples():
    width = "12.50 years"
    assert width in text_of(regression())
    too_few = text_of(regression(intervals={"width": None}))
    assert width not in too_few
    assert "too few samples for 90 %" in too_few


@pytest.mark.parametrize(
    ("report", "is_explained", "said"),
    [
        (regression(), True, "those of AAM."),
        (mixed(regression()), True, "AAM has 16 % of the super learner's weight"),
        (regression(guessing=guessing(9.0, -0.1, 0.5)), True, HIDDEN_IMPORTANCES),
        (regression(), False, "importance: false"),
        (baseline_report(regression()), False, "networks only"),
    ],
)
def test_a_task_says_whose_importances_it_shows_or_why_it_shows_none(report, is_explained, said):
    *_, last = task_sentences(report, is_explained=is_explained)
    assert said in last


def test_a_baseline_in_the_place_of_the_model_is_called_by_its_name():
    report = baseline_report(mixed(regression()))
    weights = {"kernel machine": 0.16, "random_forest": 0.84}
    mixture = {**report["super_learner"], "weights": weights}
    text = text_of({**report, "super_learner": mixture})
    assert "random forest 84 %, kernel machine 16 %." in text
    assert "Without the kernel machine" in text
    assert "The kernel machine alone: MAE" in text
    network_words = "AAM", "Transductive", "encoder", "recipes", "Importances", "draw"
    assert [word for word in network_words if word in text] == []
    assert "sets of the kernel machine" in text_of(baseline_report(classes()))


def test_one_of_several_models_is_called_by_its_name():
    report = {**mixed(regression(recipes=RECIPES, labels=0.5)), "display_name": "AAM (base)"}
    text = text_of(report)
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
    plain = list(encoder_sentences(ENCODER))
    (sentence,) = (one for one in encoder_sentences({**ENCODER, **changes}) if one not in plain)
    assert [fact for fact in facts if fact not in sentence] == []


def test_an_encoder_that_was_not_trained_held_no_samples_out():
    distances, last = encoder_sentences({**ENCODER, **DISTANCES, "steps": 0})
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
