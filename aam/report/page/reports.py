"""What the page reads from the report of a task: whose scores come first, and their names.

A report is the content of a `scores.json` of one target, as `label_reports` returns it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aam.config.names import name_models
from aam.evaluate.scores import HEADLINE, SUPER_LEARNER
from aam.report.labels import name_and_unit
from aam.report.page.mappings import split_targets


def label_reports(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one report per target, with what people read instead of the name of its model.

    Parameters
    ----------
    reports
        Contents of `scores.json`: all that a page shows, since the names of models depend on how
        many there are.

    Returns
    -------
    list of dict
        What `split_targets` returns, with the key `display_name`: "AAM",
        "AAM (NAME)", or the baseline that stands in for a model.
    """
    networks = name_models(report["model"] for report in reports if not is_baseline(report))
    labelled = []
    for report in reports:
        model = report["model"]
        display_name = model if is_baseline(report) else networks[model]
        labelled.append({**report, "display_name": display_name})
    return split_targets(labelled)


def leading_scores(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores that the page shows first: those of the super learner, if there is one.

    They need not be the best ones. Without a super learner they are the model's.
    """
    return report.get("super_learner", report)


def leading_name(report: Mapping[str, Any]) -> str:
    """Return what sentences call the method whose scores come first."""
    return f"the {SUPER_LEARNER}" if "super_learner" in report else model_name(report)


def is_baseline(report: Mapping[str, Any]) -> bool:
    """Return whether a baseline stands in for the model: no network was trained.

    Parameters
    ----------
    report
        The content of a `scores.json`.
    """
    return bool(report.get("is_baseline", False))


def model_name(report: Mapping[str, Any]) -> str:
    """Return what sentences call the model, or the baseline in its stead: `the kernel machine`."""
    label = model_label(report)
    return f"the {label}" if is_baseline(report) else label


def model_label(report: Mapping[str, Any]) -> str:
    """Return what lists and tables call the model: `AAM`, `AAM (NAME)`, or the baseline."""
    return str(report["display_name"])


def target_and_unit(report: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what is predicted, in words, and its unit where the name of its column ends in one.

    The report of one of several targets has a name that ends in its column.
    """
    column = report["column"]
    name = column if isinstance(column, str) else report["task"].partition(", ")[2]
    return name_and_unit(name)


def best_baseline(report: Mapping[str, Any]) -> str | None:
    """Return the baseline with the best headline score, or None where there is none.

    Constants are no candidates: what guessing reaches is compared separately, so that
    `comparisons` lacks them.
    """
    name = HEADLINE[report["kind"]]
    rivals = list(leading_scores(report)["comparisons"])
    if not rivals:
        return None
    scores = [report["baselines"][rival][name] for rival in rivals]
    best = min(scores) if report["kind"] == "regression" else max(scores)
    return rivals[scores.index(best)]
