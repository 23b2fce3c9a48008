"""What the page reads from the report of a task: whose scores come first, and their names.

A report is the content of a `metrics.json`, as `aam.evaluate.scores.of_each_target` returns it.
"""

from collections.abc import Mapping
from typing import Any

from aam.evaluate.scores import HEADLINE, SUPER_LEARNER
from aam.report.labels import name_and_unit


def leading(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores that come first: those of the super learner, where there is one."""
    return report.get("super_learner", report)


def leading_name(report: Mapping[str, Any]) -> str:
    """Return what sentences call the method whose scores come first."""
    return f"the {SUPER_LEARNER}" if "super_learner" in report else model_name(report)


def is_baseline(report: Mapping[str, Any]) -> bool:
    """Return whether a baseline stands in the place of the model: no network was trained."""
    return bool(report.get("is_baseline", False))


def model_name(report: Mapping[str, Any]) -> str:
    """Return what sentences call the model, or the baseline in its place: `the kernel machine`."""
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

    Constants are no candidates: what guessing reaches is compared separately.
    """
    name = HEADLINE[report["kind"]]
    sign = 1 if report["kind"] == "regression" else -1
    rivals = leading(report)["comparisons"]
    return min(rivals, key=lambda rival: sign * report["baselines"][rival][name], default=None)
