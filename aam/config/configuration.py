"""The whole configuration: loading, cross-checks and overrides."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Self, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from aam.config.baselines import BASELINES
from aam.config.losses import LOSSES
from aam.config.messages import config_error
from aam.config.metrics import METRICS, WITHOUT_TREE
from aam.config.names import FIRST
from aam.config.questions import with_questions
from aam.config.sections.base import FilePath, Section
from aam.config.sections.dataset import (
    AugmentationSettings,
    Dataset,
    Rarefaction,
    Tokens,
    Unifrac,
)
from aam.config.sections.execution import Benchmark, Optimization, OutputFormats, Runtime
from aam.config.sections.finetuning import SET_BY_AUTO, Finetuning
from aam.config.sections.model import ModelSettings
from aam.config.sections.task import Prediction, Task
from aam.config.sections.training import Pretraining
from aam.config.starts import architecture_of, chain_of
from aam.util.errors import problem

S = TypeVar("S", bound=Section)
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"
"""Names become folders, wildcards and parts of links."""
NAMED: dict[str, Any] = {"propertyNames": {"pattern": NAME}}


class Config(Section):
    """Everything that `config/*.yaml` may say."""

    data_dir: FilePath = "."
    """Folder that the paths of datasets and predictions are relative to."""
    results_dir: str = Field("results", pattern=r"^[^~{}\s][^{}]*$")
    """Folder of everything that the workflow writes."""
    datasets: dict[str, Dataset] = Field(min_length=1, json_schema_extra=NAMED)
    """Datasets by name."""
    rarefaction: Rarefaction = Rarefaction()
    tokens: Tokens = Tokens()
    unifrac: Unifrac = Unifrac()
    augmentation: AugmentationSettings = AugmentationSettings()
    models: dict[str, ModelSettings] = Field({"base": ModelSettings()}, json_schema_extra=NAMED)
    """Encoders by name; each is pretrained on every dataset. Without any, baselines alone
    answer."""
    pretraining: Pretraining = Pretraining()
    finetuning: Finetuning = Finetuning()
    tasks: dict[str, Task] = Field({}, json_schema_extra=NAMED)
    """Targets by name."""
    predictions: dict[str, Prediction] = Field({}, json_schema_extra=NAMED)
    """Tables to predict for, by name."""
    optimization: Optimization = Optimization()
    benchmark: Benchmark = Benchmark()
    outputs: OutputFormats = OutputFormats()
    runtime: Runtime = Runtime()

    @field_validator("datasets", "models", "tasks", "predictions")
    @classmethod
    def _names_are_plain(cls, named: dict[str, S]) -> dict[str, S]:
        bad = [name for name in named if not re.fullmatch(NAME, name)]
        if bad:
            raise ValueError(
                f"got the name {', '.join(map(repr, bad))}; expected letters, digits, '_' and "
                "'-', with a letter or a digit first, 100 at most"
            )
        by_folded: dict[str, str] = {}
        for name in named:
            other = by_folded.setdefault(name.casefold(), name)
            if other != name:
                raise ValueError(
                    f"got {other!r} and {name!r}; expected names that differ in more than their "
                    "case, as disks of macOS and Windows take their folders for one"
                )
        return named

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        for task_name, task in self.tasks.items():
            _require(task.dataset, self.datasets, f"tasks.{task_name}.dataset")
        for name, prediction in self.predictions.items():
            for task_name in prediction.tasks:
                _require(task_name, self.tasks, f"predictions.{name}.tasks")
            datasets = {self.tasks[task_name].dataset for task_name in prediction.tasks}
            simulated = len(datasets) == 1 and self.datasets[min(datasets)].simulate is not None
            if prediction.table is None and not simulated:
                raise ValueError(
                    f"predictions.{name}: got no `table`; expected one, unless its tasks are of "
                    "one simulated dataset, whose newcomers are predicted then"
                )
        return self


def load(raw: Mapping[str, Any]) -> Config:
    """Validate a configuration, overrides included.

    Parameters
    ----------
    raw
        The configuration as YAML has it.

    Returns
    -------
    Config
        The configuration with all defaults, and with the tasks of further questions
        (`aam.config.questions`).

    Raises
    ------
    InputError
        A key is unknown or missing, a value is not possible, or keys do not go together; the
        message names the key.
    """
    try:
        config = Config.model_validate(dict(raw))
    except ValidationError as error:
        raise config_error(error, Config) from error
    config = config.model_copy(update={"tasks": with_questions(config.tasks)})
    for model in config.models:
        if model == FIRST or model in BASELINES:
            baseline = "the name of a baseline"
            actual = "the name of the answers without networks" if model == FIRST else baseline
            expected = "another name"
            raise problem(f"models.{model}", actual, expected, "rename the model")
        resolved(config, "optimization", model=model)
    for name, prediction in config.predictions.items():
        unanswered = [task for task in prediction.tasks if config.tasks[task].baselines == []]
        if unanswered and not config.models:
            raise problem(
                f"configuration key predictions.{name}.tasks",
                f"{', '.join(unanswered)}, without baselines, with `models: {{}}`",
                "tasks with a model or with baselines to predict with",
                f"remove tasks.{unanswered[0]}.baselines, or set models: {{base: {{}}}}",
            )
    for dataset in config.datasets:
        for section in ("rarefaction", "tokens", "unifrac", "augmentation"):
            resolved(config, section, dataset=dataset)
        metrics = metrics_of(config, dataset)
        _require_tree_for_long_branches(config, dataset)
        _require_tables_for_networks(config, dataset)
        for model in config.models:
            training = resolved(config, "pretraining", dataset=dataset, model=model)
            _require_possible(config, dataset, model, training, metrics)
    for name, task in config.tasks.items():
        training = resolved(config, "finetuning", task=name)
        shapes = {
            model: architecture_of(config.models, config.datasets, task.dataset, model)
            for model in config.models
        }
        # A task that asks for another recipe does not want the settings of the one for all.
        common = set() if "recipe" in task.finetuning else config.finetuning.model_fields_set
        _require_left_to_auto(name, common | set(task.finetuning), training)
        layers = {model: shape.sample_layers for model, shape in shapes.items()}
        _require_fitting(name, task, training, layers)
    return config


def resolved(
    config: Config,
    section: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    task: str | None = None,
) -> Any:
    """Return one section of a configuration with the overrides that apply.

    Overrides are taken in the order dataset, model, task: a task's keys win over those of a model.

    Parameters
    ----------
    config
        The whole configuration.
    section
        Name of the section, `finetuning` for instance.
    dataset, model, task
        Names under `datasets`, `models` and `tasks` whose overrides apply; None: none of that kind.

    Returns
    -------
    Section
        The section, of the same class as `getattr(config, section)`.

    Raises
    ------
    InputError
        The section is not valid with its overrides.
    """
    value: Section = getattr(config, section)
    for group, name in {"datasets": dataset, "models": model, "tasks": task}.items():
        override = getattr(getattr(config, group)[name], section, {}) if name is not None else {}
        if override:
            try:
                value = type(value).model_validate({**value.model_dump(), **override})
            except ValidationError as error:
                where = f"{group}.{name}.{section}"
                raise config_error(error, type(value), prefix=where) from error
    return value


def metrics_of(config: Config, dataset: str) -> list[str]:
    """Return the metrics that are computed for a dataset.

    Without a tree these are Bray-Curtis and robust Aitchison where none are named.

    Parameters
    ----------
    config
        The whole configuration.
    dataset
        Name of the dataset.

    Raises
    ------
    InputError
        A metric is named that needs a tree, of a dataset that has none.
    """
    section = resolved(config, "unifrac", dataset=dataset)
    named: list[str] = section.metrics
    if config.datasets[dataset].has_tree:
        return named
    if "metrics" not in section.model_fields_set:
        return list(WITHOUT_TREE)
    impossible = [metric for metric in named if METRICS[metric].phylogenetic]
    if impossible:
        raise problem(
            f"configuration key unifrac.metrics (dataset {dataset})",
            f"{', '.join(impossible)} with `tree: false`",
            f"metrics that need no tree: {', '.join(WITHOUT_TREE)}",
            f"set datasets.{dataset}.unifrac.metrics, or give a tree",
        )
    return named


def _require_tables_for_networks(config: Config, dataset: str) -> None:
    """Check that a dataset has reads and a tree where networks are to be trained."""
    section = config.datasets[dataset]
    if not config.models or (section.is_counted and section.has_tree):
        return
    key = "tree: false" if section.is_counted else "values: amounts"
    raise problem(
        "configuration key models",
        f"{', '.join(config.models)} with datasets.{dataset}.{key}",
        "no networks: they are trained on reads, and on distances along a tree of the features",
        "set `models: {}`; the other methods answer",
    )


def _require_tree_for_long_branches(config: Config, dataset: str) -> None:
    """Check that a dataset has a tree where features are left out by it."""
    drops = resolved(config, "rarefaction", dataset=dataset).long_branches == "drop"
    if drops and not config.datasets[dataset].has_tree:
        raise problem(
            f"configuration key rarefaction.long_branches (dataset {dataset})",
            "drop with `tree: false`",
            "keep: without a tree there are no branches",
            f"set datasets.{dataset}.rarefaction.long_branches: keep, or give a tree",
        )


def _require(name: str, among: Collection[str], where: str) -> None:
    if name not in among:
        raise ValueError(f"{where}: '{name}' is not one of {', '.join(among) or 'none'}")


def _require_possible(
    config: Config, dataset: str, model: str, training: Pretraining, metrics: list[str]
) -> None:
    """Check that a model can be pretrained on a dataset with these settings.

    Parameters
    ----------
    config
        The whole configuration.
    dataset, model
        Names of the dataset and the model.
    training
        The section `pretraining` with the overrides of both.
    metrics
        The metrics that are computed for the dataset.

    Raises
    ------
    InputError
        A distance to learn is not computed, the model's start has seen the samples of an inductive
        task, there is nothing to pretrain with, or the studies of the samples are not known.
    """
    section = config.models[model]
    where = f"model {model} on {dataset}"
    for metric in sorted(set(training.distances or {}) - set(metrics)):
        raise problem(
            f"configuration key pretraining.distances ({where})",
            f"'{metric}'",
            f"one of {', '.join(metrics)}",
            "add the metric to unifrac.metrics",
        )
    starts = chain_of(config.models, config.datasets, dataset, model)
    inductive = [
        name
        for name, task in config.tasks.items()
        if task.dataset == dataset and resolved(config, "finetuning", task=name).inductive
    ]
    if inductive and any(start.dataset == dataset for start in starts):
        raise problem(
            f"configuration key finetuning.inductive (task {inductive[0]})",
            f"true with model {model}, which begins with another model of {dataset}",
            "a start that has not seen the samples of the dataset",
            f"set models.{model}.start to a model of another dataset, or to the directory of a "
            "model that has not seen these samples",
        )
    if training.epochs == 0 and section.start is None:
        raise problem(
            f"configuration key pretraining.epochs ({where})",
            "0 for a model without a start",
            "at least 1",
            f"set models.{model}.start, or more epochs",
        )
    if section.pretrained_on and config.datasets[dataset].study is None:
        raise problem(
            f"configuration key models.{model}.pretrained_on ({where})",
            f"studies, but no datasets.{dataset}.study",
            "the metadata column that names the study of each sample",
            f"set datasets.{dataset}.study",
        )


def _require_left_to_auto(name: str, given: Collection[str], training: Finetuning) -> None:
    """Check that no key is given that the recipe `auto` sets itself."""
    keys = [key for key in SET_BY_AUTO if key in given]
    if training.has_budget and keys:
        raise problem(
            f"configuration key finetuning.{keys[0]} (task {name})",
            f"{getattr(training, keys[0])} with recipe auto, which sets it",
            "auto without it, or another recipe",
            f"remove it, or set tasks.{name}.finetuning.recipe to full, partial or frozen",
        )


def _require_fitting(
    name: str, task: Task, training: Finetuning, layers: Mapping[str, int]
) -> None:
    """Check that loss, recipe and trained layers suit the task and the models."""
    losses = LOSSES[task.kind]
    if training.loss is not None and training.loss not in losses:
        # The loss that a kind is the name of is the one that null stands for.
        named = ", ".join(loss for loss in losses if loss != task.kind)
        raise problem(
            f"configuration key finetuning.loss (task {name})",
            f"{training.loss} with kind {task.kind}",
            f"null or one of {named}",
            f"set tasks.{name}.finetuning.loss",
        )
    obstacle = training.kernel_obstacle(task.kind, task.columns, task.condition)
    if training.recipe == "kernel" and obstacle is not None:
        raise problem(
            f"configuration key finetuning.recipe (task {name})",
            f"kernel with {obstacle}",
            "auto, full, partial or frozen, which learn that",
            f"set tasks.{name}.finetuning.recipe",
        )
    if training.recipe == "frozen" and training.asv_dropout > 0:
        raise problem(
            f"configuration key finetuning.asv_dropout (task {name})",
            f"{training.asv_dropout:g} with recipe frozen",
            "0: its embeddings are made once",
            f"set it to 0, or tasks.{name}.finetuning.recipe to full or partial",
        )
    for model, most in layers.items():
        if training.recipe == "partial" and training.trained_layers > most:
            raise problem(
                f"configuration key finetuning.trained_layers (task {name})",
                f"{training.trained_layers}",
                f"at most {most}, the sample_layers of model {model}",
                f"set tasks.{name}.finetuning.trained_layers",
            )
