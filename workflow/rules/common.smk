"""The configuration, the paths, and the few functions that the rules share."""

import os
import re
import sys
from functools import cache, partial
from pathlib import Path

from aam.config import slices
from aam.config.digest import code_digest
from aam.config.figures import PLOTS
from aam.config.configuration import load, resolved
from aam.config.metrics import METRICS
from aam.util.machine import accelerated
from aam.util.errors import InputError


def loaded(raw):
    """Return the validated configuration, or stop with one message."""
    try:
        return load(raw)
    except InputError as error:
        # An exception would be printed with the lines of this file.
        sys.exit(f"\n{error}\n")


# Threads that wait by spinning slow each other down twentyfold where jobs share the cores.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

CONFIG = loaded(config)
ENVIRONMENT = "../../environment.yml"
# Snakemake would warn at every start of rules that could be shared and are not.
SHARED = "SNAKEMAKE_OUTPUT_CACHE" in os.environ
# Of what leads to a pretrained encoder: most of the rest waits for it, and what does not fills gaps.
PRIORITY = 1


def works_here():
    """Return whether this machine does the work itself; a dry run does not know."""
    executor = workflow.executor_plugin
    return executor is not None and executor.name == "local"


def gpus(wildcards, processes=1):
    """Return how many GPUs a job counts for.

    Zero where this machine, without one, does the work: trainings run side by side then, as far as
    the cores go.
    """
    return 0 if works_here() and not accelerated() else processes


def all_cores(wildcards):
    """Return the cores of a job that takes times: all that there are, so that it is alone."""
    return workflow.cores if works_here() else 8


def one_of(names):
    """Return the pattern of a wildcard that is one of `names`."""
    return "|".join(map(re.escape, names)) or r"(?!)"


def result(path, **names):
    """Return a path below a dataset's folder of results; what is not named stays a wildcard."""
    path = f"{CONFIG.results_dir.rstrip('/')}/{{dataset}}/{path}"
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", str(value))
    return path


def user_file(path):
    """Return the path of a file that the configuration names."""
    return str(Path(CONFIG.data_dir).expanduser() / path)


def source_files(dataset, *names):
    """Return the files that a dataset consists of, by name, where it has them."""
    section = CONFIG.datasets[dataset]
    if section.simulate is not None:
        simulated = {
            "table": "table.biom",
            "tree": "tree.nwk",
            "metadata": "metadata.tsv",
        }
        return {
            name: result(f"simulated/{simulated[name]}", dataset=dataset)
            for name in names
            if name in simulated
        }
    return {
        name: user_file(getattr(section, name))
        for name in names
        if getattr(section, name) is not None
    }


def table_files(wildcards):
    """Return the inputs of `import_table`."""
    return source_files(wildcards.dataset, "table", "sequences")


def tree_files(wildcards):
    """Return the input of `import_tree`, where the user has a tree."""
    return source_files(wildcards.dataset, "tree")


def metadata_files(wildcards):
    """Return the input of `import_metadata`, where the user has metadata."""
    return source_files(wildcards.dataset, "metadata")


def views(dataset):
    """Return the numbers of a dataset's rarefied views."""
    return range(resolved(CONFIG, "rarefaction", dataset=dataset).views)


def view_files(wildcards):
    """Return a dataset's rarefied tables."""
    return [
        result("rarefied/view{view}.biom", dataset=wildcards.dataset, view=view)
        for view in views(wildcards.dataset)
    ]


def phylogeny_files(wildcards):
    """Return a view, and the tree where the metric needs one."""
    dataset, view = wildcards.dataset, wildcards.view
    files = {"table": result("rarefied/view{view}.biom", dataset=dataset, view=view)}
    if METRICS[wildcards.metric].phylogenetic:
        files["tree"] = result("inputs/tree.nwk", dataset=dataset)
    return files


def jobs_of(wildcards):
    """Return the number of jobs that share a metric of a view."""
    return slices.unifrac_jobs(CONFIG, wildcards.dataset, wildcards.metric)


def unifrac_threads(wildcards):
    """Return the cores of a job that computes distances, or only joins those of others."""
    return CONFIG.runtime.threads if jobs_of(wildcards) == 1 else 1


def distance_files(wildcards):
    """Return the inputs of `unifrac`, with the parts where several jobs share the work."""
    files, jobs = phylogeny_files(wildcards), jobs_of(wildcards)
    if jobs > 1:
        path = result("unifrac/{metric}/parts/view{view}/{part}-of-{parts}.parquet")
        files["parts"] = expand(path, **wildcards, part=range(jobs), parts=jobs)
    return files


def distances_of(dataset, model):
    """Return what a model learns to predict: metric by metric, within a metric view by view."""
    return distance_views(dataset, slices.distances(CONFIG, dataset, model))


def distances_of_all(dataset):
    """Return what the models of a dataset learn to predict, in the same order."""
    return distance_views(dataset, slices.models(CONFIG, dataset)["metrics"])


def distance_views(dataset, metrics):
    """Return the distances of all views, metric by metric."""
    return [
        result(
            "unifrac/{metric}/view{view}.parquet",
            dataset=dataset,
            metric=metric,
            view=view,
        )
        for metric in metrics
        for view in views(dataset)
    ]


@cache
def alike(task):
    """Return the first task that has the same samples, folds and baselines."""
    own = slices.division(CONFIG, task)
    return next(name for name in CONFIG.tasks if slices.division(CONFIG, name) == own)


@cache
def divided(task):
    """Return the first such task whose numbers are checked alike: some must have logarithms."""
    own = slices.folds(CONFIG, task)
    return next(
        name
        for name in CONFIG.tasks
        if alike(name) == alike(task) and slices.folds(CONFIG, name) == own
    )


