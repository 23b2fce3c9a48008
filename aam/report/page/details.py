"""What the page says below the answers: of a task, of an encoder, of what was left out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from aam.data.sequences import SAME_SEQUENCE
from aam.evaluate.scores import HEADLINE, is_better
from aam.report.labels import (
    SCORES,
    capitalize,
    format_amount,
    format_p_value,
    format_percent,
    format_quantity,
    format_score,
    row_label,
    to_words,
)
from aam.report.page.answers import (
    is_baseline,
    is_stopped,
    leading_name,
    leading_scores,
    model_label,
    model_name,
    name_difference,
    target_and_unit,
)
from aam.report.page.cautions import open_coverage

KERNEL = "kernel"
"""The recipe in which no network is trained."""
LEAST_SHOWN = 0.01
"""Least weight in the super learner of a method that is named."""
HIDDEN_IMPORTANCES = (
    "The ASVs that matter most are not shown, because the red light says not to use these "
    "predictions."
)
"""In the place of the most important ASVs of a task with a red light."""


def task_sentences(report: Mapping[str, Any], *, is_explained: bool = True) -> Iterator[str]:
    """Yield how a model does on a task, alone and mixed, and how sure it is.

    Parameters
    ----------
    report
        One of `aam.report.page.answers.label_reports`.
    is_explained
        Whether the configuration asks which ASVs the predictions rest on.
    """
    yield _describe_groups(report["structure"])
    if "super_learner" in report:
        yield from _describe_super_learner(report)
    yield _describe_model_alone(report)
    if not is_baseline(report):
        yield from _describe_training(report)
    if "test" in report:
        yield _describe_test_samples(report)
    yield from _describe_intervals(report)
    if report["kind"] != "regression":
        yield from _describe_probabilities(report)
    yield _describe_importances(report, is_explained=is_explained)


def encoder_sentences(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an encoder learned without labels.

    Parameters
    ----------
    report
        The content of the `scores.json` of its pretraining.
    """
    is_trained = report["steps"] > 0
    if "unifrac_pearson" in report:
        which = "that it was not trained on" if is_trained else "of this study"
        yield (
            f"Distances between its embeddings of {report['held_out_samples']} samples {which} "
            "agree with their UniFrac distances: Pearson r "
            f"{format_score(report['unifrac_pearson'])}, mean absolute error "
            f"{format_score(report['unifrac_mae'])}."
        )
    if "nucleotide_accuracy" in report:
        yield (
            f"It names {format_percent(report['nucleotide_accuracy'], 1)} of the masked "
            "nucleotides; always guessing the most frequent base of each position names "
            f"{format_percent(report['nucleotide_baseline_accuracy'], 1)}."
        )
    if "near_known_reads" in report:
        yield (
            f"{format_percent(report['near_known_reads'])} of the reads lie near an ASV that the "
            "model it started from had seen."
        )
    size = f"It has {report['parameters']:,} parameters."
    if not is_trained:
        yield f"It was not trained on this study: it is used as it came. {size}"
        return
    speed = ""
    if report["samples_per_s"] is not None:
        speed = f" ({format_quantity(report['samples_per_s'])} samples per second)"
    minutes = format_quantity(report["wall_s"] / 60)
    yield f"Training took {report['steps']} steps in {minutes} minutes{speed}. {size}"


def left_out_sentences(
    tables: Iterable[pd.DataFrame], *, drops_long_branches: bool
) -> Iterator[str]:
    """Yield which samples and features were left out before anything was computed, and why.

    Parameters
    ----------
    tables
        The tables that importing writes, with the columns `what` and `why`, and those of
        rarefaction, with the column `depth`.
    drops_long_branches
        Whether ASVs behind long branches of the tree were left out.
    """
    if drops_long_branches:
        yield "ASVs behind extremely long branches of the tree (rarefaction: {long_branches: drop})"
    for table in tables:
        if "why" not in table:
            for depth, count in sorted(Counter(table["depth"]).items()):
                samples = _count_names(count, "sample")
                yield f"{samples} with fewer than {depth} reads (the rarefaction depth)"
            continue
        # Features of one sequence are counted together, whichever they are.
        reasons = [
            "the same sequence as another" if why.startswith(SAME_SEQUENCE) else why
            for why in table["why"]
        ]
        kinds = Counter(zip(table["what"], reasons, strict=True))
        for (what, why), count in sorted(kinds.items()):
            yield f"{_count_names(count, what)} with {why}"


