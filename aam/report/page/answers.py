"""The answer to a task: its verdict, its score, guessing, and the best baseline."""

from collections.abc import Mapping
from typing import Any

from aam.evaluate.scores import HEADLINE, LEAST_UNITS
from aam.report.labels import choose_decimals, row_label
from aam.report.page.reports import best_baseline, leading_scores, target_and_unit
from aam.report.page.sentences import scores as sentences
from aam.report.page.verdicts import Verdict


def has_score_interval(report: Mapping[str, Any]) -> bool:
    """Return whether the page shows an interval of a headline score.

    Parameters
    ----------
    report
        The content of a `scores.json`, of one target.
    """
    name = HEADLINE[report["kind"]]
    return any(part["bootstrap"][name] is not None for part in (report, leading_scores(report)))


def write_short_answer(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the verdict, the score with its interval, what guessing reaches, and p.

    Parameters
    ----------
    report
        One of `aam.report.page.reports.label_reports`.
    verdict
        The verdict on it, by `aam.report.page.verdicts.judge_all`.
    """
    kind = report["kind"]
    best = leading_scores(report)
    what, unit = target_and_unit(report)
    score = sentences.describe_score(
        kind,
        what,
        best[HEADLINE[kind]],
        unit=unit,
        interval=best["bootstrap"][HEADLINE[kind]],
        guess=best["guessing"]["score"],
        decimals=_decimals(report),
    )
    difference = sentences.compare_with_guessing(
        kind,
        best["guessing"]["difference"],
        p=verdict.p,
        corrected=verdict.corrected_p,
        tests=verdict.tests,
    )
    # A score that another column explains shows nothing, however good it is.
    is_confounded = bool(report["confounders"]) and verdict.outcome != "does not work"
    opening = "Confounded" if is_confounded else verdict.outcome.capitalize()
    return f"{opening}: {score} {difference}"


def write_answer(report: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the short answer, why it has no interval where it has none, and the best baseline.

    Parameters
    ----------
    report
        One of `aam.report.page.reports.label_reports`.
    verdict
        The verdict on it, by `aam.report.page.verdicts.judge_all`.
    """
    kind = report["kind"]
    best = leading_scores(report)
    parts = [write_short_answer(report, verdict)]
    if best["bootstrap"][HEADLINE[kind]] is None:
        parts.append(_explain_missing_interval(report))
    baseline = best_baseline(report)
    if baseline is not None:
        _, unit = target_and_unit(report)
        comparison = best["comparisons"][baseline]
        comparison_sentence = sentences.compare_with_best_baseline(
            kind,
            row_label(baseline, "baseline"),
            report["baselines"][baseline][HEADLINE[kind]],
            unit=unit,
            difference=comparison["difference"],
            p=comparison["holm_p"],
            decimals=_decimals(report),
        )
        parts.append(comparison_sentence)
    return " ".join(parts)


def _decimals(report: Mapping[str, Any]) -> int:
    """Return the decimals of the errors in an answer, by which a score differs from its rivals."""
    best = leading_scores(report)
    name = HEADLINE[report["kind"]]
    others = [best["guessing"]["score"]]
    baseline = best_baseline(report)
    if baseline is not None:
        others.append(report["baselines"][baseline][name])
    return choose_decimals(best[name], others)


def _explain_missing_interval(report: Mapping[str, Any]) -> str:
    """Say why a headline score has no interval."""
    structure = report["structure"]
    is_by_sample = structure["independent"] or structure["groups"] is None
    units = report["n"] if is_by_sample else structure["groups"]
    if units >= LEAST_UNITS:
        return sentences.explain_undefined_interval()
    return sentences.explain_missing_interval(units, "samples" if is_by_sample else "groups")
