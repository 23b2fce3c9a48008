"""Which sentences a page has of a task and of an encoder: those that its numbers ask for."""

from typing import Any

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

from aam.report.page.details import encoder_sentences, task_sentences

RECIPES = {"kernel": {"score": 5.0, "weight": 0.25}, "full": {"score": 4.5, "weight": 0.75}}
UNNESTED = {"score": 3.5, "difference": -0.5}
CHOSEN = {
    "score": 3.9,
    "learners": {"0": "random_forest", "1": "base", "2": "random_forest"},
    "comparison": comparison(0.1, 0.03),
}
LONE = {"column": None, "groups": None, "independent": True, "stated": True}


def said(report: dict[str, Any]) -> str:
    return "\n".join(task_sentences(report))


@pytest.mark.parametrize(
    ("report", "start"),
    [
        (regression(), "Samples of one host stay together in the folds"),
        (
            mixed(regression()),
            "The super learner, a weighted mean of all methods: MAE, mean of the folds 4.00.",
        ),
        (
            mixed(regression()),
            "Without AAM the super learner reaches 4.00. The score with AAM minus that",
        ),
        (mixed(regression(), unnested=UNNESTED), "The weights of the super learner for a fold"),
        (mixed(regression(), chosen=CHOSEN), "The one method that cross-validation within the"),
        (regression(labels=0.1), "AAM was trained on 10 % of the labels"),
        (regression(recipes=RECIPES), "AAM mixes these recipes: full 75 % (4.50 alone)"),
        (regression(unnested=UNNESTED), "The weights of AAM's recipes for a fold"),
        (
            regression(recipes=RECIPES, draws={"models": 5, "mean": 4.1, "sd": 0.2}),
            "5 networks that differ only in their initial weights",
        ),
        (regression(recipes=RECIPES), "Networks were trained from one draw of initial weights"),
        (
            regression(
                test={"n": 9, "mae_fold_mean": 6.0},
                baselines={"random_forest": {"test": {"mae_fold_mean": 7.0}}},
            ),
            "AAM on 9 held-out test samples: MAE 6.00 (random forest 7.00).",
        ),
        (regression(intervals={"width": None}), "There are too few samples for 90 %"),
        (regression(intervals={"test": {"coverage": 0.5}}), "In held-out test samples they do so"),
        (classes(), "90 % prediction sets of AAM contain the true class in 88.7 % of samples"),
        (classes(), "Calibration changes the Brier score of AAM from 0.200 to 0.163 (class"),
        (classes(), "In the table, predicted is chosen with"),
        (
            mixed(regression()),
            "Importances of ASVs are those of AAM alone; AAM has 16 % of the super",
        ),
        (
            regression(guessing=guessing(9.0, -0.1, 0.5)),
            "The ASVs that matter most are not shown",
        ),
    ],
)
def test_a_sentence_is_there_where_the_numbers_ask_for_it(report, start):
    lines = said(report).splitlines()
    assert any(line.startswith(start) for line in lines)
    plainer = regression(structure=LONE) if report["kind"] == "regression" else regression()
    assert not any(line.startswith(start) for line in said(plainer).splitlines())


def test_intervals_and_probabilities_are_those_of_the_method_that_leads():
    text = said(mixed(classes(), ece=0.3, calibrated_brier=0.1, intervals={"coverage": 0.95}))
    assert "prediction sets of the super learner contain the true class in 95.0 %" in text
    assert "the Brier score of the super learner from 0.200 to 0.100" in text
    assert "and the calibration error from 0.300 to 0.068; both" in text


def test_a_baseline_in_the_place_of_the_model_is_called_by_its_name():
    report = baseline_report(mixed(regression()))
    weights = {"kernel machine": 0.16, "random_forest": 0.84}
    text = said({**report, "super_learner": {**report["super_learner"], "weights": weights}})
    assert "random forest 84 %, kernel machine 16 %." in text
    assert "Without the kernel machine the super learner reaches 4.00." in text
    assert "The kernel machine alone: MAE" in text
    assert "Which ASVs matter most is computed for networks only" in text
    network_words = "AAM", "Transductive", "encoder", "recipes", "Importances", "draw"
    assert [word for word in network_words if word in text] == []
    assert "prediction sets of the kernel machine" in said(baseline_report(classes()))


def test_the_chosen_learner_is_counted_and_the_sign_decides_the_word():
    text = said(mixed(regression(), chosen=CHOSEN))
    assert "(random forest in 2 folds, AAM in 1 fold) reaches 3.90." in text
    assert "+0.1 (worse, p = 0.03)" in text
    better = merged(CHOSEN, {"comparison": {"difference": -0.1}})
    assert "-0.1 (better, p = 0.03)" in said(mixed(regression(), chosen=better))


def test_one_of_several_models_is_called_by_its_name():
    report = {**mixed(regression(recipes=RECIPES, labels=0.5)), "display_name": "AAM (base)"}
    text = said(report)
    assert text.replace("AAM (base)", "").count("AAM") == 0
    assert "AAM (base) alone: MAE" in text
    assert "random forest 84 %, AAM (base) 16 %." in text


@pytest.mark.parametrize(
    ("evaluation", "start"), [("transductive", "Transductive:"), ("inductive", "Inductive:")]
)
def test_a_score_says_what_the_encoder_may_have_seen(evaluation, start):
    text = said(regression(evaluation=evaluation))
    assert [one for one in ("Transductive:", "Inductive:") if one in text] == [start]


def test_a_start_from_elsewhere_may_have_seen_the_samples():
    text = said(regression(evaluation="inductive", start_directory="pretrained/model"))
    assert "Whether pretrained/model, from which the encoder started, has seen them" in text
    assert "no model saw any of the samples" not in text


ENCODER = {
    "held_out_samples": 3,
    "steps": 100,
    "wall_s": 90.0,
    "samples_per_s": 512.0,
    "parameters": 123456,
}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"unifrac_pearson": 0.91, "unifrac_mae": 0.04}, "Pearson r 0.910"),
        ({"nucleotide_accuracy": 0.8, "nucleotide_baseline_accuracy": 0.55}, "masked nucleotides"),
        ({"near_known_reads": 0.987}, "99 % of the reads lie near an ASV"),
        ({"steps": 0}, "used as it came. It has 123,456 parameters."),
    ],
)
def test_an_encoder_says_what_was_measured(changes, part):
    assert part in " ".join(encoder_sentences({**ENCODER, **changes}))
    assert part not in " ".join(encoder_sentences(ENCODER))
    is_trained = "Training took" in " ".join(encoder_sentences({**ENCODER, **changes}))
    assert is_trained == ("steps" not in changes)


@pytest.mark.parametrize(("steps", "said"), [(0, "of this study"), (9, "it was not trained on")])
def test_an_encoder_that_was_not_trained_held_no_samples_out(steps, said):
    report = {**ENCODER, "steps": steps, "unifrac_pearson": 0.91, "unifrac_mae": 0.04}
    text = " ".join(encoder_sentences(report))
    shown = [
        part for part in ("of this study agree", "it was not trained on agree") if part in text
    ]
    assert shown == [f"{said} agree"]
