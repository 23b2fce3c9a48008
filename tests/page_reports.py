"""Small reports of tasks, with the keys of `scores.json` that the page reads."""

from collections.abc import Mapping
from typing import Any

from aam.evaluate.scores import MAIN

STRUCTURE = {"column": "host", "groups": 40, "independent": False, "stated": True}
INTERVALS = {"level": 0.9, "coverage": 0.887, "coverage_by_fold": {"0": 0.85, "1": 0.92}}


def comparison(difference: float, p: float | None) -> dict[str, Any]:
    """Return a comparison with a baseline, whose p-value needs no correction."""
    return {
        "folds": 5,
        "folds_won": 0.8,
        "difference": difference,
        "corrected_t_p": p,
        "holm_p": p,
    }


def guessing(score: float, difference: float, p: float | None) -> dict[str, Any]:
    """Return what guessing reaches, and how a method differs from it."""
    return {"score": score, "difference": difference, "corrected_t_p": p}


def merged(report: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report with changes; those of mappings change single keys."""
    result = dict(report)
    for key, value in changes.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = merged(old, value) if both else value
    return result


def regression(**changes: Any) -> dict[str, Any]:
    """Return a number that is predicted well: age in years, without a super learner."""
    scores = dict.fromkeys(["n", *MAIN["regression"]], 1.0)
    model_scores = {**scores, "n": 200, "mae_fold_mean": 4.0, "mae_fold_sd": 0.5}
    report = {
        **model_scores,
        "model": "base",
        "display_name": "AAM",
        "task": "age",
        "kind": "regression",
        "column": "host_age_years",
        "encoder": "auto",
        "start": "pretrained",
        "labels": 1.0,
        "evaluation": "transductive",
        "start_directory": None,
        "bootstrap": {"mae_fold_mean": [3.5, 4.5]},
        "structure": STRUCTURE,
        "far_values": None,
        "guessing": guessing(9.0, -5.0, 0.0006),
        "baselines": {
            "median": {**model_scores, "mae_fold_mean": 3.0, "mae_by": {}},
            "random_forest": {**model_scores, "mae_fold_mean": 5.0, "mae_by": {}},
            "elastic_net": {**model_scores, "mae_fold_mean": 7.0, "mae_by": {}},
        },
        "comparisons": {
            "random_forest": comparison(-1.0, 0.01),
            "elastic_net": comparison(-3.0, 0.01),
        },
        "intervals": {**INTERVALS, "width": 12.5},
        "confounders": [],
        "recipes": {"kernel": {"score": 4.0, "weight": 1.0}},
        "draws": None,
        "folds": {str(fold): {} for fold in range(5)},
        "mae_by": {},
    }
    return merged(report, changes)


def classes(**changes: Any) -> dict[str, Any]:
    """Return classes that are predicted well: one of five cities, without a super learner."""
    scores = dict.fromkeys(["n", *MAIN["classification"]], 0.5)
    model_scores = {**scores, "n": 200, "balanced_accuracy": 0.591, "brier": 0.2, "ece": 0.110}
    model_scores |= {"calibrated_ece": 0.068, "calibrated_brier": 0.163, "constant_brier": 0.166}
    model_scores |= {"calibrated_log_loss": 0.8, "constant_log_loss": 1.6}
    report = {
        **regression(),
        **model_scores,
        "task": "city",
        "kind": "classification",
        "column": "city",
        "bootstrap": {"balanced_accuracy": [0.54, 0.64]},
        "guessing": guessing(0.20, 0.391, 0.0006),
        "baselines": {
            "majority": {**model_scores, "balanced_accuracy": 0.9, "accuracy_by": {}},
            "random_forest": {**model_scores, "balanced_accuracy": 0.55, "accuracy_by": {}},
        },
        "comparisons": {"random_forest": comparison(0.041, 0.3)},
        "intervals": {**INTERVALS, "set_size": 2.5},
        "accuracy_by": {},
    }
    return merged(report, changes)


def baseline_report(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report in which a baseline stands in the place of the model."""
    network_keys = ("encoder", "start", "labels", "evaluation", "start_directory", "recipes")
    rest = {key: value for key, value in report.items() if key not in network_keys}
    label = "kernel machine"
    return {**rest, "model": label, "display_name": label, "is_baseline": True}


def mixed(report: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a report with a super learner of the same scores, in which AAM weighs 16 %."""
    keys = {"guessing", "bootstrap", "comparisons", "intervals", *MAIN[report["kind"]]}
    keys |= {key for key in report if key.startswith(("calibrated_", "constant_"))}
    scores = {key: report[key] for key in keys | {"n"}}
    mixture = {
        **scores,
        "weights": {"base": 0.16, "random_forest": 0.835, "elastic_net": 0.005},
        "without_own": {**scores, "comparison": comparison(-0.1, 0.4)},
    }
    return {**report, "super_learner": merged(mixture, changes)}
