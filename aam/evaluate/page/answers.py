"""The answer to a task in one sentence, and what limits the trust in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aam.evaluate.labels import p_value, plain, row_label, score
from aam.evaluate.report import CONSTANT
from aam.evaluate.scores import HEADLINE

Light = Literal["stop", "care", "good"]

CHANCE = 0.05
"""p-value from which on a difference is called one that could be chance."""
FEW_SAMPLES, FEW_GROUPS = 50, 20
"""Samples, and groups of them, below which another draw would change the scores much."""
OFF_COVERAGE = 0.05
"""How far the coverage of intervals may lie below their level without a caution."""
MANY_DROPPED = 0.1
"""Share of the samples, lost by rarefaction, from which on there is a caution."""
WEAK_ENCODER = 0.8
"""Correlation of held-out distances below which an encoder has learned little."""
UNSEEN_READS = 0.2
"""Mean share of reads of ASVs never seen in training, from which on a prediction is doubtful."""


@dataclass(frozen=True)
class Caution:
    """One thing that limits the trust in a result; `stop`: do not use it, `care`: know this."""

    light: Light
    text: str


def leading(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores that are told first: those of the super learner, where there is one."""
    return report.get("super_learner", report)


def best_baseline(report: Mapping[str, Any]) -> str:
    """Return the baseline with the best headline score."""
    name = HEADLINE[report["kind"]]
    sign = 1 if report["kind"] == "regression" else -1
    return min(report["baselines"], key=lambda key: sign * report["baselines"][key][name])


def answer(report: Mapping[str, Any]) -> str:
    """Return what can be predicted, how well, beside the best baseline, and if it may be chance.

    `report` is one of `aam.evaluate.scores.of_each_target`.
    """
    found, baseline = leading(report), best_baseline(report)
    name, label = HEADLINE[report["kind"]], row_label(baseline, "baseline")
    own, other = found[name], report["baselines"][baseline][name]
    # Of several targets a report is that of one, whose name ends in its column.
    column = report["column"]
    what = plain(column if isinstance(column, str) else report["task"].partition(", ")[2])
    shown = score if report["kind"] == "regression" else "{:.0%}".format
    known = [report["baselines"][key][name] for key in CONSTANT if key in report["baselines"]]
    guess = f" (guessing: {shown(known[0])})" if known else ""
    if report["kind"] == "regression":
        text = (
            f"From these samples, {what} is predicted to within {score(own)} on average{guess}; "
            f"the best baseline, {label}, is off by {score(other)}"
        )
    else:
        text = (
            f"From these samples, {what} is predicted right in {own:.0%} of the cases, every class "
            f"counting alike{guess}; by the best baseline, {label}, in {other:.0%}"
        )
    p = found["comparisons"][baseline]["holm_p"]
    if p is None:
        return f"{text}."
    may_be = "could be" if p >= CHANCE else "is hardly"
    return f"{text}; the difference {may_be} chance, {p_value(p)}."


def cautions(report: Mapping[str, Any]) -> list[Caution]:
    """Return what limits the trust in the scores of a task, the worst first."""
    return sorted(_of_scores(report), key=lambda caution: caution.light != "stop")


def _of_scores(report: Mapping[str, Any]) -> Iterator[Caution]:
    found, name = leading(report), HEADLINE[report["kind"]]
    sign = 1 if report["kind"] == "regression" else -1
    for constant in [key for key in CONSTANT if key in report["baselines"]]:
        p = found["comparisons"][constant]["corrected_t_p"]
        is_better = sign * (report["baselines"][constant][name] - found[name]) > 0
        if not is_better or (p is not None and p >= CHANCE):
            label, chance = row_label(constant, "baseline"), f" ({p_value(p)})" if p else ""
            yield Caution("stop", f"Not shown to be better than guessing the {label}{chance}.")
    baseline = best_baseline(report)
    p = found["comparisons"][baseline]["holm_p"]
    if p is None or p >= CHANCE:
        label = row_label(baseline, "baseline")
        yield Caution("care", f"Not shown to be better than the best baseline, {label}.")
    groups, n = report["groups"], report["n"]
    if report["grouping"] is None:
        yield Caution(
            "care",
            "No column of groups is set (folds.groups): where one person or site gave several "
            "samples, the scores are too good.",
        )
    elif groups is not None and groups < FEW_GROUPS:
        yield Caution("care", f"Only {groups} groups: other ones may give other scores.")
    if n < FEW_SAMPLES:
        yield Caution("care", f"Only {n} samples: other ones may give other scores.")
    intervals = report["intervals"]
    if intervals["coverage"] < intervals["level"] - OFF_COVERAGE:
        yield Caution(
            "care",
            f"Intervals for {intervals['level']:.0%} cover {intervals['coverage']:.0%} of the "
            "samples: take their width with care.",
        )


def of_encoder(model: str, report: Mapping[str, Any]) -> list[Caution]:
    """Return what limits the trust in an encoder, by the metrics of its pretraining."""
    r = report.get("unifrac_pearson")
    if r is None or r >= WEAK_ENCODER:
        return []
    return [Caution("care", f"The encoder {model} knows held-out distances at r {score(r)} only.")]


def of_samples(dropped: int, kept: int) -> list[Caution]:
    """Return what rarefaction lost, where it is much."""
    share = dropped / max(dropped + kept, 1)
    if share < MANY_DROPPED:
        return []
    text = f"{dropped} samples, {share:.0%}, have too few reads for the rarefaction depth."
    return [Caution("care", text)]


def of_prediction(table: str, unseen: float) -> list[Caution]:
    """Return how much of another table is new to the models, where it is much."""
    if unseen < UNSEEN_READS:
        return []
    text = f"{unseen:.0%} of the reads in {table} are of ASVs that training never saw."
    return [Caution("care", text)]
