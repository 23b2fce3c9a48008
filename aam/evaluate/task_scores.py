"""All that is scored of a task, target by target: what `scores.json` and `predictions.tsv` hold."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from aam.config.baselines import CONSTANTS
from aam.config.questions import FORECAST, STUDIES
from aam.config.settings.tasks import SampleGroups, ScoreSettings
from aam.data.confounding import Number, Observed, list_rivals
from aam.data.folds import units_of
from aam.data.metadata import metadata_column
from aam.data.predictions import (
    DRAW,
    GROUP,
    PROBABILITY,
    TARGET,
    UNNESTED,
    by_baseline,
    by_target,
)
from aam.data.table import FeatureTable
from aam.data.times import AUTO, read_times
from aam.evaluate.additions import measure_addition
from aam.evaluate.comparison import (
    compare,
    compare_tested_with_guessing,
    compare_with_guessing,
)
from aam.evaluate.far_values import find_far_values
from aam.evaluate.forecast import compare_forecast
from aam.evaluate.method_scores import (
    bin_probabilities,
    headline_score,
    report_coverage,
    score_folds,
    score_with_calibration,
)
from aam.evaluate.other_groups import try_other_groups
from aam.evaluate.people import compare_people
from aam.evaluate.rivals import measure_rivals
from aam.evaluate.scores import HEADLINE, SUPER_LEARNER, correct_p_values
from aam.evaluate.studies import compare_studies
from aam.evaluate.task_report import (
    Addition,
    Chosen,
    Comparison,
    Draws,
    Forecast,
    Guessing,
    MethodReport,
    Mixing,
    NetworkTraining,
    OtherGroups,
    People,
    Recipe,
    Rival,
    Role,
    Structure,
    Studies,
    TargetReport,
    TaskReport,
    Unnested,
    WithoutNetworks,
)
from aam.learners.conformal import cross_intervals
from aam.learners.covariate_methods import ALONE
from aam.learners.super_learner import NO_NESTED, Learner, learners_by_target, super_learner
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)

INTERVALS = (
    "sample-id",
    TARGET,
    "fold",
    "observed",
    "predicted",
    "lower",
    "upper",
    "likeliest",
    "prediction_set",
)
"""Columns of the table of intervals, as far as the kind of target has them; then probabilities."""


@dataclass(frozen=True, eq=False)
class Samples:
    """What is known of the samples beside their targets."""

    group: pd.Series
    """Group of each sample of the folds, by sample ID."""
    metadata: pd.DataFrame
    """Text of all samples."""
    reads: pd.Series | None = None
    """Reads before rarefaction, by sample ID; None: they are not known."""
    rarefied: FeatureTable | None = None
    """Rarefied reads, with all samples of the folds; None: they are not known, and neither richness
    nor other groups are looked at."""


@dataclass(frozen=True, eq=False)
class Networks:
    """What the networks of a model predict for a task: the tables of `aam.stages.finetune`."""

    predictions: pd.DataFrame
    """Cross-validated predictions."""
    nested: pd.DataFrame
    recipes: pd.DataFrame
    """Predictions and weights of each recipe."""


@dataclass(frozen=True, eq=False)
class WithCovariates:
    """What is predicted from the covariates of a task: the tables of `aam.stages.covariates`."""

    predictions: pd.DataFrame
    """Cross-validated predictions."""
    nested: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Asked:
    """The answer to the user's task that a further question is compared with."""

    predictions: pd.DataFrame
    """Cross-validated predictions of its leading methods: `predictions.tsv`."""
    group: pd.Series
    """Group of each sample of its folds, by sample ID."""


