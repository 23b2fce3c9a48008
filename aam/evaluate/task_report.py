"""The report of a task: what `scores.json` holds, and what the page is written from.

The module imports neither SciPy nor scikit-learn, so that the page starts quickly.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aam.config.baselines import CONSTANTS
from aam.data.predictions import TARGET
from aam.evaluate.scores import HEADLINE, MAIN, ORDINAL, REGRESSION, SUPER_LEARNER
from aam.util.atomic import write_json
from aam.util.errors import problem

Role = Literal["network", "super learner", "baseline"]
"""What a method is: networks of a model, all methods mixed, or one that trains no network."""
Kind = Literal["regression", "classification", "ordinal"]


class ReportPart(BaseModel):
    """A part of a report, which never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Structure(ReportPart):
    """The groups of the samples that the scores rest on."""

    column: str | None
    """Metadata column that keeps samples together; None: none was named."""
    groups: int | None
    """Number of groups; None where the samples have none."""
    independent: bool
    """No two samples share a group, so that tests over samples are valid."""
    stated: bool
    """The user named a column, or said that every sample is of its own."""


class FarValues(ReportPart):
    """Numbers of a target that decide its scores alone: `aam.evaluate.far_values`."""

    values: tuple[float, ...]
    """Different numbers that lie far from all others; none where the numbers lie over so many
    powers of ten that no single one is far."""
    samples: tuple[str, ...]
    """The first of the samples that have them, or those of the largest numbers."""
    count: int
    """How many samples that are."""
    low: float
    high: float
    """Between which all others lie."""


class WithinLevels(ReportPart):
    """How the leading method tells apart samples that are alike in a rival: `rivals`."""

    n: int
    """Samples in levels that leave something to tell apart."""
    levels: int
    score: float
    """Classes: balanced accuracy within a level, the mean over levels. Numbers: mean absolute error
    after the median error of the level in the other folds is taken off."""
    guessing: float
    """The same of guessing that knows the level."""
    shrinkage: float
    """Skill of the leading method on all samples less that within levels; skill is 0 for guessing
    and 1 for a perfect score."""
    error: float
    """Standard error of the shrinkage, by leaving out one unit at a time."""
    p: float
    """p-value, one-sided, of no relation between predictions and target within levels."""


class Rival(ReportPart):
    """What may have been learned in the place of the target: `aam.data.confounding`."""

    name: str
    """Name of a column; `reads`, the reads of a sample before rarefaction; `richness`, its ASVs
    after it."""
    role: Literal["technical", "circumstance", "reads", "richness"]
    """What it is: technical columns are on how samples were processed, circumstances on whom, where
    and when they were taken from."""
    score: float
    """Headline score of the rival alone, without any ASV, on the same folds."""
    guessing: float
    """The same of guessing."""
    exactness: Literal["exactly", "nearly"] | None
    """Whether it predicts every sample right, or nearly."""
    p: float
    """p-value of no relation between rival and target, corrected for all rivals of the target."""
    within: WithinLevels | None
    """None: it predicts nothing, or its levels leave nothing to tell apart."""
    left: Literal["nothing", "less", "all"]
    """What it leaves of the score of the leading method: nothing that is better than guessing, less
    than the score says, or all."""


class OtherGroups(ReportPart):
    """Nearest neighbours where another column keeps samples together: `other_groups`."""

    column: str
    groups: int
    score: float
    """Headline score with folds that keep its groups together."""
    with_own_folds: float
    """The same with the folds of the task."""
    p: float
    """p-value, one-sided, of no loss, corrected for the columns that were tried."""
    is_worse: bool
    """Whether the score is worse by more than its error."""


class Comparison(ReportPart):
    """One method against another on the same folds: `aam.evaluate.comparison.compare`."""

    folds: int
    folds_won: float
    """Fraction of the folds in which the first is the better."""
    difference: float
    """Headline score of the first less that of the second."""
    p: float | None
    """Two-sided p-value of the difference, by a t-test over units; None: no test is possible."""
    holm_p: float | None = None
    """The same, corrected for all baselines that a method is compared with."""


class RankErrors(ReportPart):
    """By how many steps predictions of ordered classes are off, the mean of the classes."""

    score: float
    constant: float
    """The same of the one class that is nearest to all."""


