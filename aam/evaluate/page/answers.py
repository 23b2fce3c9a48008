"""The answer to a task: its verdict, its score, and the lights that limit the trust in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aam.evaluate.bootstrap import LEAST_UNITS
from aam.evaluate.comparison import holm
from aam.evaluate.labels import name_and_unit, row_label
from aam.evaluate.page import words
from aam.evaluate.page.words import CHANCE
from aam.evaluate.scores import HEADLINE, is_better

Light = Literal["stop", "care", "good"]
Outcome = Literal["works", "doubtful", "does not work"]
LIGHTS: Mapping[Outcome, Light] = {"works": "good", "doubtful": "care", "does not work": "stop"}
"""The light of each verdict."""

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

PROBABILITY_LOSSES = {"brier": "Brier score", "log_loss": "log loss"}
"""What the page calls the losses of probabilities of classes, by the ends of their keys."""


@dataclass(frozen=True)
class Verdict:
    """Whether a task can be predicted, and the test that says so."""

    outcome: Outcome
    p: float | None
    """p-value of the difference to guessing; None: no test is possible."""
    corrected_p: float | None
    """The same, corrected for all tests of the page."""
    tests: int
    """Tests of the page."""


@dataclass(frozen=True)
class Caution:
    """A light with its sentence; `stop`: do not use the result, `care`: know this, `good`."""

    light: Light
    text: str


def leading(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores that are told first: those of the super learner, where there is one."""
    return report.get("super_learner", report)


def leading_name(report: Mapping[str, Any]) -> str:
    """Return whose scores are told first."""
    return "the super learner" if "super_learner" in report else model_name(report)


def is_baseline(report: Mapping[str, Any]) -> bool:
    """Return whether a baseline stands in the place of the model: no network was trained."""
    return bool(report.get("is_baseline", False))


def model_name(report: Mapping[str, Any]) -> str:
    """Return what sentences call the model, or the baseline in its place."""
    return f"the {report['model']}" if is_baseline(report) else "AAM"


def model_label(report: Mapping[str, Any]) -> str:
    """Return the same for lists and tables."""
    return str(report["model"]) if is_baseline(report) else "AAM"


