"""The part of the configuration that each stage depends on: a model of `aam.config.settings`.

Its `plain` dictionary stands in the parameters of a rule. A key that is absent from it cannot make
the stage stale.

The functions have these parameters in common: `config`, the whole configuration as
`aam.config.configuration.load` returns it; `dataset`, `model` and `task`, names under `datasets`,
`models` and `tasks`. A function that takes another parameter describes it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from aam.config.baselines import BASELINES, CONSTANTS, NEED_DISTANCES, compared_metric
from aam.config.configuration import Config, metrics_of, resolved
from aam.config.metrics import METRICS
from aam.config.names import FIRST
from aam.config.questions import FORECAST, asked_task, question_of
from aam.config.references import (
    REFERENCES,
    default_genes,
    default_references,
    reference_digest,
    reference_licence,
)
from aam.config.sections.base import StageSettings
from aam.config.sections.dataset import Dataset
from aam.config.sections.model import EncoderShape
from aam.config.sections.task import Folds, Task
from aam.config.settings import data, page, tasks
from aam.config.settings.describe import DescribeSettings, PlannedModel, PlannedTask, RunPlan
from aam.config.settings.finetuning import FinetuneSettings
from aam.config.settings.plot import PlotSettings
from aam.config.settings.training import PretrainSettings, SpeedSettings, StudiesSettings
from aam.config.starts import Start, architecture_of, chain_of
from aam.config.user_files import predicted_files

CHECKED_PAIRS = 50
"""Pairs of every matrix that another engine computes again."""
AUGMENTATION_SEED = 7
NEWCOMERS = 24
"""Samples of the second study of a simulated dataset, with ASVs that its table lacks."""
EXPLAINED = {"samples": 64, "checked": 8, "removed": 24}
"""Held-out samples of a fold that are explained, those from which ASVs are also removed in turn,
and how many ASVs of each of these."""


def simulate(config: Config, dataset: str) -> data.SimulateSettings:
    """Return the settings of a simulated dataset, and the numbers that follow from them."""
    simulation = config.datasets[dataset].simulate
    assert simulation is not None
    hosts = max(6, simulation.samples // 5)
    return data.SimulateSettings(**simulation.plain(), hosts=hosts, newcomers=NEWCOMERS)


def import_table(config: Config, dataset: str) -> data.ImportTableSettings:
    """Return what the numbers of a dataset's table are."""
    return data.ImportTableSettings(values=config.datasets[dataset].values)


def import_tree(config: Config, dataset: str) -> data.ImportTreeSettings:
    """Return what stands for a dataset's tree where the user has none."""
    section = config.datasets[dataset]
    if section.simulate is not None or (section.tree is not None and section.reference is None):
        return data.ImportTreeSettings()
    names = default_references() if section.reference is None else [section.reference]
    return data.ImportTreeSettings(
        reference=section.reference,
        digests={name: reference_digest(name) for name in names},
    )


def find_genes(config: Config, dataset: str, reference: str) -> data.FindGenesSettings:
    """Return in which genes the sequences of a dataset are looked for.

    Parameters
    ----------
    reference
        Name of a reference of whole genes.
    """
    key = "tree" if reference == config.datasets[dataset].reference else "taxonomy"
    return data.FindGenesSettings(reference=reference, digest=reference_digest(reference, key=key))


def tree_genes(config: Config, dataset: str) -> str | None:
    """Return the reference of whole genes that can stand for a dataset's tree; None: none can."""
    candidates = import_tree(config, dataset).digests
    return next((name for name in candidates if name not in REFERENCES), None)


def naming_genes(config: Config, dataset: str) -> str | None:
    """Return the reference of whole genes that names a dataset's features; None: none does."""
    section = config.datasets[dataset]
    if section.simulate is not None or section.taxonomy is False:
        return None
    return default_genes() if section.taxonomy is None else section.naming_reference