def report_task(
    settings: ScoreSettings,
    *,
    networks: Networks | None,
    baselines: pd.DataFrame,
    nested_baselines: pd.DataFrame,
    covariates: WithCovariates | None = None,
    samples: Samples,
    asked: Asked | None = None,
    provenance: Mapping[str, str] = {},
) -> tuple[TaskReport, pd.DataFrame]:
    """Score all methods of a task, and mix them.

    Parameters
    ----------
    settings
        What is predicted, what the answer is called, and by what scores are reported.
    networks
        None: baselines alone answer.
    baselines, nested_baselines
        What `aam.stages.baselines` writes: predictions and nested ones.
    covariates
        None: the task has no covariates.
    samples
        Groups, metadata and reads.
    asked
        The answer to the task that a further question is about; None: the settings have none.
    provenance
        Where the scores come from (`aam.util.digests`).

    Returns
    -------
    report : TaskReport
        The content of `scores.json`.
    intervals : pandas.DataFrame
        Predictions of the leading method of each target, with intervals or sets.
    """
    baselines = _order_classes(baselines, settings.classes)
    tables = by_baseline(baselines)
    learners = learners_by_target(baselines, _order_classes(nested_baselines, settings.classes))
    known: Mapping[str, Mapping[str, Learner]] = {}
    if covariates is not None:
        known = learners_by_target(
            _order_classes(covariates.predictions, settings.classes),
            _order_classes(covariates.nested, settings.classes),
        )
    columns = settings.columns
    network_of = {} if networks is None else _split_networks(settings, networks)
    targets = []
    parts = []
    for column in columns:
        # Tables of a task of one column do not name it.
        target = column if len(columns) > 1 else ""
        target_report, intervals = _report_target(
            settings,
            column,
            network=network_of.get(target),
            baselines={name: part[target] for name, part in tables.items()},
            learners=learners.get(target, {}),
            covariates=known.get(target, {}),
            samples=samples,
        )
        if settings.question == STUDIES:
            assert asked is not None, "studies are compared with the answer to the task itself"
            studies = _compare_with_asked(settings, asked, target, intervals, samples.group)
            target_report = target_report.model_copy(update={"studies": studies})
        targets.append(target_report)
        parts.append(intervals.assign(**{TARGET: target}) if target else intervals)
    report = TaskReport(
        task=settings.task,
        answer=settings.answer,
        kind=settings.kind,
        classes=None if settings.classes is None else tuple(settings.classes),
        bounds=settings.bounds,
        targets=tuple(targets),
        provenance=dict(provenance),
    )
    intervals = pd.concat(parts, ignore_index=True)
    return report, intervals[_shown_columns(intervals)]


def _compare_with_asked(
    task: ScoreSettings, asked: Asked, target: str, unseen: pd.DataFrame, study: pd.Series
) -> Studies:
    """Return how studies that were left out are predicted, next to the answer to the task.

    Parameters
    ----------
    task, asked
        See `report_task`.
    target
        The target as tables of predictions name it: "" where there is one.
    unseen
        Predictions of the leading method where folds are of whole studies.
    study
        Study of each sample, by sample ID.
    """
    assert task.structure.column is not None, "studies are named by a column"
    return compare_studies(
        task.kind,
        task.structure.column,
        within=by_target(asked.predictions)[target],
        unseen=unseen,
        group=asked.group,
        study=study,
    )


@dataclass(frozen=True, eq=False)
class _Network:
    """The networks of a model for one target."""

    name: str
    learner: Learner
    training: NetworkTraining


def _split_networks(task: ScoreSettings, networks: Networks) -> dict[str, _Network]:
    """Return what networks predict of each target, and how they were trained."""
    assert task.training is not None, "networks are trained somehow"
    nested = by_target(_order_classes(networks.nested, task.classes))
    recipes = by_target(networks.recipes)
    network_of = {}
    for target, table in by_target(_order_classes(networks.predictions, task.classes)).items():
        unnested = None
        if UNNESTED in table:
            flattered = table.assign(predicted=table[UNNESTED])
            unnested = _score_unnested(task.kind, table, flattered)
        network_of[target] = _Network(
            name=task.answer,
            learner=Learner(table, nested.get(target, NO_NESTED)),
            training=NetworkTraining(
                **task.training.plain(),
                recipes=_score_recipes(task.kind, recipes[target]),
                unnested=unnested,
                draws=_score_draws(task.kind, table),
            ),
        )
    return network_of


