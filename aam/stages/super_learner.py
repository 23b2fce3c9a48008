"""The super learner of a task, kept for other tables."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.config.baselines import NEED_DISTANCES
from aam.config.settings.tasks import SuperLearnerSettings
from aam.data.folds import read_folds, units_of
from aam.data.lineages import read_ranks
from aam.data.predictions import GROUP, by_baseline, by_target, read_predictions
from aam.data.same_reads import fingerprint_samples
from aam.data.sequences import read_fasta
from aam.data.table import read_biom
from aam.inference.kept_reads import KeptReads
from aam.inference.with_baselines import labels_of, used_mixtures
from aam.learners.baselines.arrays import write_methods
from aam.learners.baselines.fit_arrays import fit_methods
from aam.learners.baselines.problem import Problem, draw_landmarks
from aam.learners.kept_mixture import (
    COMPARED,
    FOLDS,
    mix_targets,
    mixture_settings,
    study_facts,
    write_super_learner,
)
from aam.learners.super_learner import NO_NESTED, Learner, learners_by_target
from aam.util.atomic import write_json
from aam.util.digests import file_digest


def keep_super_learner(
    *,
    model: Path | None = None,
    predictions: Path | None = None,
    nested: Path | None = None,
    baselines: Path,
    nested_baselines: Path,
    folds: Path,
    views: Sequence[Path],
    tree: Path | None = None,
    sequences: Path,
    table: Path,
    taxonomy: Path | None = None,
    clades: Path | None = None,
    clade_features: Path | None = None,
    settings: SuperLearnerSettings,
    directory_out: Path,
    digest_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Write what predicting another table with the mixture of all methods takes.

    Parameters
    ----------
    model
        Folder of the fine-tuned models; None: baselines are mixed alone.
    predictions, nested
        What `aam.stages.finetune` writes: predictions (TSV) and nested ones (Parquet).
    baselines, nested_baselines
        What `aam.stages.baselines` writes: predictions (TSV) and nested ones (Parquet).
    folds
        TSV file of the folds of the task.
    views
        BIOM files of the rarefied tables.
    tree
        Newick file with a tip for every feature; None: there is none.
    sequences
        FASTA file with the sequence of every feature; empty where they have none.
    table
        BIOM file of the imported table, by whose reads training samples are recognized where no
        model does it.
    taxonomy
        TSV file with the taxon of each feature (`aam.stages.import_taxonomy`), for features without
        sequences; None: the table has their lineages, where there are any.
    clades, clade_features
        What `aam.stages.clades` writes: the clades that the labels depend on, and their features;
        None: nobody looked for them.
    settings
        What is predicted, what the answer is called, and how another table is rarefied.
    directory_out
        Folder to write: see `aam.learners.kept_mixture`.
    digest_out
        JSON file to write, with a digest that stands for the folder.
    provenance
        Where the mixture comes from, which is written with it (`aam.util.digests`).
    """
    fold_table = read_folds(folds)
    learners = list_baselines(read_predictions(baselines), pd.read_parquet(nested_baselines))
    if predictions is not None and nested is not None:
        own = read_predictions(predictions)
        learners = _with_networks(settings.answer, own, pd.read_parquet(nested), learners)
    units = units_of(fold_table["group"])
    mixtures, mixed = mix_targets(learners, units)
    # Probabilities are calibrated by groups, as those of the page are.
    mixed = mixed.assign(**{GROUP: units.loc[mixed["sample-id"]].to_numpy()})
    imported = read_biom(table)
    texts = read_fasta(sequences) if imported.facts.has_sequences else {}
    content = mixture_settings(
        mixtures,
        mixed,
        settings,
        model=None if model is None else settings.answer,
        facts=study_facts(fold_table, read_biom(views[0]), texts),
        provenance=provenance,
    )
    fingerprints = None
    lineages = {} if imported.facts.has_sequences else read_ranks(table, taxonomy)
    if model is None:
        labelled = [*fold_table.index[fold_table["fold"] >= 0]]
        fingerprints = fingerprint_samples(imported, labelled, texts)
    write_super_learner(
        directory_out,
        content,
        mixed,
        folds=folds,
        tree=tree,
        sequences=sequences,
        views=views,
        models=model,
        fingerprints=fingerprints,
        lineages=lineages,
        clades=clades,
        clade_features=clade_features,
        fit=partial(fit_kept, content),
    )
    # Of the files, not of the settings: other code may fit other arrays with the same settings.
    write_json(digest_out, {"digest": file_digest(directory_out)})


