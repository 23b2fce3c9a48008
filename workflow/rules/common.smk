"""The configuration, the paths, and the few functions that the rules share."""

import os
import re
import sys
import time
from functools import cache, partial
from pathlib import Path

# The package beside the workflow, installed or not.
REPOSITORY = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
if (REPOSITORY / "aam").is_dir():
    sys.path.insert(0, str(REPOSITORY))

from aam.config import digest, slices
from aam.config.figures import PLOTS
from aam.config.configuration import load, resolved
from aam.config.messages import refuse_doubled_keys
from aam.config.metrics import METRICS
from aam.config.names import AAM
from aam.config.references import REFERENCES
from aam.util.machine import accelerated
from aam.util.digests import claim, user_digests
from aam.util.errors import InputError


def loaded(raw):
    """Return the validated configuration, or stop with one message."""
    try:
        for path in workflow.configfiles:
            refuse_doubled_keys(Path(path))
        found = load(raw)
        claim(Path(found.results_dir), Path.cwd())
        return found
    except InputError as error:
        # An exception would be printed with the lines of this file.
        sys.exit(f"\n{error}\n")


# Threads that wait by spinning slow each other down twentyfold where jobs share the cores.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

CONFIG = loaded(config)
STARTED = time.time()
ENVIRONMENT = "../envs/aam.yaml"
CAPTIONS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((REPOSITORY / "workflow" / "report").glob("*.rst"))
}
# Snakemake would warn at every start of rules that could be shared and are not.
SHARED = "SNAKEMAKE_OUTPUT_CACHE" in os.environ
# Of what leads to a pretrained encoder: most of the rest waits for it, and what does not fills gaps.
PRIORITY = 1
# Of what leads to the first answers, which nobody should wait for.
FIRST = 50
# Tasks that differ in their training alone share folds and baselines: those of the first of them.
folds_owner = cache(partial(slices.folds_owner, CONFIG))
baselines_owner = cache(partial(slices.baselines_owner, CONFIG))
inductive_owner = cache(partial(slices.inductive_owner, CONFIG))
# What messages call a model, with the wildcard of its name where there are several.
MODEL = AAM if len(CONFIG.models) < 2 else f"{AAM} ({{wildcards.model}})"
# The same where one model need not be named.
OF_A_MODEL = "" if len(CONFIG.models) < 2 else f", {MODEL}"
# The speed table times the first model, where there is one.
FIRST_MODEL = next(iter(CONFIG.models), None)


def script_digest(name, *modules):
    """Return the digest of the code that a script runs, and of further modules."""
    # From a remote address only files that are asked for are at hand; all scripts import this one.
    workflow.source_path("../scripts/stage_job.py")
    script = Path(workflow.source_path(f"../scripts/{name}.py"))
    return digest.script_digest(script, *modules)


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


def user_files(section, *names):
    """Return the files that a section of the configuration names, where it does."""
    folder = Path(CONFIG.data_dir).expanduser()
    given = {name: getattr(section, name) for name in names}
    return {
        name: str(folder / path)
        for name, path in given.items()
        if path is not None and path not in REFERENCES
    }


def source_files(*names):
    """Return the input function of the files that a dataset consists of, where it has them."""

    def files(wildcards):
        section = CONFIG.datasets[wildcards.dataset]
        if section.simulate is None:
            return user_files(section, *names)
        simulated = {
            "table": "table.biom",
            "tree": "tree.nwk",
            "metadata": "metadata.tsv",
        }
        return {
            name: result(f"simulated/{simulated[name]}", dataset=wildcards.dataset)
            for name in names
            if name in simulated
        }

    return files


def content_of(files):
    """Return the function of the digests of an input function's files, where they are the user's."""
    return lambda wildcards: user_digests(files(wildcards), Path(CONFIG.results_dir))


def views(dataset):
    """Return the numbers of a dataset's rarefied views."""
    return range(resolved(CONFIG, "rarefaction", dataset=dataset).views)


def table_files(wildcards):
    """Return the table to draw reads from, and the tree where ASVs are left out by it."""
    files = {"table": result("inputs/table.biom", dataset=wildcards.dataset)}
    section = resolved(CONFIG, "rarefaction", dataset=wildcards.dataset)
    if section.long_branches == "drop":
        files["tree"] = result("inputs/tree.nwk", dataset=wildcards.dataset)
    return files