class Guessing(ReportPart):
    """A method against guessing: `aam.evaluate.comparison.compare_with_guessing`."""

    score: float
    """Headline score that guessing reaches."""
    difference: float
    """Headline score of the method less that."""
    p: float | None = None
    """Two-sided p-value of the difference, by a t-test over units; None: no test is possible."""
    interval: tuple[float, float] | None = None
    """95 % interval of the method's headline score, from the same test."""
    ranks: RankErrors | None = None
    """Of classes that have an order."""

    def skill(self, kind: str) -> float:
        """Return the part of the way from guessing to perfect predictions; 0 is guessing.

        Parameters
        ----------
        kind
            Kind of the target: regression, classification or ordinal.
        """
        if kind == "regression":
            return -self.difference / self.score if self.score > 0 else 0.0
        return self.difference / (1 - self.score) if self.score < 1 else 0.0


class Difference(ReportPart):
    """A difference of two headline scores: `aam.evaluate.comparison.measure_difference`."""

    difference: float
    """Score of the first less that of the second."""
    interval: tuple[float, float] | None = None
    """95 % interval of the difference, from the same test as p."""
    p: float | None = None
    """Two-sided p-value, by a t-test over units; None: no test is possible."""


class Answered(ReportPart):
    """A headline score against guessing."""

    score: float
    guessing: Guessing


class Addition(ReportPart):
    """A target predicted from covariates, from features, and from both: `additions`."""

    covariates: tuple[str, ...]
    """Metadata columns that are known of a sample without its features."""
    alone: Answered
    """Covariates alone."""
    features: Answered
    """Features alone: the leading method."""
    both: Answered
    of_features: Difference
    """Both less covariates alone: what the features add."""
    of_covariates: Difference
    """Both less features alone: what the covariates add."""
    weights: dict[str, float]
    """Weights, for new samples, of what is mixed to predict from both."""


class StudyScore(ReportPart):
    """How the leading method predicts the samples of one study."""

    study: str
    n: int
    within: float | None
    """Headline score where other samples of the study are learned from; None: it has one class."""
    unseen: float | None
    """The same where the study is left out."""
    guessing: float | None
    """What guessing reaches where the study is left out."""


class Studies(ReportPart):
    """A target in studies that were never seen: `aam.evaluate.studies`."""

    column: str
    """Metadata column of the studies."""
    studies: tuple[StudyScore, ...]
    """The largest first."""
    within: Answered
    """The mean over the studies where other samples of each are learned from."""
    unseen: Answered
    """The same where each is left out; its test and interval take studies as units."""

    @property
    def scored(self) -> tuple[StudyScore, ...]:
        """The studies that have a score."""
        return tuple(study for study in self.studies if study.unseen is not None)


class OfPeople(Answered):
    """A score of people, who count alike and are the units of its test: `aam.evaluate.people`.

    Between people, guessing is that of any score. Within people it is no change; of classes, half
    of the pairs of a person's samples.
    """

    people: int
    """People with a score."""
    n: int
    """What is predicted: people; samples or steps of people; of classes, pairs of samples."""
    time: Guessing | None = None
    """Against a line of time, of the people of the other folds; of classes, against the class that
    is mostly the later one. None: between people, or where no times are known."""
    follows_time: bool = False
    """Whether time leaves next to nothing of the change: the label is time, or follows it."""


class People(ReportPart):
    """A target between people, and within them over time: `aam.evaluate.people`."""

    column: str
    """Metadata column of the people: `folds.groups`."""
    time: str
    """Metadata column of the times."""
    people: int
    single: int
    """People with one sample, of whom no change is known."""
    samples: int
    untimed: int
    """Samples without a time."""
    between: OfPeople | None
    """One value per person: the mean, or the most frequent class; None: it is the same in all."""
    within: OfPeople | None
    """What differs from the person's own mean; None: nothing does. Of classes, the share of the
    pairs of a person's samples of two classes that are told apart."""
    change: OfPeople | None
    """The same of what differs from the sample before."""

    @property
    def tests(self) -> dict[str, float | None]:
        """The p-values of what the page claims, by what they are of."""
        parts = {"between": self.between, "within": self.within, "change": self.change}
        tests = {name: None if one is None else one.guessing.p for name, one in parts.items()}
        time = None if self.within is None else self.within.time
        return {**tests, "time": None if time is None else time.p}