def import_taxonomy(config: Config, dataset: str) -> data.ImportTaxonomySettings:
    """Return what names a dataset's features where the user gives no file."""
    return data.ImportTaxonomySettings(
        reference=naming_genes(config, dataset),
        is_asked=config.datasets[dataset].naming_reference is not None,
    )


def rarefy(config: Config, dataset: str, view: int) -> data.RarefySettings:
    """Return the settings of one draw.

    Parameters
    ----------
    view
        Number of the draw, from 0.
    """
    section = resolved(config, "rarefaction", dataset=dataset)
    return data.RarefySettings(depth=section.depth, seed=section.seed, view=view)


def tokenize(config: Config, dataset: str) -> data.TokenizeSettings:
    """Return the settings of the token cache."""
    return data.TokenizeSettings(
        max_length_bp=resolved(config, "tokens", dataset=dataset).max_length_bp
    )


def unifrac(config: Config, dataset: str, metric: str) -> data.UnifracSettings:
    """Return the settings of one metric.

    Parameters
    ----------
    metric
        A key of `aam.config.metrics.METRICS`.
    """
    section = resolved(config, "unifrac", dataset=dataset)
    facts = METRICS[metric]
    return data.UnifracSettings(
        metric=metric,
        engine=section.engine if facts.phylogenetic else "auto",
        **{key: getattr(section, key) for key in facts.parameters},
        checked_pairs=CHECKED_PAIRS,
    )


def unifrac_part(
    config: Config, dataset: str, metric: str, part: int, parts: int
) -> data.UnifracPartSettings:
    """Return the settings of one of several jobs that share a metric.

    Parameters
    ----------
    metric
        A key of `aam.config.metrics.METRICS`, of distances on the tree.
    part
        Number of the job, from 0.
    parts
        Number of jobs, as `unifrac_jobs` returns it.
    """
    section = resolved(config, "unifrac", dataset=dataset)
    return data.UnifracPartSettings(
        metric=metric,
        engine=section.engine,
        **{key: getattr(section, key) for key in METRICS[metric].parameters},
        part=part,
        parts=parts,
    )


def unifrac_jobs(config: Config, dataset: str, metric: str) -> int:
    """Return the number of jobs that share a metric; it changes no byte of the result.

    Parameters
    ----------
    metric
        A key of `aam.config.metrics.METRICS`.
    """
    section = resolved(config, "unifrac", dataset=dataset)
    facts = METRICS[metric]
    can_share = facts.phylogenetic and facts.has_engines and not facts.per_sample
    return section.partitions if can_share and section.partitions != "auto" else 1


def store_samples(config: Config, dataset: str) -> data.StoreSamplesSettings:
    """Return the settings of the sample store."""
    section = resolved(config, "augmentation", dataset=dataset)
    return data.StoreSamplesSettings(**section.plain(), seed=AUGMENTATION_SEED)


def distances(config: Config, dataset: str, model: str) -> dict[str, float]:
    """Return what a model learns of the distances between samples.

    Returns
    -------
    dict
        Weight by metric, in the order of `unifrac.metrics`; metrics of weight 0 are left out.
    """
    metrics = metrics_of(config, dataset)
    weights = resolved(config, "pretraining", dataset=dataset, model=model).distances
    if weights is None:
        return dict.fromkeys(metrics, 1.0)
    return {metric: weights[metric] for metric in metrics if weights.get(metric, 0) > 0}


def computes_targets(config: Config, dataset: str, model: str) -> bool:
    """Return whether a model learns distances that are computed in the batch."""
    return resolved(config, "pretraining", dataset=dataset, model=model).targets == "batch"


def subsamples_rows(config: Config, dataset: str, model: str) -> bool:
    """Return whether a model may learn from rows of fewer reads at first."""
    return resolved(config, "pretraining", dataset=dataset, model=model).may_subsample


def pretrain(config: Config, dataset: str, model: str) -> PretrainSettings:
    """Return architecture, training and optimization settings of one encoder."""
    return _pretrain(config, dataset, model)