def view_files(wildcards):
    """Return a dataset's rarefied tables."""
    path, dataset = "rarefied/view{view}.biom", wildcards.dataset
    return [result(path, dataset=dataset, view=view) for view in views(dataset)]


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


def target_files(wildcards, model=None):
    """Return the distances that a model learns, metric by metric, or the tree to compute them from.

    Within a metric they come view by view; without `model` they are those of the wildcard.
    """
    dataset, model = wildcards.dataset, model or wildcards.model
    if slices.computes_targets(CONFIG, dataset, model):
        return {"tree": result("inputs/tree.nwk", dataset=dataset)}
    learned = slices.distances(CONFIG, dataset, model)
    return {"distances": distance_views(dataset, learned)}


def pretraining_files(wildcards):
    """Return the targets of a pretraining, what it starts from, and what names its studies.

    With a start, also the whole sequences: in tokens that are cut, reverse complements of the reads
    that the start knows cannot be recognized.
    """
    files, dataset = target_files(wildcards), wildcards.dataset
    if CONFIG.models[wildcards.model].pretrained_on:
        files["metadata"] = result("inputs/metadata.parquet", dataset=dataset)
    start = slices.start(CONFIG, dataset, wildcards.model)
    if start is None:
        return files
    files["sequences"] = result("inputs/sequences.fasta", dataset=dataset)
    if start.directory is not None:
        names = ("config.json", "model.safetensors")
        return files | {"start": [str(start.directory / name) for name in names]}
    folder = result("pretrain/{model}", dataset=start.dataset, model=start.model)
    # A directory has no checksum: see `starting_model`.
    embeddings = f"{folder}/embeddings.parquet"
    return files | {"start": [ancient(f"{folder}/model"), embeddings]}


def distance_views(dataset, metrics):
    """Return the distances of all views, metric by metric."""
    path = "unifrac/{metric}/view{view}.parquet"
    return [
        result(path, dataset=dataset, metric=metric, view=view)
        for metric in metrics
        for view in views(dataset)
    ]


def folds_file(wildcards):
    """Return the folds of a task."""
    owner = folds_owner(wildcards.task)
    return result("folds/{task}.tsv", dataset=wildcards.dataset, task=owner)


def taxonomy_file(wildcards):
    """Return the taxa of the ASVs, where the dataset has them."""
    dataset = wildcards.dataset
    if CONFIG.datasets[dataset].taxonomy is None:
        return {}
    return {"taxonomy": result("inputs/taxonomy.tsv", dataset=dataset)}


def baselines_file(wildcards):
    """Return the predictions of a task's baselines."""
    path, owner = "baselines/{task}/predictions.tsv", baselines_owner(wildcards.task)
    return result(path, dataset=wildcards.dataset, task=owner)


def nested_baselines_file(wildcards):
    """Return the nested predictions of a task's baselines."""
    path, owner = "baselines/{task}/nested.parquet", baselines_owner(wildcards.task)
    return result(path, dataset=wildcards.dataset, task=owner)


def starting_files(wildcards):
    """Return the weights that a pretraining starts from, where they are a directory's."""
    start = slices.start(CONFIG, wildcards.dataset, wildcards.model)
    if start is None or start.directory is None:
        return {}
    return {"weights": str(start.directory / "model.safetensors")}


def starting_model(wildcards):
    """Return the pretrained model of a task, or one per fold, unless the task starts from scratch.

    A directory has no checksum, so the embeddings, or the digests, stand for it: made by the same
    job, and compared by content.
    """
    training = resolved(CONFIG, "finetuning", task=wildcards.task)
    folder = result(
        "pretrain/{model}", dataset=wildcards.dataset, model=wildcards.model
    )
    if training.start == "scratch":
        return {}
    if training.inductive:
        folder = f"{folder}/inductive/{inductive_owner(wildcards.task)}"
        return {
            "model": ancient(f"{folder}/encoders"),
            "digests": f"{folder}/digests.json",
        }
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
    """Return the table, and what else is given, that a prediction is made for."""
    section = CONFIG.predictions[wildcards.table]
    if section.table is None:
        return {"table": result("simulated/new_table.biom", dataset=wildcards.dataset)}
    return user_files(section, "table", "sequences", "metadata")


def baseline_prediction_files(wildcards):
    """Return the files of a prediction by baselines, which know no covariates."""
    files = prediction_files(wildcards)
    return {name: path for name, path in files.items() if name != "metadata"}