def fit_kept(
    settings: Mapping[str, Any], directory: Path
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Fit the baselines that are mixed to the samples that lie in a folder.

    Parameters
    ----------
    settings
        Content of `super_learner.json`.
    directory
        The folder, which need not be complete.

    Returns
    -------
    tuple
        Facts of the methods by target and name, and their arrays.
    """
    folds = read_folds(directory / FOLDS)
    folds = folds[folds["fold"] >= 0]
    reads = KeptReads.load(directory, settings["rarefaction"])
    nothing = [csr_array((0, len(reads.features)), dtype=view.counts.dtype) for view in reads.views]
    landmarks = draw_landmarks(len(folds), settings["seed"])
    facts = {}
    compared = np.arange(len(folds)) if landmarks is None else landmarks
    arrays = {COMPARED: compared}
    # Files of settings have their keys sorted, by which the targets are numbered.
    for number, target in enumerate(sorted(settings["mixtures"])):
        task = task_of(settings, folds, reads, nothing, target)
        own, own_arrays = write_methods(fit_methods(task))
        facts[target] = own
        arrays |= {f"{number}/{name}": array for name, array in own_arrays.items()}
    return facts, arrays


def task_of(
    settings: Mapping[str, Any],
    folds: pd.DataFrame,
    reads: KeptReads,
    drawn: Sequence[csr_array],
    target: str,
) -> Problem:
    """Return the labelled samples of a target, and others of fold -1, as baselines take them.

    Parameters
    ----------
    settings
        Content of `super_learner.json`.
    folds, reads
        Folds and reads of the labelled samples, in the same order.
    drawn
        What `KeptReads.draw` returns for the others.
    target
        Name of the target; empty where there is one.
    """
    mixture = used_mixtures(settings)[target]
    asked = [name for name in mixture.weights if name != settings["model"]]
    labels = labels_of(folds, settings["classes"], target)
    others = drawn[0].shape[0]
    # The labels of the other samples are not known: any label stands in their place.
    filled = np.concatenate([labels, np.repeat(labels[:1], others)])
    landmarks = draw_landmarks(len(folds), settings["seed"])
    needed = bool(NEED_DISTANCES & set(asked))
    return Problem(
        **{key: settings[key] for key in ("kind", "classes", "seed")},
        **reads.problem_fields(drawn, landmarks, distances=needed),
        target=filled,
        fold=np.concatenate([folds["fold"].to_numpy(), np.full(others, -1)]),
        group=np.array([*folds["group"], *[""] * others], np.str_),
        bounds=tuple(settings["bounds"]),
        asked=asked,
    )


def list_baselines(
    predictions: pd.DataFrame, nested: pd.DataFrame
) -> dict[str, dict[str, Learner]]:
    """Return the baselines that are mixed, by target and name; a constant where it is alone.

    Parameters
    ----------
    predictions, nested
        What `aam.stages.baselines` writes.
    """
    learners = learners_by_target(predictions, nested)
    if learners:
        return learners
    name, parts = next(iter(by_baseline(predictions).items()))
    return {target: {name: Learner(table, NO_NESTED)} for target, table in parts.items()}


def _with_networks(
    model: str,
    predictions: pd.DataFrame,
    nested: pd.DataFrame,
    baselines: Mapping[str, Mapping[str, Learner]],
) -> dict[str, dict[str, Learner]]:
    """Return what is mixed, by target and name: the networks of a model, then the baselines."""
    nested_by_target = by_target(nested)
    learners = {}
    for target, table in by_target(predictions).items():
        learner = Learner(table, nested_by_target[target])
        learners[target] = {model: learner, **baselines[target]}
    return learners