def folds_file(wildcards):
    """Return the folds of a task; tasks that differ in their training share them."""
    dataset = wildcards.dataset
    return result("folds/{task}.tsv", dataset=dataset, task=divided(wildcards.task))


def baselines_file(wildcards):
    """Return the predictions of a task's baselines."""
    path, dataset = "baselines/{task}/predictions.tsv", wildcards.dataset
    return result(path, dataset=dataset, task=alike(wildcards.task))


def first_model():
    """Return the model that the speed table times."""
    return next(iter(CONFIG.models))


def starting_model(wildcards):
    """Return the pretrained model of a task, or one per fold, unless the task starts from scratch.

    A directory has no checksum, so the embeddings, or the digests, stand for it: made by the same
    job, and compared by content.
    """
    training = resolved(CONFIG, "finetuning", task=wildcards.task)
    if training.start == "scratch":
        return {}
    if training.inductive:
        folder = result(
            "pretrain/{model}/inductive/{task}",
            dataset=wildcards.dataset,
            model=wildcards.model,
            task=alike(wildcards.task),
        )
        return {
            "model": ancient(f"{folder}/encoders"),
            "digests": f"{folder}/digests.json",
        }
    folder = result(
        "pretrain/{model}", dataset=wildcards.dataset, model=wildcards.model
    )
    return {
        "model": ancient(f"{folder}/model"),
        "embeddings": f"{folder}/embeddings.parquet",
        **frozen_asvs(wildcards),
    }


def frozen_asvs(wildcards):
    """Return the embeddings of all ASVs, where a task uses them as pretraining left them."""
    training = resolved(CONFIG, "finetuning", task=wildcards.task)
    if training.start == "scratch" or training.encoder == "full" or training.inductive:
        return {}
    path = "pretrain/{model}/asvs.safetensors"
    return {"asvs": result(path, dataset=wildcards.dataset, model=wildcards.model)}


def tasks_of(dataset):
    """Return the names of a dataset's tasks."""
    return [name for name, task in CONFIG.tasks.items() if task.dataset == dataset]


def prediction_files(wildcards):
    """Return the table, and the sequences where given, that a prediction is made for."""
    section = CONFIG.predictions[wildcards.table]
    if section.simulated is not None:
        return {"table": result("simulated/new_table.biom", dataset=section.simulated)}
    return {
        name: user_file(getattr(section, name))
        for name in ("table", "sequences", "metadata")
        if getattr(section, name) is not None
    }


def data_of(dataset):
    """Return everything that is made of a dataset before training."""
    metrics = resolved(CONFIG, "unifrac", dataset=dataset).metrics
    return [
        result("rarefied/curve.tsv", dataset=dataset),
        result("inputs/metadata.parquet", dataset=dataset),
        result("views/samples.arrow", dataset=dataset),
        *distance_views(dataset, metrics),
    ]


def result_files(dataset, path):
    """Return a file of a dataset for each of the tasks and models that its path names."""
    return [
        result(path, dataset=dataset, model=model, task=task)
        for task in (tasks_of(dataset) if "{task}" in path else [""])
        for model in (CONFIG.models if "{model}" in path else [""])
    ]


def of_models(dataset, name):
    """Return a file of the pretraining of every encoder on a dataset."""
    return result_files(dataset, f"pretrain/{{model}}/{name}")


def pretraining_of(dataset):
    """Return the metrics of every encoder on a dataset."""
    return of_models(dataset, "metrics.json")


def finetuning_of(dataset):
    """Return the metrics of every model and task of a dataset."""
    return result_files(dataset, "finetune/{model}/{task}/metrics.json")


def predictions_of(dataset):
    """Return the predictions of a dataset's tasks for other tables."""
    return [
        result(
            "predict/{model}/{task}/{table}.tsv",
            dataset=dataset,
            model=model,
            task=task,
            table=table,
        )
        for table, section in CONFIG.predictions.items()
        for task in section.tasks
        if CONFIG.tasks[task].dataset == dataset
        for model in CONFIG.models
    ]


def benchmark_tables(wildcards):
    """Return the speed table, and the accuracy table where the dataset has tasks, by name."""
    names = ["speed", *(["accuracy"] if tasks_of(wildcards.dataset) else [])]
    return {
        name: result(f"benchmark/{name}.tsv", dataset=wildcards.dataset)
        for name in names
    }


def figures_of(dataset):
    """Return the figures of a dataset's summary."""
    shown = {"always"} | ({"tasks"} if tasks_of(dataset) else set())
    return [
        path
        for plot in PLOTS.values()
        if plot.shown in shown
        for figure in plot.figures
        for path in result_files(dataset, f"figures/{figure.place}.png")
    ]


def job_of(plot):
    """Return the path that the log of a job that draws figures has below `logs`."""
    return "/".join(
        [f"plot_{plot}", *(f"{{{name}}}" for name in PLOTS[plot].wildcards)]
    )


def figure_settings(name, wildcards):
    """Return what draws the figures of a rule, and what they depend on beside files."""
    plot = PLOTS[name]
    settings = plot.settings(CONFIG, wildcards.dataset) if plot.settings else {}
    return {"draw": plot.draw, **settings}


def bench_of(dataset):
    """Return the tables and figures of speed, scaling, and models, where some can be compared."""
    compared = ["models"] if slices.comparable(CONFIG, dataset) else []
    names = ["speed", "scaling", *compared]
    paths = ("benchmark/{}.md", "figures/{}.png")
    return [
        result(path.format(name), dataset=dataset) for name in names for path in paths
    ]


def everything_of(dataset):
    """Return all results of a dataset, the summary last."""
    return [
        *data_of(dataset),
        *pretraining_of(dataset),
        *finetuning_of(dataset),
        *predictions_of(dataset),
        result("summary.md", dataset=dataset),
    ]