class ForecastRival(ReportPart):
    """What predicts later samples without any feature."""

    name: str
    """`last value`, `mean` or `most frequent class`, and `trend` of the same person; `time alone`,
    `covariates` and `guessing`."""
    score: float
    difference: float
    """Score of the leading method less that of the rival."""
    p: float | None
    """Two-sided p-value of the difference, with people as units; None: no test is possible."""
    holm_p: float | None = None
    """The same, corrected for all rivals of these people."""


class Forecasted(ReportPart):
    """How the later samples of some people are predicted from all earlier ones."""

    n: int
    people: int
    score: float
    """Mean absolute error, in which people count alike; of classes, balanced accuracy."""
    interval: tuple[float, float] | None
    """95 % interval of the score."""
    rivals: tuple[ForecastRival, ...]
    """The best first."""


class Forecast(ReportPart):
    """Samples after a time, predicted from those up to it: `aam.evaluate.forecast`."""

    column: str
    """Metadata column of the people."""
    time: str
    """Metadata column of the times."""
    after: str
    """The last time that is learned from."""
    known: Forecasted | None
    """Of people with earlier samples; None: there are none, or all samples are of one class."""
    new: Forecasted | None
    """Of people without."""

    @property
    def tests(self) -> dict[str, float | None]:
        """The p-values against the best rival, of people who are known and of new ones."""
        parts = {"known": self.known, "new": self.new}
        return {name: None if one is None else one.rivals[0].holm_p for name, one in parts.items()}


class SubsetScore(ReportPart):
    """The mean absolute error of some samples, or the share of them whose class is right."""

    n: int
    score: float | None


class FoldScore(SubsetScore):
    """The same of a fold."""

    r2: float | None = None
    pearson: float | None = None


class ClassScores(ReportPart):
    """How one class is recognized; None where a score is undefined."""

    n: int
    precision: float | None
    recall: float | None
    f1: float | None
    roc_auc: float | None


class Confusion(ReportPart):
    """How often each class is predicted as each: rows are observed, columns predicted ones."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


class CalibratedScores(ReportPart):
    """Scores of calibrated probabilities, and of a constant: how frequent the classes are."""

    brier: float
    log_loss: float
    ece: float
    constant_brier: float
    constant_log_loss: float


class SampleScores(ReportPart):
    """How a method predicts some samples."""

    n: int
    scores: dict[str, float | None]
    """By the names of `aam.evaluate.scores.MAIN`; None where undefined."""
    by: dict[str, dict[str, SubsetScore]]
    """Scores within the values of each column of `report_by`."""
    per_class: dict[str, ClassScores] | None = None
    confusion: Confusion | None = None
    calibrated: CalibratedScores | None = None
    """As `per_class` and `confusion`, of classes alone."""


class RecalibrationFacts(ReportPart):
    """What calibrates the probabilities of classes, learned from all scored samples."""

    slope: float
    intercepts: dict[str, float]


class Unnested(ReportPart):
    """The headline score with weights that rest on models which saw the fold: it is flattered."""

    score: float
    difference: float
    """That score less the one that is reported."""


class Draws(ReportPart):
    """The headline score of single networks, where predictions are means over several."""

    networks: int
    mean: float
    sd: float


class Recipe(ReportPart):
    """One of the ways to fine-tune that a model mixes."""

    score: float
    """Its headline score alone."""
    weight: float
    """Its mean weight over the folds."""


class NetworkTraining(ReportPart):
    """How the networks of a model were trained, and what their parts predict of a target."""

    recipe: str
    """What fine-tuning trained: the key `finetuning.recipe`."""
    start: str
    """Which weights it started from: the key `finetuning.start`."""
    labels: float
    """Fraction of the labels that were used."""
    evaluation: Literal["inductive", "transductive"]
    """Whether pretraining saw the reads of the samples that are predicted."""
    start_directory: str | None
    """Directory of a pretrained model that the encoder started from, which may have seen any
    samples; None: it started from weights that were drawn for it."""
    recipes: dict[str, Recipe] = {}
    unnested: Unnested | None = None
    """None: no recipes are mixed."""
    draws: Draws | None = None
    """None: predictions are those of one network each."""


class Chosen(ReportPart):
    """The single method that cross-validation within the training folds would choose."""

    score: float
    learners: dict[int, str]
    """Which that is, by fold."""
    comparison: Comparison
    """The super learner against it."""


class WithoutNetworks(ReportPart):
    """The mixture of the baselines alone."""

    score: float
    comparison: Comparison
    """The super learner with networks against it."""


class Mixing(ReportPart):
    """What the super learner is made of."""

    weights: dict[str, float]
    """Weights of the methods for new samples."""
    temperatures: dict[str, float]
    unnested: Unnested
    chosen: Chosen
    without_networks: WithoutNetworks | None = None
    """None: it has none."""


class MethodReport(SampleScores):
    """How one method predicts a target; its own scores are those of the cross-validation."""

    name: str
    """Of a model, of a baseline, or `aam.evaluate.scores.SUPER_LEARNER`."""
    role: Role
    folds: dict[int, FoldScore]
    test: SampleScores | None = None
    """Of held-out samples that no fold has."""
    test_guessing: Guessing | None = Field(None, exclude_if=lambda guessing: guessing is None)
    """The same against guessing, with an interval; None, and absent from the file: the user does
    not name them."""
    guessing: Guessing
    comparisons: dict[str, Comparison] = {}
    """Networks and the super learner against each baseline that learns."""
    recalibration: RecalibrationFacts | None = None
    """None where numbers are predicted."""
    training: NetworkTraining | None = None
    """Of networks."""
    mixing: Mixing | None = None
    """Of the super learner."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the headline score."""
        return self.guessing.interval