def trains_networks(report: Mapping[str, Any]) -> bool:
    """Return whether any network was trained for a task: a kernel machine is fitted at once.

    Parameters
    ----------
    report
        The content of its `scores.json`.
    """
    return any(recipe != KERNEL for recipe in report.get("recipes", ()))


def _count_names(number: int, name: str) -> str:
    """Return a number and what it counts: `1 sample`, `2 samples`."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _describe_groups(structure: Mapping[str, Any]) -> str:
    """Say which samples belong together for the tests and intervals of a task."""
    if structure["column"] is None:
        return "Tests and intervals take every sample as independent of all others."
    column = to_words(structure["column"])
    if structure["independent"]:
        return (
            f"No two samples have the same {column}, so tests and intervals take them as "
            "independent."
        )
    return (
        f"Samples of one {column} stay together in the folds ({structure['groups']} groups). Tests "
        "do not treat them as independent."
    )


def _describe_super_learner(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the mixture of all methods reaches, what the model adds, and its rivals."""
    kind = report["kind"]
    best = report["super_learner"]
    name = HEADLINE[kind]
    yield (
        f"The super learner, a weighted mean of all methods: {SCORES[name]} "
        f"{format_score(best[name])}. Its weights for new samples: {_list_weights(report)}."
    )
    model = model_name(report)
    without = best["without_own"]
    yield (
        f"Without {model} the super learner reaches {format_score(without[name])}. The score with "
        f"{model} minus that without: {_describe_difference(kind, without['comparison'])}."
    )
    if best.get("unnested") is not None:
        yield _compare_unnested_weights(kind, "the super learner", best["unnested"])
    chosen = best.get("chosen")
    if chosen is not None:
        labels = Counter(_label_learner(report, name) for name in chosen["learners"].values())
        by_number = sorted(labels.items(), key=lambda item: (-item[1], item[0]))
        names = ", ".join(f"{label} in {_count_names(n, 'fold')}" for label, n in by_number)
        yield (
            "The one method that cross-validation within the training folds would choose "
            f"({names}) reaches {format_score(chosen['score'])}. Super learner minus this method: "
            f"{_describe_difference(kind, chosen['comparison'])}."
        )


def _list_weights(report: Mapping[str, Any]) -> str:
    """Return the weights of the methods for new samples, the largest first.

    Those of less than one percent are left out, but for that of the model. The predictions that are
    scored have other weights in each fold.
    """
    weights = {
        _label_learner(report, name): weight
        for name, weight in report["super_learner"]["weights"].items()
    }
    by_weight = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(
        f"{label} {format_percent(weight)}"
        for label, weight in by_weight
        if weight >= LEAST_SHOWN or label == model_label(report)
    )


def _label_learner(report: Mapping[str, Any], learner: str) -> str:
    """Return what lists call a method of the super learner."""
    if learner == report["model"]:
        return model_label(report)
    return row_label(learner, "baseline")


def _describe_difference(kind: str, comparison: Mapping[str, Any]) -> str:
    """Return a difference of headline scores, and in which direction it points, if in any."""
    difference = comparison["difference"]
    p = comparison["corrected_t_p"]
    if p is None:
        return f"{difference:+.3g} (no test is possible with these folds)"
    word = name_difference(kind, difference, p) or "could be chance"
    return f"{difference:+.3g} ({word}, {format_p_value(p)})"


def _compare_unnested_weights(kind: str, owner: str, unnested: Mapping[str, Any]) -> str:
    """Say what a score would be whose weights had seen the fold; `owner` has these weights."""
    effect = "no better"
    if is_better(kind, unnested["difference"]):
        effect = f"better by {abs(unnested['difference']):.3g}, which is not real"
    return (
        f"The weights of {owner} for a fold rest only on models that never saw the fold. With "
        f"models that saw it the score would be {format_score(unnested['score'])}, {effect}."
    )


def _describe_model_alone(report: Mapping[str, Any]) -> str:
    """Say what the model reaches without the baselines."""
    name = HEADLINE[report["kind"]]
    alone = f"{capitalize(model_name(report))} alone: {SCORES[name]} {format_score(report[name])}"
    if report["kind"] != "regression":
        return f"{alone}."
    return f"{alone} ± {format_score(report['mae_fold_sd'])} (standard deviation over the folds)."