def _pretrain(config: Config, dataset: str, model: str, **changes: Any) -> PretrainSettings:
    """Return the settings of a pretraining, with keys of the section `pretraining` changed."""
    weights = distances(config, dataset, model)
    section = resolved(config, "pretraining", dataset=dataset, model=model)
    pretraining = section.model_copy(update={"distances": weights, **changes})
    computes_some = pretraining.targets == "batch" or pretraining.may_subsample
    alpha = None
    if computes_some and "generalized" in weights:
        alpha = resolved(config, "unifrac", dataset=dataset).alpha
    return PretrainSettings(
        alpha=alpha,
        model=architecture(config, dataset, model),
        start=config.models[model].start,
        studies=studies(config, dataset, model) if config.models[model].pretrained_on else None,
        pretraining=pretraining,
        optimization=resolved(config, "optimization", model=model),
    )


def start(config: Config, dataset: str, model: str) -> Start | None:
    """Return what a model begins with on a dataset.

    Returns
    -------
    Start or None
        None: weights that are drawn with the seed.
    """
    return next(iter(chain_of(config.models, config.datasets, dataset, model)), None)


def architecture(config: Config, dataset: str, model: str) -> EncoderShape:
    """Return what an encoder is built from: that of its start, where it has one."""
    return architecture_of(config.models, config.datasets, dataset, model)


def studies(config: Config, dataset: str, model: str) -> StudiesSettings:
    """Return the metadata column of the studies and those that a model is pretrained on."""
    column = config.datasets[dataset].study
    assert column is not None, "loading requires it of models that name studies"
    return StudiesSettings(
        column=column,
        pretrained_on=sorted(config.models[model].pretrained_on),
    )


def folds(config: Config, task: str) -> tasks.FoldsSettings:
    """Return what a task predicts, its folds, and its columns of categories."""
    section = config.tasks[task]
    categories = [*section.condition, *filter(None, [section.transform_by])]
    question = question_of(task)
    known = None if question is None else config.tasks[asked_task(task)].folds.groups
    return tasks.FoldsSettings(
        columns=section.columns,
        where=_listed_values(section.where),
        kind=section.kind,
        classes=section.classes,
        categories=list(dict.fromkeys(categories)),
        folds=section.folds,
        logarithm=section.transform.startswith("log"),
        question=question,
        known=known or None,
        time=section.time,
        forecast=section.forecast if question_of(task) == FORECAST else None,
    )


def _listed_values(where: Mapping[str, str | list[str]]) -> dict[str, list[str]]:
    """Return the columns that a sample has to have a value in, with a list of values for each."""
    return {
        column: [values] if isinstance(values, str) else values for column, values in where.items()
    }


def baselines(config: Config, task: str) -> tasks.BaselinesSettings:
    """Return the kind of target, its classes and bounds, the seed of the folds, and the methods."""
    section = config.tasks[task]
    return tasks.BaselinesSettings(
        kind=section.kind,
        classes=section.classes,
        bounds=section.bounds,
        baselines=_methods(config, task),
        seed=section.folds.seed,
    )


def clades(config: Config, task: str) -> tasks.CladesSettings:
    """Return the kind of target, its classes, and the seeds of the folds and of rarefaction."""
    section = config.tasks[task]
    return tasks.CladesSettings(
        kind=section.kind,
        classes=section.classes,
        seed=section.folds.seed,
        rarefaction_seed=resolved(config, "rarefaction", dataset=section.dataset).seed,
    )


def covariates(config: Config, task: str) -> tasks.CovariatesSettings:
    """Return the covariates of a task, and what is predicted from them."""
    section = config.tasks[task]
    return tasks.CovariatesSettings(
        kind=section.kind,
        classes=section.classes,
        bounds=section.bounds,
        seed=section.folds.seed,
        covariates=section.covariates,
    )


def compares_samples(config: Config, task: str) -> bool:
    """Return whether any baseline of a task looks at distances between samples."""
    methods = _methods(config, task)
    return methods is None or not NEED_DISTANCES.isdisjoint(methods)