def _score_recipes(kind: str, predictions: pd.DataFrame) -> dict[str, Recipe]:
    """Return the score of each recipe on one target, and its mean weight over the folds."""
    recipes = {}
    for name, part in _scored(predictions).groupby("recipe", sort=False):
        weight = pd.to_numeric(part.groupby("fold")["weight"].first())
        score = headline_score(kind, part)
        recipes[str(name)] = Recipe(score=score, weight=float(weight.mean()))
    return recipes


@dataclass(frozen=True, eq=False)
class _Method:
    """A method with its predictions."""

    report: MethodReport
    predictions: pd.DataFrame


def _report_target(
    task: ScoreSettings,
    column: str,
    *,
    network: _Network | None,
    baselines: Mapping[str, pd.DataFrame],
    learners: Mapping[str, Learner],
    covariates: Mapping[str, Learner],
    samples: Samples,
) -> tuple[TargetReport, pd.DataFrame]:
    """Score all methods on one target.

    Parameters
    ----------
    task
        What is predicted.
    column
        The target.
    network
        What networks predict; None: there are none.
    baselines
        Predictions of every baseline by its name.
    learners
        Those that a super learner mixes, with their nested predictions.
    covariates
        What is predicted from covariates, by method; empty where there are none.
    samples
        See `report_task`.

    Returns
    -------
    report : TargetReport
        The report.
    intervals : pandas.DataFrame
        Predictions of the leading method with intervals or sets.
    """
    # All methods predict the same samples.
    table = next(iter(baselines.values())) if network is None else network.learner.predictions
    scored = _scored(table)
    group = samples.group
    scoring = _Scoring(
        kind=task.kind,
        labels={name: metadata_column(samples.metadata, name) for name in task.report_by},
        group=group,
        structure=_describe_structure(group.loc[scored["sample-id"]], task.structure),
        baselines={name: table for name, table in baselines.items() if name not in CONSTANTS},
        classes=() if task.classes is None else tuple(task.classes),
        names_test=task.names_test is True,
    )
    methods = _score_methods(scoring, network, baselines, learners)
    leading = _find_leading(methods)
    intervals = cross_intervals(scoring.name_units(leading.predictions), task.bounds)
    far_values = None
    if task.kind == "regression":
        observed = table.set_index("sample-id")["observed"]
        far_values = find_far_values(pd.to_numeric(observed))
    rivals, other_groups = _look_for_flattery(task, leading, samples)
    report = TargetReport(
        column=column,
        structure=scoring.structure,
        addition=_measure_addition(task, scoring, leading, network, learners, covariates),
        far_values=far_values,
        rivals=rivals,
        other_groups=other_groups,
        people=_compare_people(task, intervals, samples),
        forecast=_compare_forecast(task, intervals, samples, covariates),
        methods=tuple(method.report for method in methods),
        leading=leading.report.name,
        coverage=report_coverage(intervals),
        reliability=bin_probabilities(_scored(leading.predictions)),
    )
    return report, intervals


def _compare_people(task: ScoreSettings, answer: pd.DataFrame, samples: Samples) -> People | None:
    """Return how the leading method predicts between and within people; None: nobody asked."""
    if task.time is None or task.question is not None:
        return None
    assert task.structure.column is not None, "loading requires people of tasks with times"
    return compare_people(
        task.kind,
        task.structure.column,
        task.time,
        predictions=answer,
        person=samples.group,
        time=read_times(_task_column(samples, task.time)),
        classes=() if task.classes is None else task.classes,
    )


def _task_column(samples: Samples, column: str) -> pd.Series:
    """Return a metadata column of the task's own samples.

    The other samples of a table may write times another way, which would then be read as none.
    """
    return metadata_column(samples.metadata, column).loc[samples.group.index]


