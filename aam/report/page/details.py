"""Which sentences the page has of a task and of an encoder, by what their reports say."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from aam.evaluate.scores import HEADLINE
from aam.report.labels import SCORES, format_amount, row_label
from aam.report.page.reports import (
    is_baseline,
    leading_name,
    leading_scores,
    model_label,
    model_name,
    target_and_unit,
)
from aam.report.page.sentences import (
    comparisons,
    encoders,
    importances,
    intervals,
    training,
)
from aam.report.page.verdicts import is_stopped

KERNEL = "kernel"
"""The recipe in which no network is trained."""


def task_sentences(report: Mapping[str, Any], *, is_explained: bool = True) -> Iterator[str]:
    """Yield how a model does on a task, alone and mixed, and how sure it is.

    Parameters
    ----------
    report
        One of `aam.report.page.reports.label_reports`.
    is_explained
        Whether the configuration asks which ASVs the predictions rest on.
    """
    yield comparisons.describe_groups(
        report["structure"]["column"],
        report["structure"]["groups"],
        independent=report["structure"]["independent"],
    )
    if "super_learner" in report:
        yield from _describe_super_learner(report)
    yield from _describe_model(report)
    if "test" in report:
        yield _describe_test_samples(report)
    yield from _describe_intervals(report)
    if report["kind"] != "regression":
        yield from _describe_probabilities(report)
    if is_explained or is_baseline(report):
        yield _describe_importances(report)
    else:
        yield importances.explain_importances_not_asked_for()


def encoder_sentences(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an encoder learned without labels.

    Parameters
    ----------
    report
        The content of the `scores.json` of its pretraining.
    """
    is_trained = report["steps"] > 0
    if "unifrac_pearson" in report:
        yield encoders.describe_distances(
            report["held_out_samples"],
            report["unifrac_pearson"],
            report["unifrac_mae"],
            is_trained=is_trained,
        )
    if "nucleotide_accuracy" in report:
        yield encoders.describe_masked_nucleotides(
            report["nucleotide_accuracy"], report["nucleotide_baseline_accuracy"]
        )
    if "near_known_reads" in report:
        yield encoders.describe_known_reads(report["near_known_reads"])
    if is_trained:
        yield encoders.describe_training(
            report["steps"],
            minutes=report["wall_s"] / 60,
            samples_per_s=report["samples_per_s"],
            parameters=report["parameters"],
        )
    else:
        yield encoders.describe_untrained(report["parameters"])


def trains_networks(report: Mapping[str, Any]) -> bool:
    """Return whether any network was trained for a task: a kernel machine is fitted at once.

    Parameters
    ----------
    report
        The content of its `scores.json`.
    """
    return any(recipe != KERNEL for recipe in report.get("recipes", ()))


def _label_learner(report: Mapping[str, Any], learner: str) -> str:
    """Return what lists call a method of the super learner."""
    if learner == report["model"]:
        return model_label(report)
    return row_label(learner, "baseline")


def _describe_super_learner(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the mixture of all methods reaches, what the model adds, and its rivals."""
    kind = report["kind"]
    best = report["super_learner"]
    name = HEADLINE[kind]
    weights = {_label_learner(report, key): value for key, value in best["weights"].items()}
    yield comparisons.describe_super_learner(
        SCORES[name], best[name], weights, always=model_label(report)
    )
    without = best["without_own"]
    yield comparisons.compare_without_model(
        kind,
        model_name(report),
        without[name],
        difference=without["comparison"]["difference"],
        p=without["comparison"]["corrected_t_p"],
    )
    unnested = best.get("unnested")
    if unnested is not None:
        yield comparisons.compare_unnested_weights(
            kind, "the super learner", unnested["score"], unnested["difference"]
        )
    chosen = best.get("chosen")
    if chosen is not None:
        labels = [_label_learner(report, learner) for learner in chosen["learners"].values()]
        yield comparisons.compare_with_chosen_learner(
            kind,
            chosen["score"],
            Counter(labels),
            difference=chosen["comparison"]["difference"],
            p=chosen["comparison"]["corrected_t_p"],
        )


def _describe_model(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the model reaches alone, and how it was trained."""
    kind = report["kind"]
    model = model_name(report)
    label = SCORES[HEADLINE[kind]]
    spread = report["mae_fold_sd"] if kind == "regression" else None
    yield comparisons.describe_model_alone(model, label, report[HEADLINE[kind]], spread)
    if is_baseline(report):
        return
    if report["labels"] < 1:
        yield training.describe_share_of_labels(model, report["labels"])
    if report["evaluation"] == "inductive":
        yield training.describe_inductive(report["start_directory"])
    else:
        yield training.describe_transductive()
    if len(report["recipes"]) > 1:
        weights_and_scores = {
            name: (recipe["weight"], recipe["score"]) for name, recipe in report["recipes"].items()
        }
        yield comparisons.describe_recipes(model, weights_and_scores)
    unnested = report.get("unnested")
    if unnested is not None:
        yield comparisons.compare_unnested_weights(
            kind, f"{model}'s recipes", unnested["score"], unnested["difference"]
        )
    draws = report.get("draws")
    if draws is not None:
        yield training.describe_draws(draws["models"], label, draws["mean"], draws["sd"])
    elif trains_networks(report):
        yield training.describe_single_draw()


def _describe_test_samples(report: Mapping[str, Any]) -> str:
    """Return what the methods reach on samples that no fold has."""
    name = HEADLINE[report["kind"]]
    best = leading_scores(report)
    # A mixture may have no scores of test samples: then they are the model's.
    scored = best if "test" in best else report
    owner = "the super learner" if scored is not report else model_name(report)
    others = {
        row_label(baseline, "baseline"): scores["test"][name]
        for baseline, scores in report["baselines"].items()
        if "test" in scores
    }
    label = "MAE" if name == "mae_fold_mean" else SCORES[name]
    return comparisons.describe_test_samples(
        label, owner, scored["test"]["n"], scored["test"][name], others
    )


def _describe_intervals(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the intervals or sets of the leading method hold."""
    summary = leading_scores(report)["intervals"]
    owner = leading_name(report)
    level = summary["level"]
    coverage = summary["coverage"]
    by_fold = list(summary["coverage_by_fold"].values())
    if "set_size" in summary:
        yield intervals.describe_sets(owner, level, coverage, by_fold, size=summary["set_size"])
    elif summary["width"] is None:
        yield intervals.explain_missing_intervals(level)
        return
    else:
        _, unit = target_and_unit(report)
        width = format_amount(summary["width"], unit)
        yield intervals.describe_intervals(owner, level, coverage, by_fold, width=width)
    if "test" in summary:
        yield intervals.describe_coverage_of_test(summary["test"]["coverage"])


def _describe_probabilities(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the probabilities of the leading method are worth."""
    best = leading_scores(report)
    yield intervals.describe_calibration(
        leading_name(report),
        brier=(best["brier"], best["calibrated_brier"]),
        constant=best["constant_brier"],
        errors=(best["ece"], best["calibrated_ece"]),
    )
    yield intervals.explain_predicted_and_likeliest()


def _describe_importances(report: Mapping[str, Any]) -> str:
    """Return whose importances the page shows, or why it shows none."""
    if is_baseline(report):
        return importances.explain_importances_of_networks()
    if is_stopped(report):
        return importances.explain_hidden_importances()
    weights = leading_scores(report).get("weights", {})
    return importances.describe_owner_of_importances(
        model_name(report), weights.get(report["model"])
    )