class CoverageOfTest(ReportPart):
    """What the intervals or sets of held-out test samples hold."""

    n: int
    coverage: float
    size: float | None


class Coverage(ReportPart):
    """How often prediction intervals or sets hold what was observed."""

    level: float
    """Share of the samples for which they should."""
    coverage: float
    """Share for which they do, of those that have one; 1 where none has."""
    size: float | None
    """Mean width of intervals, None where one has no end; mean number of classes of sets."""
    by_fold: dict[int, float]
    test: CoverageOfTest | None = None


class ReliabilityBin(ReportPart):
    """Samples whose likeliest class has about the same probability."""

    n: int
    confidence: float
    """Mean probability of the likeliest class."""
    accuracy: float
    """Share of the samples of which it is the class."""


class TargetReport(ReportPart):
    """How one column of a task is predicted by all methods."""

    column: str
    structure: Structure
    far_values: FarValues | None
    """None: there are none, or classes are predicted."""
    rivals: tuple[Rival, ...] = ()
    """What else may say the target, the best at it first."""
    other_groups: tuple[OtherGroups, ...] = ()
    """Columns that could say which samples belong together, and do not."""
    addition: Addition | None = Field(None, exclude_if=lambda addition: addition is None)
    """What the features add to covariates; None, and absent from the file: the task has none."""
    studies: Studies | None = Field(None, exclude_if=lambda studies: studies is None)
    """Of the task that leaves out whole studies; None, and absent from the file: another."""
    people: People | None = Field(None, exclude_if=lambda people: people is None)
    """Between and within people; None, and absent from the file: the task has no `time`."""
    forecast: Forecast | None = Field(None, exclude_if=lambda forecast: forecast is None)
    """Of the task that predicts later samples from earlier ones; None, and absent from the file:
    another."""
    methods: tuple[MethodReport, ...]
    """Networks, the super learner, then the baselines in the order of their stage."""
    leading: str
    """The method whose score and predictions come first: the super learner where there is one,
    else the networks, else the first baseline that learns."""
    coverage: Coverage
    """Of the predictions of the leading method, in `predictions.tsv`."""
    reliability: tuple[ReliabilityBin, ...] = ()
    """Of its probabilities of classes before calibration, the least sure first."""

    def method(self, name: str) -> MethodReport:
        """Return the report of a method by its name."""
        return next(method for method in self.methods if method.name == name)

    @property
    def confounders(self) -> tuple[Rival, ...]:
        """Rivals that leave nothing of the score."""
        return tuple(rival for rival in self.rivals if rival.left == "nothing")

    @property
    def leaks(self) -> tuple[OtherGroups, ...]:
        """Columns whose groups lie in several folds, which makes the score too good."""
        return tuple(other for other in self.other_groups if other.is_worse)

    @property
    def best(self) -> MethodReport:
        """The leading method; its score need not be the best of all."""
        return self.method(self.leading)

    @property
    def asked_guessing(self) -> Guessing:
        """The leading method against guessing, by the score that the task asks for."""
        return self.best.guessing if self.studies is None else self.studies.unseen.guessing

    @property
    def networks(self) -> MethodReport | None:
        """The networks of a model; None: the answer is of baselines alone."""
        return next((method for method in self.methods if method.role == "network"), None)

    @property
    def super_learner(self) -> MethodReport | None:
        """The mixture of all methods; None: there is one method, or labels were left out."""
        return next((method for method in self.methods if method.name == SUPER_LEARNER), None)

    @property
    def others(self) -> tuple[MethodReport, ...]:
        """All methods that learn, without the leading one."""
        return tuple(
            method
            for method in self.methods
            if method.name != self.leading and method.name not in CONSTANTS
        )

    @property
    def baselines(self) -> tuple[MethodReport, ...]:
        """All baselines, constants among them."""
        return tuple(method for method in self.methods if method.role == "baseline")