def _compare_forecast(
    task: ScoreSettings,
    answer: pd.DataFrame,
    samples: Samples,
    covariates: Mapping[str, Learner],
) -> Forecast | None:
    """Return how the leading method predicts later samples; None: another question is asked."""
    if task.question != FORECAST:
        return None
    assert task.structure.column is not None, "loading requires people of tasks with times"
    assert task.time is not None, "loading requires times of forecasts"
    assert task.forecast is not None, "a forecast is after some time"
    text = _task_column(samples, task.time)
    time = read_times(text)
    after = task.forecast
    if after == AUTO:
        earlier = answer.loc[answer["fold"] >= 0, "sample-id"]
        after = str(text.iloc[int(np.nanargmax(time.where(time.index.isin(earlier))))])
    alone = {name: one for name, one in covariates.items() if name in ALONE}
    known = super_learner(alone, units_of(samples.group)).predictions if alone else None
    return compare_forecast(
        task.kind,
        task.structure.column,
        task.time,
        after=after,
        predictions=answer,
        person=samples.group,
        time=time,
        covariates=known,
        bounds=task.bounds,
        classes=() if task.classes is None else task.classes,
    )


def _measure_addition(
    task: ScoreSettings,
    scoring: "_Scoring",
    leading: _Method,
    network: _Network | None,
    learners: Mapping[str, Learner],
    covariates: Mapping[str, Learner],
) -> Addition | None:
    """Return what features add to covariates; None where nested predictions are missing."""
    features = dict(learners)
    if leading.report.role == "network":
        # Networks of few labels are not mixed with the baselines: covariates are added to them.
        features = {}
    if network is not None:
        features = {network.name: network.learner, **features}
    if (
        task.question is not None
        or not covariates
        or not all(len(one.nested) for one in features.values())
    ):
        return None
    assert task.covariates is not None, "what is predicted from covariates has their names"
    return measure_addition(
        task.kind,
        covariates=task.covariates,
        learners=covariates,
        features=features,
        group=scoring.group,
        classes=scoring.classes,
    )


def _score_methods(
    scoring: "_Scoring",
    network: _Network | None,
    baselines: Mapping[str, pd.DataFrame],
    learners: Mapping[str, Learner],
) -> list[_Method]:
    """Score networks, the super learner where there is one, and the baselines."""
    methods = []
    mixed = dict(learners)
    is_mixed = len(learners) > 1
    if network is not None:
        table = network.learner.predictions
        report = scoring.compare_with_baselines(
            scoring.score(network.name, "network", table), table
        )
        methods.append(_Method(report.model_copy(update={"training": network.training}), table))
        mixed = {network.name: network.learner, **learners}
        # Baselines that know all labels would hide what networks do with few.
        is_mixed = len(learners) > 0 and network.training.labels == 1
    if is_mixed:
        methods.append(_mix(scoring, mixed, baselines=None if network is None else learners))
    for name, table in baselines.items():
        methods.append(_Method(scoring.score(name, "baseline", table), table))
    return methods


def _mix(
    scoring: "_Scoring",
    learners: Mapping[str, Learner],
    *,
    baselines: Mapping[str, Learner] | None,
) -> _Method:
    """Mix several methods and score the mixture; `baselines` are those of them, beside networks."""
    kind = scoring.kind
    units = units_of(scoring.group)
    mixed = super_learner(learners, units)
    table = mixed.predictions
    without_networks = None
    if baselines is not None:
        without = super_learner(baselines, units).predictions
        without_networks = WithoutNetworks(
            score=headline_score(kind, without), comparison=scoring.compare(table, without)
        )
    mixing = Mixing(
        weights=dict(mixed.mixture.weights),
        temperatures=dict(mixed.mixture.temperatures),
        unnested=_score_unnested(kind, table, mixed.unnested),
        chosen=Chosen(
            score=headline_score(kind, mixed.chosen),
            learners=dict(mixed.names),
            comparison=scoring.compare(table, mixed.chosen),
        ),
        without_networks=without_networks,
    )
    report = scoring.compare_with_baselines(
        scoring.score(SUPER_LEARNER, "super learner", table), table
    )
    return _Method(report.model_copy(update={"mixing": mixing}), table)


