"""The super learner of a task, kept for other tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from aam.data.folds import read_folds, units_of
from aam.data.predictions import by_target, read_predictions
from aam.learners import super_learner as mixing
from aam.learners.kept_mixture import mix_targets, mixture_settings, write_super_learner
from aam.learners.kept_task import KeptTask
from aam.util.atomic import write_json
from aam.util.digests import file_digest, settings_digest


def keep_super_learner(
    *,
    model: Path,
    digests: Path,
    predictions: Path,
    nested: Path,
    baselines: Path,
    nested_baselines: Path,
    folds: Path,
    views: Sequence[Path],
    tree: Path,
    sequences: Path,
    name: str,
    task: KeptTask,
    directory_out: Path,
    digest_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Write what predicting another table with the mixture of model and baselines takes.

    Parameters
    ----------
    model
        Folder of the fine-tuned models.
    digests
        JSON file of their digests.
    predictions, nested
        What `aam.stages.finetune` writes: predictions (TSV) and nested ones (Parquet).
    baselines, nested_baselines
        What `aam.stages.baselines` writes: predictions (TSV) and nested ones (Parquet).
    folds
        TSV file of the folds of the task.
    views
        BIOM files of the rarefied tables.
    tree
        Newick file with a tip for every ASV.
    sequences
        FASTA file with the sequence of every ASV.
    name
        What the model is called.
    task
        What is predicted, and how another table is rarefied.
    directory_out
        Folder to write: see `aam.learners.kept_mixture`.
    digest_out
        JSON file to write, with a digest that stands for the folder.
    provenance
        Where the mixture comes from, which is written with it (`aam.util.digests`).
    """
    learners = _learners(name, predictions, nested, baselines, nested_baselines)
    mixtures, mixed = mix_targets(learners, units_of(read_folds(folds)["group"]))
    settings = mixture_settings(
        mixtures,
        mixed,
        model=name,
        kind=task.kind,
        classes=task.classes,
        bounds=task.bounds,
        seed=task.seed,
        rarefaction=task.rarefaction,
        provenance=provenance,
    )
    write_super_learner(
        directory_out,
        settings,
        mixed,
        folds=folds,
        tree=tree,
        sequences=sequences,
        views=views,
        models=model,
    )
    read = {"digests": digests, "folds": folds, "tree": tree, "sequences": sequences}
    files = {key: file_digest(path) for key, path in read.items()}
    digest = settings_digest({"settings": settings, "files": files})
    write_json(digest_out, {"digest": digest})


def _learners(
    model: str, predictions: Path, nested: Path, baselines: Path, nested_baselines: Path
) -> dict[str, dict[str, mixing.Learner]]:
    """Return what is mixed, by target and name: the model, then the baselines.

    Parameters
    ----------
    model
        What the model is called.
    predictions, nested
        Files of its predictions.
    baselines, nested_baselines
        Files of those of the baselines.
    """
    nested_by_target = by_target(pd.read_parquet(nested))
    others = mixing.learners_by_target(
        read_predictions(baselines), pd.read_parquet(nested_baselines)
    )
    learners = {}
    for target, table in by_target(read_predictions(predictions)).items():
        learner = mixing.Learner(table, nested_by_target[target])
        learners[target] = {model: learner, **others[target]}
    return learners