def data_of(dataset):
    """Return everything that is made of a dataset before training."""
    metrics = resolved(CONFIG, "unifrac", dataset=dataset).metrics
    # Networks alone read the store of samples.
    read_by_networks = ["views/samples.arrow"] if CONFIG.models else []
    return [
        result("rarefied/curve.tsv", dataset=dataset),
        result("inputs/metadata.parquet", dataset=dataset),
        *(result(path, dataset=dataset) for path in read_by_networks),
        *distance_views(dataset, metrics),
    ]


def explained_tasks_of(dataset):
    """Return the names of a dataset's tasks whose predictions are explained."""
    return [name for name in tasks_of(dataset) if CONFIG.tasks[name].importance]


def result_files(dataset, path, tasks=None):
    """Return a file of a dataset for each of the tasks and models that its path names.

    Without `tasks` they are all of the dataset.
    """
    tasks = tasks_of(dataset) if tasks is None else tasks
    return [
        result(path, dataset=dataset, model=model, task=task)
        for task in (tasks if "{task}" in path else [""])
        for model in (CONFIG.models if "{model}" in path else [""])
    ]


def pretraining_of(dataset):
    """Return the metrics of every encoder on a dataset."""
    return result_files(dataset, "pretrain/{model}/metrics.json")


def finetuning_of(dataset):
    """Return the metrics of every model and task of a dataset."""
    return result_files(dataset, "finetune/{model}/{task}/metrics.json")


def first_of(dataset, path):
    """Return a file of a dataset for each of the tasks that have a first answer."""
    return [
        result(path, dataset=dataset, task=task)
        for task in tasks_of(dataset)
        if slices.has_first(CONFIG, task)
    ]


def first_figures_of(dataset):
    """Return the figures of the first answers."""
    return first_of(dataset, "figures/first/{task}/predictions.svg")


def first_page_of(dataset):
    """Return the page of the first answers, where a dataset has tasks."""
    return [result("first.html", dataset=dataset)] if tasks_of(dataset) else []


def answers_of(dataset, file):
    """Return a file of every answer of a dataset: of its models, or without any of its baselines."""
    if not CONFIG.models:
        return first_of(dataset, f"first/{{task}}/{file}")
    return result_files(dataset, f"finetune/{{model}}/{{task}}/{file}")


def predictions_of(dataset):
    """Return the predictions of a dataset's tasks for other tables."""
    return [
        result(path, dataset=dataset, task=task, table=table)
        for table, section in CONFIG.predictions.items()
        for task in section.tasks
        if CONFIG.tasks[task].dataset == dataset
        for path in slices.predictions(CONFIG, task)
    ]


exports = cache(partial(slices.exports, CONFIG))


def exports_of(dataset):
    """Return the results of a dataset that QIIME 2 reads, where they are asked for."""
    places = exports(dataset) if CONFIG.outputs.qza else []
    return [result(f"{place}.qza", dataset=dataset) for place in places]


def accuracy_file(wildcards):
    """Return the accuracy table, where the dataset has tasks."""
    path = result("benchmark/accuracy.tsv", dataset=wildcards.dataset)
    return {"accuracy": path} if finetuning_of(wildcards.dataset) else {}


def figures_of(dataset):
    """Return the figures of a dataset's summary."""
    shown = {"always", "explained"} | ({"tasks"} if finetuning_of(dataset) else set())
    explained = explained_tasks_of(dataset)
    first = [] if CONFIG.models else first_figures_of(dataset)
    return first + [
        path
        for plot in PLOTS.values()
        if plot.shown in shown
        for figure in plot.figures
        for path in result_files(
            dataset,
            f"figures/{figure.place}.svg",
            tasks=explained if plot.shown == "explained" else None,
        )
    ]


def bench_of(dataset):
    """Return the table and the figure of speed, where there is a model to time."""
    if not CONFIG.models:
        return []
    return [
        result(path, dataset=dataset)
        for path in ("benchmark/speed.md", "figures/speed.svg")
    ]


def everything_of(dataset):
    """Return all results of a dataset, the summary last."""
    return [
        *first_page_of(dataset),
        *data_of(dataset),
        *pretraining_of(dataset),
        *finetuning_of(dataset),
        *predictions_of(dataset),
        *exports_of(dataset),
        result("summary.md", dataset=dataset),
    ]