def _find_leading(methods: Sequence[_Method]) -> _Method:
    """Return the method whose predictions come first: see `TargetReport.leading`."""

    def rank(method: _Method) -> int:
        if method.report.role == "baseline":
            return 3 if method.report.name in CONSTANTS else 2
        return 0 if method.report.role == "super learner" else 1

    return min(methods, key=rank)


@dataclass(frozen=True, eq=False)
class _Scoring:
    """How the methods of a target are scored, and what they are compared with."""

    kind: str
    labels: Mapping[str, pd.Series]
    """Columns of the metadata, by sample ID, within whose values is scored too."""
    group: pd.Series
    """Group of each sample, by sample ID."""
    structure: Structure
    baselines: Mapping[str, pd.DataFrame]
    """Predictions of the baselines to compare with, by their names."""
    classes: Sequence[str]
    """Classes in their order; none: they have none, or numbers are predicted."""
    names_test: bool
    """Whether the user names the test set."""

    def name_units(self, predictions: pd.DataFrame) -> pd.DataFrame:
        """Return predictions with what probabilities are calibrated by: who belongs together."""
        units = units_of(self.group).loc[predictions["sample-id"]].to_numpy()
        return predictions.assign(**{GROUP: units})

    def score(self, name: str, role: Role, predictions: pd.DataFrame) -> MethodReport:
        """Return the scores of a method, and log the headline score."""
        scores, test, recalibration = score_with_calibration(
            self.kind, self.name_units(predictions), self.labels
        )
        rows = _scored(predictions)
        groups_N = self.group.loc[rows["sample-id"]].to_numpy()
        guessing = compare_with_guessing(self.kind, rows, groups_N, self.classes)
        headline = HEADLINE[self.kind]
        report = MethodReport(
            **dict(scores),
            name=name,
            role=role,
            folds=score_folds(self.kind, rows),
            test=test,
            test_guessing=self._compare_tested(predictions) if test is not None else None,
            guessing=guessing,
            recalibration=recalibration,
        )
        if name in CONSTANTS and self.kind != "regression":
            # The majority of the other folds is right less often than one guess in K: see
            # `compare_with_guessing`.
            shown = {**scores.scores, headline: guessing.score}
            alone = guessing.model_copy(update={"difference": 0.0, "p": None, "interval": None})
            report = report.model_copy(update={"scores": shown, "guessing": alone})
        logger.info("%s: %s %.4g", name, headline, report.scores[headline])
        return report

    def _compare_tested(self, predictions: pd.DataFrame) -> Guessing | None:
        """Compare the test set with guessing, where the user names it and it has two classes."""
        if not self.names_test:
            return None
        tested = predictions[predictions["fold"] < 0]
        if self.kind != "regression" and tested["observed"].nunique() < 2:
            return None
        groups_N = self.group.loc[predictions["sample-id"]].to_numpy()
        return compare_tested_with_guessing(self.kind, predictions, groups_N, self.classes)

    def compare(self, first: pd.DataFrame, second: pd.DataFrame) -> Comparison:
        """Return the comparison of two methods on the samples of fold 0 and above."""
        return compare(self.kind, _scored(first), _scored(second), self.group)

    def compare_with_baselines(
        self, report: MethodReport, predictions: pd.DataFrame
    ) -> MethodReport:
        """Return the report of a method with its comparisons with all baselines that learn."""
        compared = [self.compare(predictions, table) for table in self.baselines.values()]
        corrected = correct_p_values([one.p for one in compared])
        comparisons = {}
        for name, one, p in zip(self.baselines, compared, corrected, strict=True):
            comparisons[name] = one.model_copy(update={"holm_p": p})
        return report.model_copy(update={"comparisons": comparisons})