def _methods(config: Config, task: str) -> list[str] | None:
    """Return the names of the baselines of a task; None: those that are fitted by default."""
    methods = config.tasks[task].baselines
    if methods == "all":
        return [name for name in BASELINES if name not in CONSTANTS]
    return methods


def compared_metrics(config: Config, task: str) -> list[str]:
    """Return the metric that the baselines of a task look at; empty where none does."""
    if not compares_samples(config, task):
        return []
    return [compared_metric(config.datasets[config.tasks[task].dataset].has_tree)]


def folds_owner(config: Config, task: str) -> str:
    """Return the first task with the same folds, whose file all such tasks read."""
    return _first_alike(config, task)


def inductive_owner(config: Config, task: str) -> str:
    """Return the first task whose folds have the same samples: they may be asked for logarithms."""
    return _first_alike(config, task, logarithm=None)


def baselines_owner(config: Config, task: str) -> str:
    """Return the first task with the same baselines on the same folds."""
    return _first_alike(config, task, baselines, logarithm=None)


def covariates_owner(config: Config, task: str) -> str:
    """Return the first task with the same covariates on the same folds."""
    return _first_alike(config, task, covariates, logarithm=None)


def _first_alike(
    config: Config,
    task: str,
    *further: Callable[[Config, str], tasks.BaselinesSettings | tasks.CovariatesSettings],
    **changes: Any,
) -> str:
    """Return the first task with the same dataset, folds and further slices as a task.

    Parameters
    ----------
    further
        Return more slices of a task that have to be the same.
    **changes
        Keys of the slice `folds` that get this value for every task, so that they do not count.
    """

    def compared(name: str) -> list[Any]:
        divided = folds(config, name).model_copy(update=changes)
        more = [cut(config, name) for cut in further]
        return [config.tasks[name].dataset, divided, *more]

    return next(name for name in config.tasks if compared(name) == compared(task))


def finetune(config: Config, dataset: str, model: str, task: str) -> FinetuneSettings:
    """Return fine-tuning settings, and what a saved model must know to treat other tables alike."""
    section = config.tasks[task]
    training = resolved(config, "finetuning", task=task)
    return FinetuneSettings(
        kind=section.kind,
        columns=section.columns,
        classes=section.classes,
        transform=section.transform,
        transform_by=section.transform_by,
        bounds=section.bounds,
        condition=section.condition,
        names={"dataset": dataset, "model": model, "task": task},
        is_mixed=mixes(config, task),
        finetuning=training,
        optimization=resolved(config, "optimization", model=model),
        rarefaction=resolved(config, "rarefaction", dataset=dataset).plain(),
        model=architecture(config, dataset, model) if training.from_scratch else None,
    )


def score(config: Config, task: str, answer: str) -> tasks.ScoreSettings:
    """Return what an answer is called, and by what it is reported: nothing that was trained.

    Parameters
    ----------
    answer
        `aam.config.names.FIRST`, or the name of a model.
    """
    section = config.tasks[task]
    return tasks.ScoreSettings(
        dataset=section.dataset,
        task=task,
        answer=answer,
        kind=section.kind,
        columns=section.columns,
        classes=section.classes,
        bounds=section.bounds,
        report_by=section.report_by,
        structure=_structure(section.folds),
        training=None if answer == FIRST else _training(config, section.dataset, answer, task),
        covariates=section.covariates or None,
        question=question_of(task),
        time=section.time,
        forecast=section.forecast if question_of(task) == FORECAST else None,
        names_test=True if isinstance(section.folds.test, dict) else None,
    )


def _training(config: Config, dataset: str, model: str, task: str) -> tasks.TrainingFacts:
    """Return how the networks of a model are trained, as far as their scores say it."""
    training = resolved(config, "finetuning", task=task)
    # An encoder from scratch sees the samples of training alone.
    unseen = training.inductive or training.from_scratch
    chain = chain_of(config.models, config.datasets, dataset, model)
    directory = None
    if chain and not training.from_scratch:
        directory = chain[-1].directory
    return tasks.TrainingFacts(
        recipe=training.recipe,
        start=training.start,
        labels=training.labels,
        evaluation="inductive" if unseen else "transductive",
        start_directory=None if directory is None else str(directory),
    )