def target_and_unit(report: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what is predicted, in words, and its unit where the name of its column ends in one.

    `report` is one of `aam.evaluate.scores.of_each_target`: that of one of several targets has a
    name that ends in its column.
    """
    column = report["column"]
    name = column if isinstance(column, str) else report["task"].partition(", ")[2]
    return name_and_unit(name)


def best_baseline(report: Mapping[str, Any]) -> str | None:
    """Return the baseline with the best headline score, or None where there is none.

    Constants are no candidates: what guessing reaches is compared apart.
    """
    name = HEADLINE[report["kind"]]
    sign = 1 if report["kind"] == "regression" else -1
    rivals = leading(report)["comparisons"]
    return min(rivals, key=lambda rival: sign * report["baselines"][rival][name], default=None)


def judge(kind: str, difference: float, p: float | None, corrected_p: float | None) -> Outcome:
    """Return the verdict on a task.

    A task works where it is predicted better than by guessing with p < 0.05, also after Holm's
    correction for all tests of the page. It is doubtful where it is predicted better, but p < 0.05
    holds before the correction alone, or where no test is possible. It does not work otherwise.
    Neither baselines nor cautions change the verdict: they have lights of their own.

    Parameters
    ----------
    kind
        Kind of the task.
    difference
        Mean over folds of the headline score minus that of guessing: `guessing.difference`.
    p
        Its p-value, two-sided, or None where no test is possible: `guessing.corrected_t_p`.
    corrected_p
        The p-value after the correction, or None.
    """
    if not is_better(kind, difference):
        return "does not work"
    if p is None or corrected_p is None:
        return "doubtful"
    if p >= CHANCE:
        return "does not work"
    return "works" if corrected_p < CHANCE else "doubtful"


def verdicts(reports: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """Return the verdict on every report of a page, in their order.

    `reports` are all that the page shows, one per model and target (`of_each_target`): p-values are
    corrected for their number.
    """
    guesses = [leading(report)["guessing"] for report in reports]
    given = {
        str(place): {"corrected_t_p": guess["corrected_t_p"]} for place, guess in enumerate(guesses)
    }
    corrected = [comparison["holm_p"] for comparison in holm(given).values()]
    tests = sum(guess["corrected_t_p"] is not None for guess in guesses)
    result = []
    for report, guess, corrected_p in zip(reports, guesses, corrected, strict=True):
        p = guess["corrected_t_p"]
        outcome = judge(report["kind"], guess["difference"], p, corrected_p)
        result.append(Verdict(outcome, p=p, corrected_p=corrected_p, tests=tests))
    return result


def is_stopped(report: Mapping[str, Any]) -> bool:
    """Return whether a task has a red light, for which no other task of the page matters."""
    guess = leading(report)["guessing"]
    p = guess["corrected_t_p"]
    # The correction decides between "works" and "doubtful" alone: any value does.
    outcome = judge(report["kind"], guess["difference"], p, corrected_p=p)
    return outcome == "does not work" or bool(report["confounders"])


def has_score_interval(report: Mapping[str, Any]) -> bool:
    """Return whether the page shows an interval of a headline score."""
    name = HEADLINE[report["kind"]]
    return any(part["bootstrap"][name] is not None for part in (report, leading(report)))


def short_answer(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the verdict, the score with its interval, guessing and p.

    `report` is one of `aam.evaluate.scores.of_each_target`.
    """
    kind = report["kind"]
    best = leading(report)
    what, unit = target_and_unit(report)
    well = words.how_well(kind, what, best[HEADLINE[kind]], unit, _interval(report))
    guess = words.beside_guessing(
        kind,
        words.headline(kind, best["guessing"]["score"], unit),
        difference=best["guessing"]["difference"],
        p=verdict.p,
        corrected=verdict.corrected_p,
        tests=verdict.tests,
    )
    # A score that another column explains shows nothing, however good it is.
    is_confounded = bool(report["confounders"]) and verdict.outcome != "does not work"
    opening = "Confounded" if is_confounded else verdict.outcome.capitalize()
    return f"{opening}: {well} {guess}"


def answer(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the short answer, why it has no interval where it has none, and the best baseline.

    `report` is one of `aam.evaluate.scores.of_each_target`.
    """
    kind = report["kind"]
    best = leading(report)
    _, unit = target_and_unit(report)
    parts = [short_answer(report, verdict)]
    if best["bootstrap"][HEADLINE[kind]] is None:
        parts.append(_missing_interval(report))
    text = " ".join(parts)
    baseline = best_baseline(report)
    if baseline is None:
        return text
    comparison = best["comparisons"][baseline]
    beside = words.beside_best_baseline(
        kind,
        label=row_label(baseline, "baseline"),
        other=report["baselines"][baseline][HEADLINE[kind]],
        unit=unit,
        difference=comparison["difference"],
        p=comparison["holm_p"],
    )
    return f"{text} {beside}"


def cautions(report: Mapping[str, Any], verdict: Verdict) -> list[Caution]:
    """Return the lights of a task: red ones, that of the verdict, and the cautions.

    A difference to the best baseline that could be chance is part of the answer and no caution: it
    says nothing against a task that is predicted better than by guessing.
    """
    stops = list(_confounders(report))
    light = LIGHTS[verdict.outcome]
    # Green beside red would be read as permission.
    shown = [] if stops and light == "good" else [Caution(light, _reason(report, verdict))]
    lights = [*stops, *shown, *_cares(report)]
    return sorted(lights, key=lambda caution: caution.light != "stop")


def encoder_cautions(model: str, report: Mapping[str, Any]) -> list[Caution]:
    """Return what limits the trust in an encoder, by the metrics of its pretraining."""
    r = report.get("unifrac_pearson")
    if r is None or r >= WEAK_ENCODER:
        return []
    return [Caution("care", words.weak_encoder(model, r))]


def rarefaction_cautions(dropped: int, kept: int) -> list[Caution]:
    """Return what rarefaction lost, where it is much."""
    share = dropped / max(dropped + kept, 1)
    if share < MANY_DROPPED:
        return []
    return [Caution("care", words.many_dropped(dropped, share))]


def prediction_cautions(table: str, unseen: float, seen: int, n: int) -> list[Caution]:
    """Return what limits the trust in predictions for another table.

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
    """
    lights = []
    if seen:
        lights.append(Caution("care", words.seen_in_training(table, seen, n)))
    if unseen >= UNSEEN_READS:
        lights.append(Caution("care", words.much_unseen(table, unseen)))
    return lights


def _interval(report: Mapping[str, Any]) -> str:
    """Return the interval of the headline score in words, or nothing where there is none."""
    kind = report["kind"]
    interval = leading(report)["bootstrap"][HEADLINE[kind]]
    return "" if interval is None else words.score_interval(kind, interval)


def _missing_interval(report: Mapping[str, Any]) -> str:
    """Say why a headline score has no interval."""
    structure = report["structure"]
    is_by_sample = structure["independent"] or structure["groups"] is None
    units = report["n"] if is_by_sample else structure["groups"]
    if units >= LEAST_UNITS:
        return words.no_interval_for_this_score()
    return words.no_interval(units, "samples" if is_by_sample else "groups")


def _reason(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the sentence of a verdict's light."""
    if verdict.outcome == "works":
        return words.why_it_works(verdict.tests)
    if verdict.outcome == "doubtful":
        return words.why_it_is_doubtful(verdict.p, verdict.corrected_p, verdict.tests)
    difference = leading(report)["guessing"]["difference"]
    folds = len(report["folds"])
    return words.why_it_does_not_work(report["kind"], difference, verdict.p, folds)


def _confounders(report: Mapping[str, Any]) -> Iterator[Caution]:
    """Yield a red light for the columns that tell the target, the exact ones first."""
    what, _ = target_and_unit(report)
    for kind in ("exact", "nearly"):
        columns = [one["column"] for one in report["confounders"] if one["kind"] == kind]
        if columns:
            text = words.confounded(columns, what, exactly=kind == "exact")
            yield Caution("stop", text)


def _cares(report: Mapping[str, Any]) -> Iterator[Caution]:
    """Yield what limits the trust in a score, whatever the verdict is."""
    best = leading(report)
    owner = leading_name(report)
    structure = report["structure"]
    baseline = best_baseline(report)
    if baseline is not None and _is_worse(report["kind"], best["comparisons"][baseline]):
        yield Caution("care", words.worse_than_baseline(row_label(baseline, "baseline")))
    if not structure["stated"]:
        yield Caution("care", words.groups_not_stated())
    groups = None if structure["independent"] else structure["groups"]
    if groups is not None and groups < FEW_GROUPS:
        yield Caution("care", words.few_groups(groups, structure["column"]))
    elif report["n"] < FEW_SAMPLES:
        yield Caution("care", words.few_samples(report["n"]))
    intervals = best["intervals"]
    if intervals["coverage"] < intervals["level"] - OFF_COVERAGE:
        text = words.off_coverage(owner, intervals["level"], intervals["coverage"])
        yield Caution("care", text)
    if report["kind"] != "regression" and (losses := _losses_above_constant(best)):
        yield Caution("care", words.useless_probabilities(owner, losses))


def _losses_above_constant(scores: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the losses of calibrated probabilities above those of the class frequencies.

    They are pairs of both values, by the name that the page calls the loss.
    """
    pairs = {
        label: (scores[f"calibrated_{key}"], scores[f"constant_{key}"])
        for key, label in PROBABILITY_LOSSES.items()
    }
    return {
        label: (value, constant) for label, (value, constant) in pairs.items() if value > constant
    }


def _is_worse(kind: str, comparison: Mapping[str, Any]) -> bool:
    """Return whether a method is significantly worse than the one it is compared with."""
    p = comparison["holm_p"]
    return p is not None and p < CHANCE and is_better(kind, -comparison["difference"])