class TargetKey(NamedTuple):
    """Which target of which task."""

    task: str
    column: str = ""
    """Empty where the task has one target."""


class TaskReport(ReportPart):
    """All that is scored of a task: by baselines alone, or by the networks of a model and them."""

    task: str
    answer: str
    """`aam.config.names.FIRST` where baselines alone answer, else the name of the model."""
    kind: Kind
    classes: tuple[str, ...] | None
    """Classes in their order; None: they have none, or numbers are predicted."""
    bounds: tuple[float | None, float | None]
    """Least and largest number that can be predicted; None: no bound."""
    targets: tuple[TargetReport, ...]
    """One per column, in the order of the configuration."""
    provenance: dict[str, str] = {}
    """Where the scores come from: `aam.util.digests`."""

    @property
    def headline(self) -> str:
        """Name of the score that methods are ranked by."""
        return HEADLINE[self.kind]

    @property
    def columns(self) -> tuple[str, ...]:
        """What is predicted."""
        return tuple(target.column for target in self.targets)

    def by_key(self) -> Iterator[tuple[TargetKey, TargetReport]]:
        """Yield each target with what tells it from all others of a page."""
        for target in self.targets:
            yield TargetKey(self.task, target.column if len(self.targets) > 1 else ""), target

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of scores.

        Parameters
        ----------
        path
            A file that `write` wrote.

        Raises
        ------
        InputError
            Another version of the package wrote it.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise problem(
                path,
                "scores that another version of aam wrote",
                "scores of this version",
                "delete the file and run again",
            ) from error

    def write(self, path: Path) -> None:
        """Write the report as JSON, atomically."""
        write_json(path, self.model_dump(mode="json"))


def accuracy_table(reports: Sequence[TaskReport]) -> pd.DataFrame:
    """Put the scores of all methods of some reports into one table.

    Parameters
    ----------
    reports
        Any number per task.

    Returns
    -------
    pandas.DataFrame
        A row per method and target with its scores, `role` and `name`: that of the model where
        networks are mixed by a super learner. Tasks are in the order of the reports, the best
        method first, a baseline once per task. Where a task has several targets, the column
        `target` names them.
    """
    # The baselines of a task are in the reports of all its models: the last one counts.
    rows: dict[tuple[TargetKey, Role, str], dict[str, Any]] = {}
    for report in reports:
        for key, target in report.by_key():
            for method in target.methods:
                name = report.answer if method.role == "super learner" else method.name
                rows[key, method.role, name] = {
                    "task": key.task,
                    TARGET: key.column,
                    "kind": report.kind,
                    "name": name,
                    "role": method.role,
                    "n": method.n,
                    **{score: method.scores[score] for score in MAIN[report.kind]},
                    "headline_low": method.interval and method.interval[0],
                    "headline_high": method.interval and method.interval[1],
                }
    numeric = [*REGRESSION, *ORDINAL, "headline_low", "headline_high"]
    columns = ["task", TARGET, "kind", "name", "role", "n", *numeric]
    table = pd.DataFrame(list(rows.values()), columns=columns)
    table = table.astype(dict.fromkeys(numeric, float))
    is_regression = table["kind"] == "regression"
    rank = np.where(is_regression, table["mae_fold_mean"], -table["balanced_accuracy"])
    order = pd.factorize(pd.MultiIndex.from_frame(table[["task", TARGET]]))[0]
    ranked = table.assign(order=order, rank=rank)
    ranked = ranked.sort_values(["order", "rank", "name"], ignore_index=True)
    if not table[TARGET].any():
        ranked = ranked.drop(columns=TARGET)
    return ranked.drop(columns=["order", "rank"])
