"""Reports of tasks, made of tables of predictions."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from aam.evaluate.method_scores import (
    bin_probabilities,
    report_coverage,
    score_folds,
    score_with_calibration,
)
from aam.evaluate.task_report import (
    Comparison,
    Guessing,
    MethodReport,
    NetworkTraining,
    Recipe,
    Role,
    Structure,
    TargetReport,
    TaskReport,
)
from aam.learners.conformal import cross_intervals

STRUCTURE = Structure(column="host", groups=4, independent=False, stated=True)
TRAINING = NetworkTraining(
    recipe="auto",
    start="pretrained",
    labels=1.0,
    evaluation="transductive",
    start_directory=None,
    recipes={
        "kernel": Recipe(score=0.5, weight=0.25),
        "partial": Recipe(score=0.75, weight=0.75),
    },
)
GUESSING = Guessing(score=6.0, difference=-5.0, p=0.0123)


def comparison(difference: float, p: float | None, **changes: Any) -> Comparison:
    """Return a comparison with a baseline, whose p-value needs no correction."""
    return Comparison(folds=5, folds_won=0.8, difference=difference, p=p, holm_p=p).model_copy(
        update=changes
    )


def changed(method: MethodReport, **scores: float | None) -> MethodReport:
    """Return the report of a method with some other scores."""
    return method.model_copy(update={"scores": {**method.scores, **scores}})


def method_of(
    kind: str,
    predictions: pd.DataFrame,
    name: str,
    role: Role = "baseline",
    labels: Mapping[str, pd.Series] = {},
    **changes: Any,
) -> MethodReport:
    """Return the report of a method by its predictions, with what is not scored given."""
    scores, test, recalibration = score_with_calibration(kind, predictions, labels)
    report = MethodReport(
        **dict(scores),
        name=name,
        role=role,
        folds=score_folds(kind, predictions[predictions["fold"] >= 0]),
        test=test,
        guessing=GUESSING,
        recalibration=recalibration,
        training=TRAINING if role == "network" else None,
    )
    return report.model_copy(update=changes)


def target_of(
    predictions: pd.DataFrame, methods: Sequence[MethodReport], column: str, **changes: Any
) -> TargetReport:
    """Return the report of a target whose leading method is the first and predicts so."""
    scored = predictions[predictions["fold"] >= 0]
    report = TargetReport(
        column=column,
        structure=STRUCTURE,
        far_values=None,
        methods=tuple(methods),
        leading=methods[0].name,
        coverage=report_coverage(cross_intervals(predictions)),
        reliability=bin_probabilities(scored),
    )
    return report.model_copy(update=changes)


def task_of(kind: str, task: str, *targets: TargetReport, answer: str = "base") -> TaskReport:
    """Return the report of a task of some targets."""
    return TaskReport(
        task=task, answer=answer, kind=kind, classes=None, bounds=(None, None), targets=targets
    )
