"""Reports as the page reads them still: mappings in the layout of one privileged method.

The page is being moved to `aam.evaluate.task_report`; this module goes with the last mapping.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from aam.evaluate.scores import HEADLINE, MAIN, ORDINAL, REGRESSION, SUPER_LEARNER
from aam.evaluate.task_report import MethodReport, SampleScores, TargetReport, TaskReport
from aam.report.labels import row_label


def page_report(report: TaskReport) -> dict[str, Any]:
    """Return a report of a task as a mapping."""
    columns = list(report.columns)
    about = {
        "task": report.task,
        "model": report.answer,
        "kind": report.kind,
        "column": columns[0] if len(columns) == 1 else columns,
        "bounds": list(report.bounds),
        "provenance": dict(report.provenance),
    }
    targets = {one.column: _target(report, one) for one in report.targets}
    content = {**next(iter(targets.values())), **about}
    if "is_baseline" in content:
        content["model"] = next(iter(targets.values()))["model"]
    if len(targets) > 1:
        content["targets"] = {
            column: {key: value for key, value in one.items() if key != "model"}
            for column, one in targets.items()
        }
    return content


def _target(report: TaskReport, target: TargetReport) -> dict[str, Any]:
    kind = report.kind
    networks = target.networks
    own = networks or target.best
    name = SUPER_LEARNER if own.role == "super learner" else row_label(own.name, "baseline")
    content: dict[str, Any] = {
        **_method(kind, own),
        "model": report.answer if networks else name,
        "structure": target.structure.model_dump(),
        "far_values": target.far_values and target.far_values.model_dump(),
        "confounders": [one.model_dump() for one in target.confounders],
        "draws": None,
        "intervals": _coverage(kind, target),
        "baselines": {
            one.name: _method(kind, one)
            for one in sorted(target.baselines, key=lambda one: one.name)
            if one is not own
        },
    }
    if networks is None:
        return {**content, "is_baseline": True}
    training = networks.training
    assert training is not None
    about = training.model_dump()
    content |= {key: about[key] for key in ("start", "labels", "evaluation", "start_directory")}
    content |= {"encoder": training.recipe, "recipes": dict(sorted(about["recipes"].items()))}
    if training.unnested is not None:
        content["unnested"] = about["unnested"]
    if training.draws is not None:
        draws = training.draws
        content["draws"] = {"models": draws.networks, "mean": draws.mean, "sd": draws.sd}
    mixture = target.super_learner
    if mixture is not None:
        mixing = mixture.mixing
        assert mixing is not None
        without = mixing.without_networks
        assert without is not None
        content["super_learner"] = {
            **_method(kind, mixture),
            "weights": dict(sorted(mixing.weights.items())),
            "temperatures": mixing.temperatures,
            "unnested": mixing.unnested.model_dump(),
            "chosen": mixing.chosen.model_dump(),
            "without_own": {
                HEADLINE[kind]: without.score,
                "comparison": without.comparison.model_dump(),
            },
            "intervals": _coverage(kind, target),
        }
    return content


def _coverage(kind: str, target: TargetReport) -> dict[str, Any]:
    coverage = target.coverage
    size = "width" if kind == "regression" else "set_size"
    content: dict[str, Any] = {
        "level": coverage.level,
        "coverage": coverage.coverage,
        size: coverage.size,
        "coverage_by_fold": {str(fold): share for fold, share in coverage.by_fold.items()},
    }
    if coverage.test is not None:
        test = coverage.test
        content["test"] = {"n": test.n, "coverage": test.coverage, size: test.size}
    return content


def _method(kind: str, method: MethodReport) -> dict[str, Any]:
    content = {
        **_samples(kind, method),
        "folds": {str(fold): {"n": one.n} for fold, one in method.folds.items()},
        "guessing": method.guessing.model_dump(),
        "bootstrap": {HEADLINE[kind]: method.interval and list(method.interval)},
        "comparisons": {
            name: {
                key: value
                for key, value in one.model_dump().items()
                if value is not None or key not in ("wilcoxon_samples_p", "mcnemar_p")
            }
            for name, one in sorted(method.comparisons.items())
        },
    }
    if method.test is not None:
        content["test"] = _samples(kind, method.test)
    return content


def _samples(kind: str, part: SampleScores) -> dict[str, Any]:
    name = "mae" if kind == "regression" else "accuracy"
    content: dict[str, Any] = {
        "n": part.n,
        **part.scores,
        f"{name}_by": {
            column: {value: {"n": one.n, name: one.score} for value, one in sorted(by.items())}
            for column, by in sorted(part.by.items())
        },
    }
    if part.per_class is not None:
        content["per_class"] = {key: one.model_dump() for key, one in part.per_class.items()}
    if part.confusion is not None:
        content["confusion"] = part.confusion.model_dump(mode="json")
    if part.calibrated is not None:
        calibrated = part.calibrated.model_dump()
        for key, value in calibrated.items():
            content[key if key.startswith("constant") else f"calibrated_{key}"] = value
    return content


def split_targets(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one report per target.

    Parameters
    ----------
    reports
        Contents of `scores.json`.

    Returns
    -------
    list of dict
        A task of several targets gets one report named `task, column` for each, in the order of
        the configuration, which is that of `column`: the keys of a file are sorted by their names.
    """
    separate = []
    for report in reports:
        targets = report.get("targets")
        if targets is None:
            separate.append(dict(report))
            continue
        for column in sorted(targets, key=list(report["column"]).index):
            name = f"{report['task']}, {column}"
            separate.append({**report, **targets[column], "task": name})
    return separate


def accuracy_rows(reports: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Put every model and baseline of some reports into one table.

    Parameters
    ----------
    reports
        Contents of `scores.json`.

    Returns
    -------
    pandas.DataFrame
        A row per method and task with its scores. Tasks are in the order of the reports, the best
        method first within a task, a baseline once per task.
    """
    # The baselines of a task are in the reports of all its models: the last one counts.
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for report in split_targets(reports):
        for role, name, scores in _methods(report):
            rows[report["task"], role, name] = _accuracy_row(report, role, name, scores)
    numeric = [*REGRESSION, *ORDINAL, "headline_low", "headline_high"]
    columns = ["task", "kind", "name", "role", "n", *numeric]
    table = pd.DataFrame(list(rows.values()), columns=columns)
    table = table.astype(dict.fromkeys(numeric, float))
    is_regression = table["kind"] == "regression"
    rank = np.where(is_regression, table["mae_fold_mean"], -table["balanced_accuracy"])
    order = pd.factorize(table["task"])[0]
    ranked = table.assign(order=order, rank=rank)
    ranked = ranked.sort_values(["order", "rank", "name"], ignore_index=True)
    return ranked.drop(columns=["order", "rank"])


def _methods(report: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield role, name and scores of every method of a report: the model, mixture, baselines."""
    yield "network", report["model"], report
    if "super_learner" in report:
        yield "super learner", report["model"], report["super_learner"]
    for name, scores in report["baselines"].items():
        yield "baseline", name, scores


def _accuracy_row(
    report: Mapping[str, Any], role: str, name: str, scores: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the row of one method of a report."""
    kind = report["kind"]
    interval = scores.get("bootstrap", {}).get(HEADLINE[kind])
    low, high = (None, None) if interval is None else interval
    return {
        "task": report["task"],
        "kind": kind,
        "name": name,
        "role": role,
        "n": scores["n"],
        **{key: scores[key] for key in MAIN[kind]},
        "headline_low": low,
        "headline_high": high,
    }
