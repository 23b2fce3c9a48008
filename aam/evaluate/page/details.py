"""Which sentences the page has of a task and of an encoder, by what their reports say."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from aam.evaluate.labels import amount, row_label
from aam.evaluate.page import words
from aam.evaluate.page.answers import (
    is_baseline,
    is_stopped,
    leading,
    leading_name,
    model_label,
    model_name,
    target_and_unit,
)
from aam.evaluate.scores import HEADLINE, SCORES

KERNEL = "kernel"
"""The recipe in which no network is trained."""


def task_sentences(report: Mapping[str, Any], *, is_explained: bool = True) -> Iterator[str]:
    """Yield how a model does on a task, alone and mixed, and how sure it is.

    Parameters
    ----------
    report
        One of `aam.evaluate.scores.of_each_target`.
    is_explained
        Whether the configuration asks which ASVs the predictions rest on.
    """
    yield words.groups_of_tests(
        report["structure"]["column"],
        report["structure"]["groups"],
        independent=report["structure"]["independent"],
    )
    if "super_learner" in report:
        yield from _super_learner(report)
    yield from _model(report)
    if "test" in report:
        yield _test(report)
    yield from _intervals(report)
    if report["kind"] != "regression":
        yield from _probabilities(report)
    if is_explained or is_baseline(report):
        yield _importances(report)
    else:
        yield words.importances_not_asked_for()


def encoder_sentences(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an encoder learned without labels, by the metrics of its pretraining."""
    if "unifrac_pearson" in report:
        yield words.encoder_distances(
            report["held_out_samples"], report["unifrac_pearson"], report["unifrac_mae"]
        )
    if "nucleotide_accuracy" in report:
        yield words.encoder_nucleotides(
            report["nucleotide_accuracy"], report["nucleotide_baseline_accuracy"]
        )
    if "near_known_reads" in report:
        yield words.encoder_knows_reads(report["near_known_reads"])
    if report["steps"] == 0:
        yield words.encoder_untrained(report["parameters"])
    else:
        yield words.encoder_training(
            report["steps"],
            minutes=report["wall_s"] / 60,
            samples_per_s=report["samples_per_s"],
            parameters=report["parameters"],
        )


def trains_networks(report: Mapping[str, Any]) -> bool:
    """Return whether any network was trained for a task: a kernel machine is fitted at once."""
    return any(recipe != KERNEL for recipe in report.get("recipes", ()))


def _learner_label(report: Mapping[str, Any], learner: str) -> str:
    if learner == report["model"]:
        return model_label(report)
    return row_label(learner, "baseline")


def _super_learner(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the mixture of all methods reaches, what the model adds, and its rivals."""
    kind = report["kind"]
    best = report["super_learner"]
    name = HEADLINE[kind]
    weights = {_learner_label(report, key): value for key, value in best["weights"].items()}
    yield words.mixture(SCORES[name], best[name], weights, always=model_label(report))
    without = best["without_own"]
    yield words.without_model(
        kind,
        model_name(report),
        without[name],
        difference=without["comparison"]["difference"],
        p=without["comparison"]["corrected_t_p"],
    )
    if (unnested := best.get("unnested")) is not None:
        yield words.not_nested(kind, "the super learner", unnested["score"], unnested["difference"])
    if (chosen := best.get("chosen")) is not None:
        labels = [_learner_label(report, learner) for learner in chosen["learners"].values()]
        yield words.chosen_learner(
            kind,
            chosen["score"],
            Counter(labels),
            difference=chosen["comparison"]["difference"],
            p=chosen["comparison"]["corrected_t_p"],
        )


def _model(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the model reaches alone, and how it was trained."""
    kind = report["kind"]
    name = HEADLINE[kind]
    spread = report["mae_fold_sd"] if kind == "regression" else None
    yield words.model_alone(model_name(report), SCORES[name], report[name], spread)
    if is_baseline(report):
        return
    if report["labels"] < 1:
        yield words.part_of_the_labels(report["labels"])
    if report["evaluation"] == "inductive":
        yield words.inductive()
    else:
        yield words.transductive()
    if len(report["recipes"]) > 1:
        recipes = {key: (one["weight"], one["score"]) for key, one in report["recipes"].items()}
        yield words.recipes_by_weight(recipes)
    if (unnested := report.get("unnested")) is not None:
        yield words.not_nested(kind, "AAM's recipes", unnested["score"], unnested["difference"])
    draws = report.get("draws")
    if draws is not None:
        yield words.spread_of_draws(draws["models"], SCORES[name], draws["mean"], draws["sd"])
    elif trains_networks(report):
        yield words.one_draw()


def _test(report: Mapping[str, Any]) -> str:
    name = HEADLINE[report["kind"]]
    best = leading(report)
    # A mixture may have no scores of test samples: then they are the model's.
    scored = best if "test" in best else report
    owner = "the super learner" if scored is not report else model_name(report)
    others = {
        row_label(baseline, "baseline"): scores["test"][name]
        for baseline, scores in report["baselines"].items()
        if "test" in scores
    }
    label = "MAE" if name == "mae_fold_mean" else SCORES[name]
    return words.test_samples(
        label, words.capitalized(owner), scored["test"]["n"], scored["test"][name], others
    )


def _intervals(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the intervals or sets of the leading method hold."""
    intervals = leading(report)["intervals"]
    owner = leading_name(report)
    _, unit = target_and_unit(report)
    shares = list(intervals["coverage_by_fold"].values())
    if "set_size" in intervals:
        yield words.coverage_of_sets(
            owner, intervals["level"], intervals["coverage"], shares, intervals["set_size"]
        )
    elif intervals["width"] is None:
        yield words.no_prediction_intervals(intervals["level"])
        return
    else:
        width = amount(intervals["width"], unit)
        yield words.coverage_of_intervals(
            owner, intervals["level"], intervals["coverage"], shares, width
        )
    if "test" in intervals:
        yield words.coverage_of_test(intervals["test"]["coverage"])


def _probabilities(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the probabilities of the leading method are worth."""
    best = leading(report)
    yield words.calibration(
        leading_name(report),
        brier=(best["brier"], best["calibrated_brier"]),
        constant=best["constant_brier"],
        errors=(best["ece"], best["calibrated_ece"]),
    )
    yield words.two_predicted_classes()


def _importances(report: Mapping[str, Any]) -> str:
    """Say whose importances the page shows, or why it shows none."""
    if is_baseline(report):
        return words.importances_are_of_networks()
    if is_stopped(report):
        return words.no_importances()
    weights = leading(report).get("weights", {})
    return words.importances_are_of_the_model(weights.get(report["model"]))
