"""The lights of a page: what limits the trust in a task, an encoder, or a prediction."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aam.evaluate.scores import is_better
from aam.report.labels import row_label
from aam.report.page.reports import best_baseline, leading_name, leading_scores, target_and_unit
from aam.report.page.sentences import limits as sentences
from aam.report.page.sentences.verdicts import explain_doubt, explain_failure, explain_success
from aam.report.page.verdicts import CHANCE, Outcome, Verdict

Light = Literal["stop", "caution", "good"]
LIGHTS: Mapping[Outcome, Light] = {"works": "good", "doubtful": "caution", "does not work": "stop"}
"""The light of each verdict."""

FEW_SAMPLES = 50
"""Samples below which another draw would change the scores much."""
FEW_GROUPS = 20
"""Groups of samples below which another draw would change the scores much."""
OFF_COVERAGE = 0.05
"""How far the coverage of intervals may lie below their level without a caution."""
MANY_DROPPED = 0.1
"""Share of the samples, lost by rarefaction, from which on there is a caution."""
WEAK_ENCODER = 0.8
"""Correlation of held-out distances below which an encoder has learned little."""
UNSEEN_READS = 0.2
"""Mean share of reads of ASVs never seen in training, from which on a prediction is doubtful."""

PROBABILITY_LOSSES = {"brier": "Brier score", "log_loss": "log loss"}
"""What the page calls the losses of probabilities of classes, by the ends of their keys."""


@dataclass(frozen=True)
class Caution:
    """A light with its sentence; `stop`: do not use the result, `caution`: know this, `good`."""

    light: Light
    text: str


def list_cautions(report: Mapping[str, Any], verdict: Verdict) -> list[Caution]:
    """Return the lights of a task: red ones, that of the verdict, and the cautions.

    A difference to the best baseline that could be chance is part of the answer and no caution: it
    says nothing against a task that is predicted better than by guessing.

    Parameters
    ----------
    report
        One of `aam.report.page.reports.label_reports`.
    verdict
        The verdict on it, by `aam.report.page.verdicts.judge_all`.
    """
    stops = list(_find_confounders(report))
    light = LIGHTS[verdict.outcome]
    # Green next to red would be read as permission.
    shown = [] if stops and light == "good" else [Caution(light, _explain(report, verdict))]
    lights = [*stops, *shown, *_find_limits(report)]
    red = [caution for caution in lights if caution.light == "stop"]
    return red + [caution for caution in lights if caution.light != "stop"]


def list_encoder_cautions(model: str, report: Mapping[str, Any]) -> list[Caution]:
    """Return what limits the trust in an encoder.

    Parameters
    ----------
    model
        What sentences call its model.
    report
        The metrics of its pretraining.
    """
    correlation = report.get("unifrac_pearson")
    if correlation is None or correlation >= WEAK_ENCODER:
        return []
    return [Caution("caution", sentences.warn_of_weak_encoder(model, correlation))]


def list_rarefaction_cautions(dropped: int, samples: int) -> list[Caution]:
    """Return a caution where rarefaction lost many of the samples.

    Parameters
    ----------
    dropped
        Number of samples that have too few reads.
    samples
        Number of samples before rarefaction.
    """
    share = dropped / max(samples, 1)
    if share < MANY_DROPPED:
        return []
    return [Caution("caution", sentences.warn_of_dropped_samples(dropped, share))]


def list_prediction_cautions(
    table: str, unseen: float, seen: int, n: int, few: Sequence[str] = (), near: float | None = None
) -> list[Caution]:
    """Return what limits the trust in predictions for another table, the red light first.

    Parameters
    ----------
    table
        What the page calls the table.
    unseen
        Mean share of the reads that are of ASVs never seen in training.
    seen
        Number of samples that were in training.
    n
        Number of samples.
    few
        IDs of the samples of which few reads are near an ASV of training.
    near
        Mean share of the reads that are of an ASV of training or near one; None: it is not known.
    """
    lights = []
    if few:
        lights.append(Caution("stop", sentences.warn_of_far_samples(table, few, n)))
    if seen:
        lights.append(Caution("caution", sentences.warn_of_known_samples(table, seen, n)))
    if unseen >= UNSEEN_READS:
        lights.append(Caution("caution", sentences.warn_of_unseen_reads(table, unseen, near)))
    return lights


def _explain(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the sentence of a verdict's light."""
    if verdict.outcome == "works":
        return explain_success(verdict.tests)
    if verdict.outcome == "doubtful":
        return explain_doubt(verdict.p, verdict.corrected_p, verdict.tests)
    difference = leading_scores(report)["guessing"]["difference"]
    return explain_failure(report["kind"], difference, verdict.p, folds=len(report["folds"]))


def _find_confounders(report: Mapping[str, Any]) -> Iterator[Caution]:
    """Yield a red light for the columns that predict the target, the exact ones first."""
    what, _ = target_and_unit(report)
    for kind in ("exact", "nearly"):
        columns = []
        for confounder in report["confounders"]:
            if confounder["kind"] == kind:
                columns.append(confounder["column"])
        if columns:
            text = sentences.warn_of_confounders(columns, what, exactly=kind == "exact")
            yield Caution("stop", text)


def _find_limits(report: Mapping[str, Any]) -> Iterator[Caution]:
    """Yield what limits the trust in a score, whatever the verdict is."""
    kind = report["kind"]
    best = leading_scores(report)
    owner = leading_name(report)
    structure = report["structure"]
    baseline = best_baseline(report)
    if baseline is not None and _is_worse(kind, best["comparisons"][baseline]):
        text = sentences.warn_of_better_baseline(row_label(baseline, "baseline"))
        yield Caution("caution", text)
    far = report["far_values"]
    if far is not None and far["values"]:
        text = sentences.warn_of_far_values(
            far["values"], far["samples"], far["count"], low=far["low"], high=far["high"]
        )
        yield Caution("caution", text)
    elif far is not None:
        text = sentences.warn_of_wide_range(far["samples"], low=far["low"], high=far["high"])
        yield Caution("caution", text)
    if not structure["stated"]:
        yield Caution("caution", sentences.warn_of_missing_groups())
    groups = None if structure["independent"] else structure["groups"]
    if groups is not None and groups < FEW_GROUPS:
        yield Caution("caution", sentences.warn_of_few_groups(groups, structure["column"]))
    elif report["n"] < FEW_SAMPLES:
        yield Caution("caution", sentences.warn_of_few_samples(report["n"]))
    level = best["intervals"]["level"]
    coverage = best["intervals"]["coverage"]
    if coverage < level - OFF_COVERAGE:
        yield Caution("caution", sentences.warn_of_low_coverage(kind, owner, level, coverage))
    if kind != "regression":
        losses = _find_losses_above_constant(best)
        if losses:
            yield Caution("caution", sentences.warn_of_useless_probabilities(owner, losses))


def _find_losses_above_constant(scores: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the losses of calibrated probabilities above those of the class frequencies.

    They are pairs of both values, by the name that the page calls the loss.
    """
    above = {}
    for key, label in PROBABILITY_LOSSES.items():
        value = scores[f"calibrated_{key}"]
        constant = scores[f"constant_{key}"]
        if value > constant:
            above[label] = (value, constant)
    return above


def _is_worse(kind: str, comparison: Mapping[str, Any]) -> bool:
    """Return whether a method is significantly worse than the one it is compared with."""
    p = comparison["holm_p"]
    return p is not None and p < CHANCE and is_better(kind, -comparison["difference"])
