"""What the stages of a task get of the configuration, but for its training."""

from typing import Any, Literal

from aam.config.sections import task as section
from aam.config.sections.base import StageSettings

Kind = Literal["regression", "classification", "ordinal"]
Bounds = tuple[float | None, float | None]


class FoldsSettings(StageSettings):
    """What a task predicts, and how its samples are divided."""

    columns: list[str]
    """Metadata columns that are predicted."""
    where: dict[str, list[str]]
    """By column the values of the samples that belong to the task; empty: all do."""
    kind: Kind
    """Whether numbers, classes or ordered classes are predicted."""
    classes: list[str] | None
    """Classes in their order, where they have one."""
    categories: list[str]
    """Metadata columns that are kept as categories."""
    folds: section.Folds
    """How samples are divided."""
    logarithm: bool
    """Ask for numbers above -1."""
    question: str | None = None
    """Which further question the folds are for, by `aam.config.questions`; None: the task's
    own."""
    known: str | None = None
    """Metadata column, such as people, none of whose values may lie in two folds of a further
    question; None: there is none."""
    time: str | None = None
    """Metadata column that says when samples were taken; None: the task asks for no change."""
    forecast: str | None = None
    """The time after which samples are predicted from those up to it; None: it is not asked."""


class BaselinesSettings(StageSettings):
    """What baselines predict, and which ones."""

    kind: Kind
    """Whether numbers, classes or ordered classes are predicted."""
    classes: list[str] | None
    """Classes in their order, where they have one."""
    bounds: Bounds
    """Least and largest number that can be predicted; None: no bound."""
    baselines: list[str] | None
    """Names of the methods; None: all that suit the target."""
    seed: int
    """Seed of the methods that draw."""


class CovariatesSettings(StageSettings):
    """What is predicted from covariates, alone and with the features."""

    kind: Kind
    """Whether numbers, classes or ordered classes are predicted."""
    classes: list[str] | None
    """Classes in their order, where they have one."""
    bounds: Bounds
    """Least and largest number that can be predicted; None: no bound."""
    seed: int
    """Seed of the methods that draw."""
    covariates: list[str]
    """Metadata columns that are known of a sample without its features."""


class CladesSettings(StageSettings):
    """What the tests of clades take."""

    kind: Kind
    """Whether numbers, classes or ordered classes are predicted."""
    classes: list[str] | None
    """Classes in their order, where they have one."""
    seed: int
    """Seed of the choice of samples, where there are many."""
    rarefaction_seed: int
    """Seed of the draws of rarefaction."""


class ExplainSettings(StageSettings):
    """How many samples and ASVs are looked at to explain predictions."""

    samples: int
    """Held-out samples of a fold that are explained."""
    checked: int
    """Samples of a fold among these from which ASVs are also removed in turn."""
    removed: int
    """ASVs that are removed from each of these."""
    seed: int
    """Seed of the choice."""


class SampleGroups(StageSettings):
    """What is known of samples that belong together."""

    column: str | None
    """Metadata column that keeps samples together; None: none does."""
    stated: bool
    """Whether the user said so, or that every sample is of its own."""


class TrainingFacts(StageSettings):
    """How the networks of a model are trained for a task, as far as its scores say it."""

    recipe: str
    """What fine-tuning trains: the key of the section `finetuning`."""
    start: Literal["pretrained", "scratch"]
    """Which weights fine-tuning starts from."""
    labels: float
    """Fraction of the labels that are used."""
    evaluation: Literal["inductive", "transductive"]
    """Whether pretraining sees the reads of the samples that are predicted."""
    start_directory: str | None
    """Directory of a pretrained model that the encoder starts from, which may have seen any
    samples; None: it starts from weights that are drawn here."""


class ScoreSettings(StageSettings):
    """What an answer to a task is called, what it predicts, and by what scores are reported."""

    dataset: str
    task: str
    answer: str
    """`aam.config.names.FIRST`, or the name of the model whose networks answer."""
    kind: Kind
    """Whether numbers, classes or ordered classes are predicted."""
    columns: list[str]
    """Metadata columns that are predicted."""
    classes: list[str] | None
    """Classes in their order, where they have one."""
    bounds: Bounds
    """Least and largest number that can be predicted; None: no bound."""
    report_by: list[str]
    """Metadata columns by whose values scores are reported, too."""
    structure: SampleGroups
    """What is known of samples that belong together."""
    training: TrainingFacts | None = None
    """None: baselines alone answer."""
    covariates: list[str] | None = None
    """Metadata columns beside which the features are measured; None: there are none."""
    question: str | None = None
    """Which further question is answered, by `aam.config.questions`; None: the task's own."""
    time: str | None = None
    """Metadata column that says when samples were taken; None: the task asks for no change."""
    forecast: str | None = None
    """The time after which samples are predicted from those up to it; None: it is not asked."""
    names_test: bool | None = None
    """Whether the user names the test set, whose score then has an interval; None: no."""


class SuperLearnerSettings(BaselinesSettings):
    """What an answer predicts for another table, and how that is rarefied."""

    dataset: str
    task: str
    answer: str
    """`aam.config.names.FIRST`, or the name of the model whose networks answer."""
    rarefaction: dict[str, Any]
    """Depth, seed and views of the draws of another table: the section `rarefaction`."""
    tree: str = ""
    """Where the tree comes from, and the licence of the reference; empty: nothing is known."""


class PredictSettings(StageSettings):
    """What the prediction of another table takes besides its files."""

    references: dict[str, str] = {}
    """Digest of the reference of whole genes that places reads of another region, by its name;
    empty: there is none on this machine."""
