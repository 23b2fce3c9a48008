"""The methods name what was done, and nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from page_reports import NETWORK, RECIPES, classes, guessing, regression

from aam.config.names import FIRST
from aam.config.settings.page import PageSettings
from aam.evaluate.task_report import TaskReport
from aam.report.page.answers import list_answers
from aam.report.page.encoders import EncoderReport
from aam.report.page.methods import REFERENCES, methods_text

FOLDS = {"column": None, "groups": "host", "stratified": False}
SETTINGS: dict[str, Any] = {
    "depth": 1000,
    "views": 2,
    "drops_long_branches": False,
    "networks": {"state": "shown"},
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


def encoder(**changes: Any) -> EncoderReport:
    plain = {"parameters": 1600, "steps": 100, "wall_s": 1, "samples_per_s": 9}
    return EncoderReport(**{**plain, "held_out_samples": 9, "nucleotide_accuracy": 0.9, **changes})


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with changes; those of mappings change single keys."""
    result = dict(settings)
    for key, value in changes.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = merged(old, value) if both else value
    return result


def written(
    changes: Mapping[str, Any] = {}, reports: Sequence[TaskReport] = (), steps: int = 100
) -> str:
    methods = methods_text(
        PageSettings(**merged(SETTINGS, changes)),
        encoders={"base": encoder(steps=steps)},
        answers=list_answers(reports or [regression()]),
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
        ({"reports": (regression(training={"recipes": RECIPES}),)}, "2 recipes"),
        (
            {"reports": (regression(training={"recipes": RECIPES}),)},
            "all its weights trained further",
        ),
        ({"reports": (regression(training={"start": "scratch"}),)}, "trained from scratch"),
        ({"reports": (regression(training={"evaluation": "inductive"}),)}, "per fold, without"),
        ({"reports": (regression(super_learner={}),)}, "super learner mixes AAM"),
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
            "t-tests over samples,",
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
        "In this analysis, AAM was a kernel head (support vectors",
        "trained on this study without labels for 100 steps",
        "integrated gradients",
        "t-tests over whole groups of samples",
        "Prediction intervals are cross-conformal",
    ],
)
def test_the_methods_of_a_common_study_are_named(part):
    assert part in written()


def test_intervals_and_importances_are_named_where_a_task_has_some():
    none = regression(networks={"interval": None})
    assert "intervals of scores" not in written(reports=(none,))
    assert "intervals of scores" in written(reports=(none, regression()))
    # The interval of the networks stands in the table of scores.
    mixture = regression(super_learner={"interval": None})
    assert "intervals of scores" in written(reports=(mixture,))
    fails = regression(networks={"guessing": guessing(9.0, -0.1, 0.5)})
    assert "importance" not in written(reports=(fails,))
    assert "importance" in written(reports=(fails, regression()))
    not_explained = {"tasks": {"age": {"importance": False}}}
    assert "importance" not in written(not_explained)


def test_a_task_is_named_by_its_columns_and_kind():
    several = {"tasks": {"age": {"columns": ["age", "bmi"]}}}
    assert "age, bmi (a regression of 200 samples) were predicted in" in written(several)
    ordinal = classes(task="age").model_copy(update={"kind": "ordinal"})
    text = written(reports=(ordinal,))
    assert "(an ordinal classification of 200 samples) was predicted" in text


def test_a_kernel_head_is_named_where_one_was_used():
    report = regression(training={"recipes": NETWORK})
    assert "kernel head" not in written(reports=(report,))
    assert REFERENCES["svm"] not in written(reports=(report,))
    assert REFERENCES["svm"] in written()


def test_nucleotides_are_named_where_they_were_learned():
    assert "to predict distances between samples and masked nucleotides." in written()
    methods = methods_text(
        PageSettings(**SETTINGS), {"base": encoder(nucleotide_accuracy=None)}, [], {"aam": "1"}
    )
    assert "to predict distances between samples." in methods.text


def test_encoders_are_called_as_their_models_are():
    assert "The encoder of AAM is a hierarchical" in written()
    assert "The encoder of AAM (base) is" in written(
        {"models": {"other": SETTINGS["models"]["base"]}}
    )


def test_works_are_numbered_in_the_order_of_their_citations_and_none_is_left_over():
    methods = methods_text(
        PageSettings(**merged(SETTINGS, {"metrics": [], **division(groups="[unifrac, host]")})),
        encoders={},
        answers=list_answers([regression()]),
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
    methods = methods_text(
        PageSettings(**SETTINGS), {"base": encoder(nucleotide_accuracy=None)}, [], {"aam": "1"}
    )
    assert "predicted in" not in methods.text
    assert "t-test" not in methods.text


def test_without_networks_the_methods_name_none():
    report = regression(answer=FIRST, super_learner={})
    text = methods_text(
        PageSettings(**{**SETTINGS, "models": {}}), {}, list_answers([report]), {}
    ).text
    assert "No network was trained" in text
    assert "super learner mixes all methods" in text
    assert "integrated gradients" not in text
    assert "AAM" not in text


def test_the_number_of_tests_is_that_of_the_answers():
    """A task with too few groups has no test, and a single test needs no correction."""
    untested = regression(networks={"guessing": guessing(9.0, -5.0, None)}, super_learner={})
    several = written(reports=[regression(), regression(), untested])
    assert "over the 2 tests of this page" in several
    assert "tests of this page" not in written(reports=[regression(), untested])
