"""Small reports of tasks, of which a test changes what it is about."""

from collections.abc import Mapping
from typing import Any

from task_reports import TRAINING, comparison

from aam.config.names import FIRST
from aam.evaluate.scores import MAIN, SUPER_LEARNER
from aam.evaluate.task_report import (
    CalibratedScores,
    Chosen,
    Coverage,
    FoldScore,
    Guessing,
    MethodReport,
    Mixing,
    Recipe,
    Rival,
    Structure,
    TargetReport,
    TaskReport,
    Unnested,
    WithoutNetworks,
)
from aam.report.page.answers import Answer, list_answers

CALIBRATED = CalibratedScores(
    brier=0.163, ece=0.068, log_loss=0.8, constant_brier=0.166, constant_log_loss=1.6
)
KERNEL = {"kernel": Recipe(score=4.0, weight=1.0)}
NETWORK = {"full": Recipe(score=4.5, weight=1.0)}
RECIPES = {"kernel": Recipe(score=5.0, weight=0.25), "full": Recipe(score=4.5, weight=0.75)}
MIXING = Mixing(
    weights={"base": 0.16, "random_forest": 0.835, "elastic_net": 0.005},
    temperatures={},
    unnested=Unnested(score=3.5, difference=-0.5),
    chosen=Chosen(
        score=3.9,
        learners={0: "random_forest", 1: "base", 2: "random_forest"},
        comparison=comparison(0.1, 0.03),
    ),
    without_networks=WithoutNetworks(score=4.25, comparison=comparison(-0.1, 0.4)),
)


def guessing(
    score: float,
    difference: float,
    p: float | None,
    interval: tuple[float, float] | None = None,
    **others: Any,
) -> Guessing:
    """Return what guessing reaches, and how a method differs from it."""
    return Guessing(score=score, difference=difference, p=p, interval=interval, **others)


def changed_interval(against: Guessing, interval: tuple[float, float] | None) -> Guessing:
    """Return a comparison with guessing that has another interval."""
    return against.model_copy(update={"interval": interval})


def rival(name: str, *, left: Any = "nothing", **changes: Any) -> Rival:
    """Return a technical column that predicts a target exactly, and what it leaves of the score."""
    given = {"role": "technical", "score": 1.0, "guessing": 0.2, "exactness": "exactly", "p": 0.001}
    return Rival(**{"name": name, "within": None, "left": left, **given, **changes})


def regression(**changes: Any) -> TaskReport:
    """Return a number that networks predict well: age in years; `changes` as in `report_of`."""
    compared = {"random_forest": comparison(-1.0, 0.01), "elastic_net": comparison(-3.0, 0.01)}
    plain = {
        "guessing": guessing(9.0, -5.0, 0.0006, (3.5, 4.5)),
        "comparisons": compared,
    }
    scores = {"median": 3.0, "random_forest": 5.0, "elastic_net": 7.0}
    given = {"task": "age", "column": "host_age_years", "size": 12.5, **changes}
    return report_of("regression", 4.0, plain, scores, **given)


def classes(**changes: Any) -> TaskReport:
    """Return classes that networks predict well: one of five cities."""
    plain = {
        "guessing": guessing(0.20, 0.391, 0.0006, (0.54, 0.64)),
        "comparisons": {"random_forest": comparison(0.041, 0.3)},
        "calibrated": CALIBRATED,
    }
    scores = {"majority": 0.9, "random_forest": 0.55}
    given = {"task": "city", "column": "city", "size": 2.5, **changes}
    return report_of("classification", 0.591, plain, scores, **given)


def report_of(
    kind: Any,
    score: float,
    plain: Mapping[str, Any],
    baselines: Mapping[str, float],
    *,
    task: str,
    column: str,
    size: float,
    answer: str = "base",
    networks: Mapping[str, Any] = {},
    training: Mapping[str, Any] = {},
    super_learner: Mapping[str, Any] | None = None,
    mixing: Mapping[str, Any] = {},
    of_baselines: Mapping[str, Any] = {},
    coverage: Mapping[str, Any] = {},
    structure: Mapping[str, Any] = {},
    **target: Any,
) -> TaskReport:
    """Return the report of a task with one target.

    Parameters
    ----------
    kind, task, column, answer
        Those of the report.
    score, plain
        Headline score of networks, and what else is known of them.
    baselines
        Headline scores of the baselines.
    size
        Mean size of intervals or sets.
    networks, training, super_learner, mixing, of_baselines, coverage, structure, target
        What is different; `super_learner` None: there is none, `answer` FIRST: there are no
        networks.
    """
    headline = MAIN[kind][0] if kind == "regression" else "balanced_accuracy"
    of_networks = changed(_method(kind, headline, score, "base", "network"), **plain)
    of_networks = changed(
        of_networks, training=changed(TRAINING, **{"recipes": KERNEL, **training}), **networks
    )
    methods = [] if answer == FIRST else [of_networks]
    if super_learner is not None:
        about = {"name": SUPER_LEARNER, "role": "super learner", "training": None}
        about["mixing"] = changed(MIXING, **mixing)
        methods.append(changed(changed(of_networks, **about), **super_learner))
    for name, value in baselines.items():
        methods.append(changed(_method(kind, headline, value, name, "baseline"), **of_baselines))
    covered = Coverage(level=0.9, coverage=0.887, size=size, by_fold={0: 0.85, 1: 0.92})
    groups = Structure(column="host", groups=40, independent=False, stated=True)
    report = TargetReport(
        column=column,
        structure=changed(groups, **structure),
        far_values=None,
        methods=tuple(methods),
        leading=SUPER_LEARNER if super_learner is not None else methods[0].name,
        coverage=changed(covered, **coverage),
    )
    return TaskReport(
        task=task,
        answer=answer,
        kind=kind,
        classes=None,
        bounds=(None, None),
        targets=(changed(report, **target),),
    )


def changed(part: Any, **changes: Any) -> Any:
    """Return a part of a report with changes; those of scores keep the other scores.

    The interval of a method is that of its comparison with guessing.
    """
    if "interval" in changes:
        against = changes.get("guessing", part.guessing)
        changes["guessing"] = changed_interval(against, changes.pop("interval"))
    scores = changes.pop("scores", None)
    if scores is not None:
        changes["scores"] = {**part.scores, **scores}
    return part.model_copy(update=changes)


def _method(kind: str, headline: str, score: float, name: str, role: Any) -> MethodReport:
    scores = dict.fromkeys(MAIN[kind], 1.0 if kind == "regression" else 0.5)
    given = {"mae_fold_sd": 0.5} if kind == "regression" else {"brier": 0.2, "ece": 0.110}
    return MethodReport(
        n=200,
        scores={**scores, **given, headline: score},
        by={},
        name=name,
        role=role,
        folds={fold: FoldScore(n=40, score=score) for fold in range(5)},
        guessing=guessing(9.0, 0.0, None),
    )


def answer_to(report: TaskReport, *others: TaskReport) -> Answer:
    """Return the first answer of a page that shows some reports."""
    return list_answers([report, *others])[0]