def _describe_training(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the model was trained, and what it may have seen of what it predicts."""
    kind = report["kind"]
    model = model_name(report)
    if report["labels"] < 1:
        share = f"{100 * report['labels']:g} %"
        yield f"{model} was trained on {share} of the labels; the baselines on all."
    start = report["start_directory"]
    if report["evaluation"] != "inductive":
        yield "Transductive: the encoder may have seen every sample, though no label."
    elif start is None:
        yield "Inductive: no model saw any of the samples that it predicts."
    else:
        yield (
            "Inductive within this study: no model was trained here on any of the samples that it "
            f"predicts. Whether {start}, from which the encoder started, has seen them is not "
            "known."
        )
    if len(report["recipes"]) > 1:
        by_weight = sorted(
            report["recipes"].items(), key=lambda item: (-item[1]["weight"], item[0])
        )
        parts = ", ".join(
            f"{name} {format_percent(recipe['weight'])} ({format_score(recipe['score'])} alone)"
            for name, recipe in by_weight
        )
        yield f"{model} mixes these recipes: {parts}."
    if report.get("unnested") is not None:
        yield _compare_unnested_weights(kind, f"{model}'s recipes", report["unnested"])
    draws = report.get("draws")
    if draws is not None:
        yield (
            f"{draws['models']} networks that differ only in their initial weights have a "
            f"{SCORES[HEADLINE[kind]]} of {format_score(draws['mean'])} ± "
            f"{format_score(draws['sd'])} (mean and standard deviation)."
        )
    elif trains_networks(report):
        yield (
            "Networks were trained from one draw of initial weights: other draws may give other "
            "scores."
        )


def _describe_test_samples(report: Mapping[str, Any]) -> str:
    """Say what the methods reach on samples that no fold has."""
    name = HEADLINE[report["kind"]]
    best = leading_scores(report)
    # A mixture may have no scores of test samples: then they are the model's.
    scored = best if "test" in best else report
    owner = "the super learner" if scored is not report else model_name(report)
    shown = ", ".join(
        f"{row_label(baseline, 'baseline')} {format_score(scores['test'][name])}"
        for baseline, scores in report["baselines"].items()
        if "test" in scores
    )
    label = "MAE" if name == "mae_fold_mean" else SCORES[name]
    brackets = f" ({shown})" if shown else ""
    return (
        f"{capitalize(owner)} on {scored['test']['n']} held-out test samples: {label} "
        f"{format_score(scored['test'][name])}{brackets}."
    )


def _describe_intervals(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the intervals or sets of the leading method hold."""
    intervals = leading_scores(report)["intervals"]
    level = intervals["level"]
    if "set_size" in intervals:
        size = f"they have {format_score(intervals['set_size'])} classes on average"
    elif intervals["width"] is None:
        yield f"There are too few samples for {format_percent(level)} prediction intervals."
        return
    else:
        _, unit = target_and_unit(report)
        size = f"their mean width is {format_amount(intervals['width'], unit)}"
    by_fold = intervals["coverage_by_fold"].values()
    yield (
        f"{open_coverage(report['kind'], level, leading_name(report))} in "
        f"{format_percent(intervals['coverage'], 1)} of samples "
        f"({format_percent(min(by_fold), 1)} to {format_percent(max(by_fold), 1)} in a fold); "
        f"{size}."
    )
    if "test" in intervals:
        coverage = format_percent(intervals["test"]["coverage"], 1)
        yield f"In held-out test samples they do so in {coverage}."


def _describe_probabilities(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the probabilities of the leading method are worth."""
    best = leading_scores(report)
    yield (
        f"Calibration changes the Brier score of {leading_name(report)} from "
        f"{format_score(best['brier'])} to {format_score(best['calibrated_brier'])} (class "
        f"frequencies alone: {format_score(best['constant_brier'])}) and the calibration error "
        f"from {format_score(best['ece'])} to {format_score(best['calibrated_ece'])}; both are "
        "better the lower they are."
    )
    yield (
        "In the table, predicted is chosen with all classes counting alike; likeliest has the "
        "highest calibrated probability. They can differ where classes differ in frequency, or "
        "where calibration rests on few samples."
    )


def _describe_importances(report: Mapping[str, Any], *, is_explained: bool) -> str:
    """Say whose importances the page shows, or why it shows none."""
    if is_baseline(report):
        return "Which ASVs matter most is computed for networks only, and none was trained."
    if not is_explained:
        return (
            "Which ASVs the predictions rest on was not computed, because the configuration says "
            "importance: false."
        )
    if is_stopped(report):
        return HIDDEN_IMPORTANCES
    model = model_name(report)
    weight = leading_scores(report).get("weights", {}).get(report["model"])
    if weight is None:
        return f"Importances of ASVs are those of {model}."
    return (
        f"Importances of ASVs are those of {model} alone; {model} has {format_percent(weight)} of "
        "the super learner's weight."
    )