def _describe_structure(group: pd.Series, known: SampleGroups) -> Structure:
    """Return the groups of scored samples, by what is known of them."""
    names = group.to_numpy(np.str_)
    named = names[names != ""]
    groups = len(np.unique(named))
    return Structure(
        column=known.column,
        groups=groups or None,
        independent=groups == len(named),
        stated=known.stated,
    )


def _scored(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of fold 0 and above."""
    return predictions[predictions["fold"] >= 0]


def _score_unnested(kind: str, predictions: pd.DataFrame, unnested: pd.DataFrame) -> Unnested:
    """Return the headline score with weights that rest on models which saw the fold."""
    score = headline_score(kind, unnested)
    return Unnested(score=score, difference=score - headline_score(kind, predictions))


def _score_draws(kind: str, predictions: pd.DataFrame) -> Draws | None:
    """Return mean and standard deviation of the headline score over single networks."""
    names = [name for name in predictions if str(name).startswith(DRAW)]
    if not names:
        return None
    scores = [
        headline_score(kind, predictions.assign(predicted=predictions[name])) for name in names
    ]
    return Draws(
        networks=len(scores), mean=float(np.mean(scores)), sd=float(np.std(scores, ddof=1))
    )


def _look_for_flattery(
    task: ScoreSettings, leading: _Method, samples: Samples
) -> tuple[tuple[Rival, ...], tuple[OtherGroups, ...]]:
    """Return what may have been learned in the place of a target, and who may be in several folds.

    Parameters
    ----------
    task
        What is predicted.
    leading
        The method whose predictions come first.
    samples
        See `report_task`.
    """
    predictions = _scored(leading.predictions)
    ids = predictions["sample-id"]
    observed = Observed.from_values(
        predictions.set_index("sample-id")["observed"],
        kind=task.kind,
        fold=predictions["fold"].to_numpy(),
        units=units_of(samples.group.loc[ids]).to_numpy(),
    )
    metadata = samples.metadata.loc[ids]
    # Selecting rows may lose the attributes, which hold the types that the file declares.
    metadata.attrs = dict(samples.metadata.attrs)
    numbers: dict[Number, pd.Series] = {}
    if samples.reads is not None:
        numbers["reads"] = samples.reads.loc[ids]
    table = None
    if samples.rarefied is not None:
        rows = pd.Index(samples.rarefied.sample_ids).get_indexer(pd.Index(ids))
        # Not `select_samples`, which would drop the ASVs of other samples.
        table = samples.rarefied.counts[rows]
        numbers["richness"] = pd.Series(np.diff(table.indptr), index=pd.Index(ids))
    rivals = measure_rivals(
        observed,
        predictions,
        list_rivals(metadata, targets=task.columns, numbers=numbers),
        skill=leading.report.guessing.skill(task.kind),
        seed=seed_of("confounders", task.dataset, task.task),
    )
    exclude = [*task.columns, *([task.structure.column] if task.structure.column else [])]
    if table is None:
        return rivals, ()
    other_groups = try_other_groups(
        observed,
        table,
        metadata,
        exclude=exclude,
        seed=seed_of("other_groups", task.dataset, task.task),
    )
    return rivals, other_groups


def _shown_columns(intervals: pd.DataFrame) -> list[str]:
    """Return the columns that the table of intervals is written with."""
    names = list(map(str, intervals))
    probabilities = [name for name in names if name.startswith(PROBABILITY)]
    return [*(name for name in INTERVALS if name in names), *probabilities]


def _order_classes(predictions: pd.DataFrame, classes: Sequence[str] | None) -> pd.DataFrame:
    """Put the probabilities into the order of an ordinal target's classes."""
    if not len(predictions):
        return predictions
    columns = [PROBABILITY + name for name in classes or []]
    return predictions[[*(name for name in predictions if name not in columns), *columns]]
