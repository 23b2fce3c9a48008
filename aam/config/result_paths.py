"""Paths of results that only some configurations ask for, below the folder of a dataset."""

from collections.abc import Iterator
from pathlib import Path, PurePath

from aam.config.configuration import Config, metrics_of, resolved
from aam.config.metrics import METRICS
from aam.config.names import FIRST
from aam.config.slices import has_first, mixes, naming_genes

NETWORKS = "networks"
"""Folder, next to what an answer predicts for other tables, of what its networks predict alone."""
OLDER = (
    *("first/*/metrics.json", "finetune/*/*/metrics.json", "finetune/*/*/predictions.tsv"),
    *("answers/*/*/intervals.tsv", "baselines/*/predictions.tsv", "predict/*/*/super_learner"),
)
"""Patterns of the files and folders that a version of the package before 0.10 wrote, and none
reads."""


def predictions(config: Config, task: str) -> dict[str, dict[str, str]]:
    """Return the paths of a task's predictions for other tables.

    Parameters
    ----------
    config
        The whole configuration.
    task
        Name of the task.

    Returns
    -------
    dict
        Paths below the folder of the dataset, with `{task}` and `{table}` to be filled in: one for
        each answer, by its leading method, and one by networks alone where a super learner leads.
        By path the name of the model, or ``first``, and the `method` where it is not the model
        alone.
    """
    mixed = {"method": "super learner"}
    if not config.models:
        return {f"predict/{FIRST}/{{task}}/{{table}}.tsv": {"model": FIRST, **mixed}}
    paths = {}
    for model in config.models:
        folder = f"predict/{model}/{{task}}"
        alone = {"model": model}
        if mixes(config, task):
            paths[f"{folder}/{{table}}.tsv"] = {**alone, **mixed}
            paths[f"{folder}/{NETWORKS}/{{table}}.tsv"] = alone
        else:
            paths[f"{folder}/{{table}}.tsv"] = alone
    return paths


def exports(config: Config, dataset: str) -> dict[str, tuple[str, str]]:
    """Return the QIIME 2 artifacts of a dataset.

    Parameters
    ----------
    config
        The whole configuration.
    dataset
        Name of the dataset.

    Returns
    -------
    dict
        By the path of the artifact without its ending: the file that it is made of, below the
        folder of the dataset, and its semantic type. Tasks of several targets have no artifacts of
        predictions.
    """
    exported = {}
    views = resolved(config, "rarefaction", dataset=dataset).views
    for metric in metrics_of(config, dataset):
        kind = "SampleData[AlphaDiversity]" if METRICS[metric].per_sample else "DistanceMatrix"
        for view in range(views):
            path = f"unifrac/{metric}/view{view}"
            exported[path] = f"{path}.parquet", kind
    if naming_genes(config, dataset) is not None:
        exported["inputs/taxonomy"] = "inputs/taxonomy.tsv", "FeatureData[Taxonomy]"
    tasks = [name for name, task in config.tasks.items() if task.dataset == dataset]
    for name in tasks:
        if config.tasks[name].importance:
            features = f"clades/{name}.features"
            exported[features] = f"{features}.tsv", "FeatureData[Importance]"
    for model in config.models:
        embeddings = f"pretrain/{model}/embeddings.parquet"
        exported[f"pretrain/{model}/ordination"] = embeddings, "PCoAResults"
        for name in tasks:
            if config.tasks[name].importance:
                importance = f"finetune/{model}/{name}/importance"
                exported[importance] = f"{importance}.tsv", "FeatureData[Importance]"
            exported |= _exports_of_answer(config, name, model)
    if not config.models:
        for name in tasks:
            if has_first(config, name):
                exported |= _exports_of_answer(config, name, FIRST)
    return exported


def _exports_of_answer(config: Config, name: str, answer: str) -> dict[str, tuple[str, str]]:
    """Return the exports of what is predicted for a task.

    Parameters
    ----------
    config
        The whole configuration.
    name
        Name of the task.
    answer
        Name of the answer.
    """
    task = config.tasks[name]
    if len(task.columns) > 1:
        return {}
    folder = f"answers/{name}/{answer}"
    sources = {f"{folder}/predictions": f"{folder}/predictions.tsv"}
    for table, section in config.predictions.items():
        if name in section.tasks:
            predicted = f"predict/{answer}/{name}/{table}"
            sources[predicted] = f"{predicted}.tsv"
    kind = "Regressor" if task.kind == "regression" else "Classifier"
    exported = {}
    for path, source in sources.items():
        exported[path] = source, f"SampleData[{kind}Predictions]"
        if kind == "Classifier":
            exported[f"{path}.probabilities"] = source, "SampleData[Probabilities]"
    return exported


def is_asked_for(config: Config, dataset: str, path: PurePath) -> bool:
    """Return whether a result is of a task, model and table that the configuration has.

    A task that was renamed or removed leaves its results behind. They may have taken hours, so they
    stay, but nothing reports them.

    Parameters
    ----------
    config
        The whole configuration.
    dataset
        Name of the dataset.
    path
        Path below the folder of the dataset.
    """
    tasks = {name for name, task in config.tasks.items() if task.dataset == dataset}
    # Names have no dots: what follows the first one says what a file holds of a task.
    kind, *names = (part.partition(".")[0] for part in path.parts if part != "figures")
    if not names:
        return True
    if kind in ("folds", "baselines", "clades", "covariates"):
        return names[0] in tasks
    if kind == "answers":
        known = {FIRST, *config.models}
        return names[0] in tasks and (len(names) == 1 or names[1] in known)
    if kind == "pretrain":
        return names[0] in config.models
    if kind == "finetune":
        return names[0] in config.models and (len(names) == 1 or names[1] in tasks)
    if kind == "predict":
        known = set(config.models) or {FIRST}
        if names[0] not in known or len(names) < 2:
            return names[0] in known
        *_, table = names
        asked = config.predictions.get(table)
        is_folder = len(names) == 2 or names[2:] == [NETWORKS]
        return names[1] in tasks and (is_folder or (asked is not None and names[1] in asked.tasks))
    return True


def left_over_answers(config: Config, dataset: str) -> Iterator[str]:
    """Yield the folders of answers to tasks that the configuration no longer has.

    Parameters
    ----------
    config
        The whole configuration.
    dataset
        Name of the dataset.
    """
    root = Path(config.results_dir) / dataset
    for folder in sorted([*root.glob("answers/*/*"), *root.glob("finetune/*/*")]):
        path = folder.relative_to(root)
        if folder.is_dir() and not is_asked_for(config, dataset, path):
            yield path.as_posix()


def older_answers(config: Config, dataset: str) -> Iterator[str]:
    """Yield what a version of the package before 0.10 wrote, and none reads.

    Parameters
    ----------
    config
        The whole configuration.
    dataset
        Name of the dataset.
    """
    root = Path(config.results_dir) / dataset
    for path in sorted(path for pattern in OLDER for path in root.glob(pattern)):
        yield path.relative_to(root).as_posix()
