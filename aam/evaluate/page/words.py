"""What was found, in sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from aam.evaluate.labels import EVALUATION, p_value, quantity, row_label, score
from aam.evaluate.page.answers import CHANCE
from aam.evaluate.scores import HEADLINE, SCORES

LEAST_SHOWN = 0.01
"""Least weight of a method that is told."""


def on_task(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a model does on a task, alone and mixed, and how sure it is."""
    if "super_learner" in report:
        yield _super_learner(report)
    yield _model(report)
    if len(report["recipes"]) > 1:
        yield _recipes(report)
    if "test" in report:
        yield _test(report)
    yield _intervals(report)
    if "calibrated_brier" in report:
        yield (
            "Probabilities as the model gives them, with all classes counting alike: calibration "
            f"error {score(report['ece'])}, Brier score {score(report['brier'])}. Calibrated to "
            f"how frequent classes are in the other folds: {score(report['calibrated_ece'])} and "
            f"{score(report['calibrated_brier'])}; a constant, which knows these frequencies "
            f"alone, has a Brier score of {score(report['constant_brier'])}."
        )


def on_encoder(report: Mapping[str, Any]) -> str:
    """Return what an encoder learned without labels, by the metrics of its pretraining."""
    text = f"Scored on {report['held_out_samples']} samples kept from training. "
    if "unifrac_pearson" in report:
        text += (
            "Distances between its embeddings of two such samples agree with their UniFrac "
            f"distance: Pearson r {score(report['unifrac_pearson'])}, mean absolute error "
            f"{score(report['unifrac_mae'])}. "
        )
    if "nucleotide_accuracy" in report:
        text += (
            f"It names {report['nucleotide_accuracy']:.1%} of the masked nucleotides; always "
            "guessing the most frequent base of each position names "
            f"{report['nucleotide_baseline_accuracy']:.1%}. "
        )
    if "near_known_reads" in report:
        near = f"{report['near_known_reads']:.0%} of the reads"
        text += f"{near} lie near an ASV that the model it started from had seen. "
    if report["steps"] == 0:
        return f"{text}It is used as it came, with {report['parameters']:,} parameters."
    return (
        f"{text}{report['steps']} steps took {quantity(report['wall_s'] / 60)} minutes "
        f"({quantity(report['samples_per_s'])} samples per second) for "
        f"{report['parameters']:,} parameters."
    )


def _model(report: Mapping[str, Any]) -> str:
    name = HEADLINE[report["kind"]]
    spread, share = report.get("mae_fold_sd"), report["labels"]
    shown = score(report[name])
    shown += f" ± {score(spread)}" if report["kind"] == "regression" and spread else ""
    few = f" Trained on {100 * share:g} % of the labels; the baselines on all." if share < 1 else ""
    return f"AAM alone: {SCORES[name]} {shown}.{few} {EVALUATION[report['evaluation']]}"


def _recipes(report: Mapping[str, Any]) -> str:
    """Say of which recipes a model is mixed, and what each reaches alone."""
    found = sorted(report["recipes"].items(), key=lambda item: -item[1]["weight"])
    parts = ", ".join(f"{name} {one['weight']:.0%} ({score(one['score'])})" for name, one in found)
    return f"AAM's recipes by weight, and what each reaches alone: {parts}."


def _super_learner(report: Mapping[str, Any]) -> str:
    """Say what the mixture of all methods reaches, of what it is made, and what the model adds."""
    name, found = HEADLINE[report["kind"]], report["super_learner"]
    without, model = found["without_own"], report["model"]
    weights = sorted(found["weights"].items(), key=lambda item: (-item[1], item[0]))
    parts = ", ".join(
        f"{'AAM' if learner == model else row_label(learner, 'baseline')} {weight:.0%}"
        for learner, weight in weights
        if weight >= LEAST_SHOWN or learner == model
    )
    p = without["comparison"]["corrected_t_p"]
    chance = "" if p is None else f" ({'which could be chance, ' * (p >= CHANCE)}{p_value(p)})"
    return (
        f"The super learner, a mixture of all methods: {SCORES[name]} {score(found[name])} "
        f"({parts}). Without AAM it has {score(without[name])}; the difference, mean of the "
        f"folds, is {without['comparison']['difference']:+.3g}{chance}."
    )


def _test(report: Mapping[str, Any]) -> str:
    name, test = HEADLINE[report["kind"]], report["test"]
    others = ", ".join(
        f"{row_label(baseline, 'baseline')} {score(scores['test'][name])}"
        for baseline, scores in report["baselines"].items()
        if "test" in scores
    )
    label = "MAE" if name == "mae_fold_mean" else SCORES[name]
    beside = f" ({others})" if others else ""
    return f"AAM on {test['n']} held-out test samples: {label} {score(test[name])}{beside}."


def _intervals(report: Mapping[str, Any]) -> str:
    found = report["intervals"]
    of_folds = found["coverage_by_fold"].values()
    if "width" in found:
        what, size = "Prediction intervals", f"mean width {score(found['width'])}"
    else:
        what, size = "Sets of classes", f"{score(found['set_size'])} classes on average"
    test = f"; of the test samples {found['test']['coverage']:.1%}" if "test" in found else ""
    return (
        f"{what} for {found['level']:.0%}: they cover {found['coverage']:.1%} "
        f"({min(of_folds):.1%} to {max(of_folds):.1%} in a fold){test}; {size}."
    )
