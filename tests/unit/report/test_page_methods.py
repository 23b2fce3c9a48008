"""The methods name what was done, and nothing else."""

from typing import Any

import pytest
from page_reports import baseline_report, classes, guessing, merged, mixed, regression

from aam.report.page.methods import REFERENCES, methods_text

FOLDS = {"column": None, "groups": "host", "stratified": False}
SETTINGS: dict[str, Any] = {
    "depth": 1000,
    "views": 2,
    "drops_long_branches": False,
    "metrics": ["unweighted"],
    "models": {
        "base": {"encoder": "bdh", "width": 64, "asv_layers": 2, "sample_layers": 3, "start": None}
    },
    "tasks": {
        "age": {
            "columns": ["host_age"],
            "where": {},
            "kind": "regression",
            "folds": FOLDS,
            "test_fraction": 0.0,
            "importance": True,
        },
        "city": {
            "columns": ["city"],
            "where": {},
            "kind": "classification",
            "folds": FOLDS,
            "test_fraction": 0.0,
            "importance": True,
        },
    },
}
RECIPES = {"kernel": {"score": 5.0, "weight": 0.25}, "full": {"score": 4.5, "weight": 0.75}}


def written(
    changes: dict[str, Any] | None = None,
    reports: tuple[dict[str, Any], ...] = (),
    steps: int = 100,
) -> str:
    methods = methods_text(
        merged(SETTINGS, changes or {}),
        encoders={"base": {"parameters": 1600, "steps": steps, "nucleotide_accuracy": 0.9}},
        reports=reports or (regression(),),
        versions={"aam": "0.1"},
    )
    return "\n".join([methods.text, *methods.references])


def model(**changes: Any) -> dict[str, Any]:
    return {"models": {"base": changes}}


def division(**changes: Any) -> dict[str, Any]:
    return {"tasks": {"age": {"folds": changes}}}


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"changes": {"views": 1}}, "(1 draw)"),
        ({"changes": {"metrics": ["bray_curtis"]}}, "(Bray-Curtis)"),
        ({"changes": division(stratified=True)}, "stratified"),
        (
            {"changes": division(groups=None, column="study")},
            "leaves out one study",
        ),
        ({"changes": model(start="other")}, "weights of other"),
        ({"steps": 0}, "without training on this study"),
        ({"reports": (regression(recipes=RECIPES),)}, "2 recipes"),
        ({"reports": (regression(recipes=RECIPES),)}, "all its weights trained further"),
        ({"reports": (regression(start="scratch"),)}, "trained from scratch"),
        ({"reports": (regression(evaluation="inductive"),)}, "per fold, without"),
        ({"reports": (mixed(regression()),)}, "super learner mixes AAM"),
        (
            {"reports": (mixed(regression(), unnested={"score": 4.0}),)},
            "rest on no model that saw the fold",
        ),
        ({"reports": (regression(), classes())}, "2 tests"),
        ({"changes": {"drops_long_branches": True}}, "0.6 substitutions per site"),
        (
            {"changes": {"tasks": {"age": {"where": {"site": ["gut", "mouth"], "sex": ["f"]}}}}},
            "200 samples with site gut or mouth and sex f)",
        ),
        ({"changes": {"tasks": {"age": {"test_fraction": 0.2}}}}, "20 %"),
        ({"reports": (classes(),)}, "Prediction sets are"),
        ({"reports": (classes(),)}, "Probabilities of classes"),
        (
            {"reports": (regression(structure={"independent": True}),)},
            "draws of samples.",
        ),
    ],
)
def test_a_sentence_is_there_where_it_was_done(given, part):
    assert part in written(**given)
    assert part not in written()


@pytest.mark.parametrize(
    "part",
    [
        "rarefied to 1000 reads per sample (2 draws)",
        "host_age (a regression of 200 samples) was predicted in 5-fold",
        "5-fold cross-validation, samples of one host in one fold",
        "In this analysis, AAM was a kernel machine (support vectors",
        "trained on this study without labels for 100 steps",
        "integrated gradients",
        "draws of whole groups of samples",
        "Prediction intervals are cross-conformal",
    ],
)
def test_the_methods_of_a_common_study_are_named(part):
    assert part in written()


def test_intervals_and_importances_are_named_where_a_task_has_some():
    without = {"bootstrap": {"mae_fold_mean": None}}
    none = regression(**without)
    assert "Intervals of scores" not in written(reports=(none,))
    assert "draws of whole groups of samples." in written(reports=(none, regression()))
    # The interval of the model stands in the table of scores.
    assert "Intervals of scores" in written(reports=(mixed(regression(), **without),))
    fails = regression(guessing=guessing(9.0, -0.1, 0.5))
    assert "importance" not in written(reports=(fails,))
    assert "importance" in written(reports=(fails, regression()))
    not_explained = {"tasks": {"age": {"importance": False}}}
    assert "importance" not in written(not_explained, reports=(regression(),))


def test_a_task_is_named_by_its_columns_and_kind():
    several = {"tasks": {"age": {"columns": ["age", "bmi"]}}}
    assert "age, bmi (a regression of 200 samples) were predicted in" in written(several)
    text = written(reports=({**classes(), "task": "age", "kind": "ordinal"},))
    assert "(an ordinal classification of 200 samples) was predicted" in text


def test_a_kernel_machine_is_named_where_one_was_used():
    partial = {"partial": {"score": 5.0, "weight": 1.0}}
    report = {**regression(), "recipes": partial}
    assert "kernel machine" not in written(reports=(report,))
    assert REFERENCES["svm"] not in written(reports=(report,))
    assert REFERENCES["svm"] in written()


def test_nucleotides_are_named_where_they_were_learned():
    assert "to predict distances between samples and masked nucleotides." in written()
    methods = methods_text(SETTINGS, {"base": {"parameters": 9, "steps": 1}}, [], {"aam": "1"})
    assert "to predict distances between samples." in methods.text


def test_encoders_are_called_as_their_models_are():
    assert "The encoder of AAM is a hierarchical" in written()
    assert "The encoder of AAM (base) is" in written({"models": {"other": {"width": 8}}})


def test_works_are_numbered_in_the_order_of_their_citations_and_none_is_left_over():
    methods = methods_text(
        merged(SETTINGS, {"metrics": [], **division(groups="[unifrac, host]")}),
        encoders={},
        reports=[regression()],
        versions={},
    )
    assert methods.references[0] == REFERENCES["svm"]
    assert REFERENCES["unifrac"] not in methods.references
    assert REFERENCES["attention"] not in methods.references
    assert "[unifrac, host]" in methods.text
    for number, _ in enumerate(methods.references, start=1):
        assert (
            f"[{number}]" in methods.text
            or f", {number}]" in methods.text
            or f"[{number}," in methods.text
        )


def test_a_dataset_without_tasks_has_methods():
    methods = methods_text(SETTINGS, {"base": {"parameters": 9, "steps": 1}}, [], {"aam": "1"})
    assert "predicted in" not in methods.text
    assert "t-test" not in methods.text


def test_without_networks_the_methods_name_none():
    methods = methods_text(
        {**SETTINGS, "models": {}},
        encoders={},
        reports=(baseline_report(mixed(regression())),),
        versions={"aam": "0.1"},
    )
    text = methods.text
    assert "The method that all others were compared with was a kernel machine" in text
    assert "A super learner mixes all methods but the constant" in text
    assert "integrated gradients" not in text
    assert "AAM mixes" not in text