def has_first(config: Config, task: str) -> bool:
    """Return whether a task has a first answer: that of its baselines."""
    return config.tasks[task].baselines != []


def _structure(folds: Folds) -> tasks.SampleGroups:
    """Return which column keeps samples together, and whether the user said so or that none does.

    Folds that a column names are groups: what is left out together belongs together. Groups that
    are False say that every sample is of its own.
    """
    column = folds.column if folds.groups is None else folds.groups
    return tasks.SampleGroups(column=column or None, stated=column is not None)


def mixes(config: Config, task: str) -> bool:
    """Return whether a task has a super learner: its models know all labels, as baselines do."""
    methods = config.tasks[task].baselines
    return resolved(config, "finetuning", task=task).labels == 1 and methods != []


def super_learner(config: Config, task: str, answer: str) -> tasks.SuperLearnerSettings:
    """Return what the baselines and the rarefaction of another table take.

    Parameters
    ----------
    answer
        `aam.config.names.FIRST`, or the name of a model.
    """
    dataset = config.tasks[task].dataset
    return tasks.SuperLearnerSettings(
        **dict(baselines(config, task)),
        dataset=dataset,
        task=task,
        answer=answer,
        rarefaction=resolved(config, "rarefaction", dataset=dataset).plain(),
        tree=tree_origin(config, dataset),
    )


def tree_origin(config: Config, dataset: str) -> str:
    """Return where the tree of a dataset comes from, with the licence of the reference.

    Which of several references is taken where no tree is given, the reads decide: all are named.
    """
    section = config.datasets[dataset]
    if section.simulate is not None:
        return "the simulated study"
    if section.tree is False:
        return "none"
    references = import_tree(config, dataset).digests
    if not references:
        return "the study"
    named = [f"{name} ({reference_licence(name)})" for name in references]
    if section.reference is not None:
        return f"reference {named[0]}"
    return f"one of the references {', '.join(named)}, or a tree that was made of the features"


def predict() -> tasks.PredictSettings:
    """Return where reads of another region are placed."""
    name = default_genes()
    return tasks.PredictSettings(references={} if name is None else {name: reference_digest(name)})


def explain(config: Config, task: str) -> tasks.ExplainSettings:
    """Return how many samples of a fold are explained and checked, and the seed of the choice."""
    return tasks.ExplainSettings(**EXPLAINED, seed=config.tasks[task].folds.seed)


def recorded(config: Config, dataset: str) -> dict[str, StageSettings]:
    """Return settings whose digests some results have, by paths below those of the dataset."""
    found: dict[str, StageSettings] = {
        f"rarefied/view{view}.biom": rarefy(config, dataset, view)
        for view in range(resolved(config, "rarefaction", dataset=dataset).views)
    }
    for task, section in config.tasks.items():
        if section.dataset == dataset:
            for answer in (FIRST, *config.models):
                found[f"answers/{task}/{answer}/scores.json"] = score(config, task, answer)
    return found


def plot_rarefaction(config: Config, dataset: str) -> PlotSettings:
    """Return the depth that the figure marks on the curves."""
    return PlotSettings(depth=resolved(config, "rarefaction", dataset=dataset).depth)


def plot_pretraining(config: Config, dataset: str) -> PlotSettings:
    """Return the metadata columns of a dataset's tasks, each of which colours an ordination."""
    named: set[str] = set()
    for task in config.tasks.values():
        if task.dataset == dataset:
            named.update([*task.columns, *task.condition, *task.report_by])
            if task.folds.groups:
                named.add(task.folds.groups)
    return PlotSettings(columns=sorted(named))


def summary(config: Config, dataset: str) -> page.PageSettings:
    """Return the settings that the methods of a dataset's page name."""
    rarefaction = resolved(config, "rarefaction", dataset=dataset)
    models = {}
    for name, section in config.models.items():
        shape = architecture(config, dataset, name)
        models[name] = page.PageModel(
            encoder=shape.encoder,
            width=shape.width,
            asv_layers=shape.asv_layers,
            sample_layers=shape.sample_layers,
            start=section.start,
        )
    return page.PageSettings(
        depth=rarefaction.depth,
        views=rarefaction.views,
        drops_long_branches=rarefaction.long_branches == "drop",
        given_tree=_given_tree(config.datasets[dataset]),
        metrics=metrics_of(config, dataset),
        models=models,
        tasks={
            name: _page_task(task) for name, task in config.tasks.items() if task.dataset == dataset
        },
        networks=page.PageNetworks(state="shown" if config.models else "unasked"),
    )


def _given_tree(section: Dataset) -> bool | None:
    """Return whether a dataset has a tree; None: one is to be made."""
    if section.tree is None and section.simulate is None:
        return None
    return section.has_tree


def _page_task(task: Task) -> page.PageTask:
    """Return what the methods of a page name of a task."""
    folds = task.folds
    return page.PageTask(
        columns=task.columns,
        where=_listed_values(task.where),
        kind=task.kind,
        folds=page.PageFolds(column=folds.column, groups=folds.groups, stratified=folds.stratified),
        test_fraction=0.0 if isinstance(folds.test, dict) else folds.test,
        test_values=_listed_values(folds.test) if isinstance(folds.test, dict) else None,
        importance=task.importance,
    )


def first_page(config: Config, dataset: str) -> page.PageSettings:
    """Return the settings of the page of first answers, also what its networks' time depends on."""
    settings = summary(config, dataset)
    if not config.models:
        return settings
    awaited = page.PageNetworks(state="awaited", plan=_plan(config, dataset))
    return settings.model_copy(update={"networks": awaited})


def describe(config: Config, dataset: str) -> DescribeSettings:
    """Return what a run does with the files of a dataset, and what its time depends on."""
    rarefaction = resolved(config, "rarefaction", dataset=dataset)
    return DescribeSettings(
        **dict(_plan(config, dataset)),
        values=config.datasets[dataset].values,
        tree=import_tree(config, dataset),
        drops_long_branches=rarefaction.long_branches == "drop",
        predictions={
            name: {key: str(path) for key, path in files.items()}
            for name, files in predicted_files(config, dataset).items()
        },
    )


def _plan(config: Config, dataset: str) -> RunPlan:
    """Return what the time of a dataset's runs depends on, besides its table."""
    models = {}
    for name in config.models:
        trained = pretrain(config, dataset, name)
        models[name] = PlannedModel(model=trained.model, pretraining=trained.pretraining)
    return RunPlan(
        depth=resolved(config, "rarefaction", dataset=dataset).depth,
        max_length_bp=resolved(config, "tokens", dataset=dataset).max_length_bp,
        models=models,
        tasks={
            name: PlannedTask(
                **dict(folds(config, name)),
                finetuning=resolved(config, "finetuning", task=name),
                explained=EXPLAINED["samples"] if section.importance else 0,
                report_by=section.report_by,
                covariates=section.covariates or None,
                encoders_of=_owner_of_encoders(config, name),
            )
            for name, section in config.tasks.items()
            if section.dataset == dataset
        },
    )


def _owner_of_encoders(config: Config, task: str) -> str | None:
    """Return the task whose encoders, one per fold, a task shares; None: it has the common one."""
    training = resolved(config, "finetuning", task=task)
    if not training.inductive or training.from_scratch:
        return None
    return inductive_owner(config, task)


def benchmark(config: Config, dataset: str, model: str) -> SpeedSettings:
    """Return the settings of the speed table and of the model it times, with whole rows."""
    timed = _pretrain(config, dataset, model, subsampled=0.0)
    return SpeedSettings(**config.benchmark.plain(), training=timed)
