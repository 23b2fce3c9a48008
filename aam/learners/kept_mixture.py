"""A super learner as a directory, for other tables: `aam.inference.with_baselines` reads it."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors.numpy import save_file

from aam.config.settings.tasks import SuperLearnerSettings
from aam.data.folds import read_folds
from aam.data.importing.region import recognize_region
from aam.data.predictions import (
    CROSS_VALIDATION,
    TARGET,
    class_names,
    read_results,
    write_predictions,
)
from aam.data.same_reads import Fingerprints
from aam.data.table import FeatureTable, align_features, read_biom, write_biom
from aam.learners.mixture import Mixture
from aam.learners.super_learner import Learner, super_learner
from aam.util.atomic import atomic_path, atomic_path_with_mode, read_json, write_json
from aam.util.digests import check_manifest, write_manifest
from aam.util.errors import problem
from aam.version import __version__

FORMAT = 3
"""Number of the format of the directories that are written and read."""
SETTINGS = "super_learner.json"
"""File with the settings of such a directory."""
FOLDS = "folds.tsv"
"""File of the task's folds."""
TREE = "tree.nwk"
"""File of the study's tree."""
SEQUENCES = "sequences.fasta"
"""File of the study's ASVs."""
MODEL = "model"
"""Folder of the fine-tuned models, where there are any."""
FINGERPRINTS = "fingerprints.safetensors"
"""File of a super learner without models: what recognizes the reads of its training samples."""
METHODS = "methods.safetensors"
"""File of the arrays of the fitted baselines."""
FEATURES = "features.json"
"""File of a folder without samples: its features, their words and what the table could do."""
COMPARED = "compared"
"""Name of the array of `METHODS` that has the rows of kept samples that distances lead to."""
CLADES = "clades.tsv"
"""File of the clades that the labels depend on, where these were looked for."""
CLADE_FEATURES = "clade_features.tsv"
"""File of the features of these clades."""


def mix_targets(
    learners: Mapping[str, Mapping[str, Learner]], units: pd.Series
) -> tuple[dict[str, Mixture], pd.DataFrame]:
    """Mix the learners of every target.

    Parameters
    ----------
    learners
        By target ("" where there is one) and name. A learner that is alone is not mixed.
    units
        Which samples belong together, as `aam.data.folds.units_of` returns it.

    Returns
    -------
    tuple
        The mixture for other tables, by target, and the cross-validated predictions, with a column
        `target` where there are several.
    """
    mixtures: dict[str, Mixture] = {}
    parts = []
    for target, named in learners.items():
        if len(named) > 1:
            mixed = super_learner(named, units)
            mixture = mixed.mixture
            table = mixed.predictions
        else:
            mixture = Mixture.equal(list(named))
            table = next(iter(named.values())).predictions
        mixtures[target] = mixture
        parts.append(table.assign(**{TARGET: target}) if target else table)
    return mixtures, pd.concat(parts, ignore_index=True)


def mixture_settings(
    mixtures: Mapping[str, Mixture],
    mixed: pd.DataFrame,
    settings: SuperLearnerSettings,
    *,
    model: str | None,
    facts: Mapping[str, Any],
    provenance: Mapping[str, str],
) -> dict[str, Any]:
    """Return what the settings of a directory say of its mixture.

    Parameters
    ----------
    mixtures
        The mixture for other tables, by target.
    mixed
        The cross-validated predictions of the mixture.
    settings
        What is predicted, and how another table is rarefied.
    model
        Name of the model among the learners; None: there is none.
    facts
        What people want to know of the study: `study_facts`.
    provenance
        Where the mixture comes from (`aam.util.digests`).

    Returns
    -------
    dict
        The content of `SETTINGS`.
    """
    return {
        "format": FORMAT,
        "model": model,
        "classes": settings.classes or class_names(mixed),
        "kind": settings.kind,
        "bounds": settings.bounds,
        "seed": settings.seed,
        "rarefaction": settings.rarefaction,
        "mixtures": {target: mixture.plain() for target, mixture in mixtures.items()},
        "facts": {"task": settings.task, "tree": settings.tree, **facts},
        "provenance": {"aam.version": __version__, **provenance},
    }


def study_facts(
    folds: pd.DataFrame, view: FeatureTable, sequences: Mapping[str, str]
) -> dict[str, Any]:
    """Return what people want to know of the study that methods learned from.

    Parameters
    ----------
    folds
        Its folds, by sample ID.
    view
        Its rarefied table.
    sequences
        Sequence of every feature; empty where they have none.

    Returns
    -------
    dict
        Numbers of labelled samples, of their groups (0: there are none) and of features, what the
        features are called, and a sentence on the gene and the region of their sequences.
    """
    labelled = folds[folds["fold"] >= 0]
    region = ""
    if view.facts.has_sequences:
        texts = [sequences[name] for name in view.feature_ids]
        region = str(recognize_region(texts, np.asarray(view.counts.sum(axis=0)).ravel()))
    return {
        "samples": len(labelled),
        "groups": int(labelled["group"][labelled["group"] != ""].nunique()),
        "features": len(view.feature_ids),
        "noun": view.facts.noun,
        "region": region,
    }


def write_super_learner(
    directory: Path,
    settings: Mapping[str, Any],
    predictions: pd.DataFrame,
    *,
    folds: Path,
    tree: Path | None,
    sequences: Path,
    views: Sequence[Path],
    models: Path | None = None,
    fingerprints: Fingerprints | None = None,
    lineages: Mapping[str, Sequence[str]] = {},
    clades: Path | None = None,
    clade_features: Path | None = None,
    fit: Callable[[Path], tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    """Write the directory that `SuperLearner.load` reads, atomically.

    Parameters
    ----------
    directory
        Folder to write.
    settings
        Content of `super_learner.json`: what the baselines and the rarefaction of another table
        take, the mixtures, and the name of the model, None where there is none.
    predictions
        The cross-validated ones of the mixture, which intervals are learned from.
    folds, tree, sequences, views
        Files of the study: those of the task's folds, of its tree, where it has one, and ASVs, and
        of its rarefied tables.
    models
        Directory of the fine-tuned models; None: baselines are mixed alone.
    fingerprints
        Reads of the training samples, which are recognized by them later. None: the models do it.
    lineages
        Ranks of the features of a table without sequences, by ID, as far as they are known.
    clades, clade_features
        Files of the clades that the labels depend on, and of their features (`aam.stages.clades`);
        None: nobody looked for them.
    fit
        Fits the baselines to what lies in the folder: returns their facts, which are written as
        `methods` of the settings, and their arrays by name.
    """
    labelled = read_folds(folds)
    sample_ids = [*labelled.index[labelled["fold"] >= 0]]
    with atomic_path(directory) as partial:
        partial.mkdir()
        if models is not None:
            shutil.copytree(models, partial / MODEL)
        shutil.copyfile(folds, partial / FOLDS)
        if tree is not None:
            shutil.copyfile(tree, partial / TREE)
        shutil.copyfile(sequences, partial / SEQUENCES)
        for view, reads in enumerate(align_features(map(read_biom, views), sample_ids)):
            write_biom(partial / f"view{view}.biom", reads, {}, lineages)
        if fingerprints is not None:
            fingerprints.write(partial / FINGERPRINTS)
        if clades is not None and clade_features is not None:
            shutil.copyfile(clades, partial / CLADES)
            shutil.copyfile(clade_features, partial / CLADE_FEATURES)
        write_predictions(partial / CROSS_VALIDATION, predictions)
        methods, arrays = fit(partial)
        write_arrays(partial / METHODS, arrays)
        write_json(partial / SETTINGS, {**settings, "methods": methods})
        write_manifest(partial)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the arrays of fitted baselines, with the mode that other files get.

    Parameters
    ----------
    path
        File to write, in the safetensors format.
    arrays
        The arrays by name.
    """
    with atomic_path_with_mode(path) as partial:
        save_file(dict(arrays), partial)


def read_super_learner(directory: Path) -> dict[str, Any]:
    """Return the settings of a directory, once its files are known to be complete.

    Parameters
    ----------
    directory
        A folder that `write_super_learner` wrote.

    Raises
    ------
    InputError
        It is of another format, or its files are not those that were written together.
    """
    settings: dict[str, Any] = read_json(directory / SETTINGS)
    if settings["format"] != FORMAT:
        raise problem(
            directory / SETTINGS,
            f"format {settings['format']}, of another version of AAM",
            f"format {FORMAT}",
            "run the study again with this version (`aam run`): only the super learner is made "
            "again; or predict with the version that wrote it",
        )
    check_manifest(directory, "copy the directory again, with all of its files")
    return settings


def read_clades(directory: Path) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Return the clades that the labels depend on, and their features by ID.

    Parameters
    ----------
    directory
        A folder that `write_super_learner` wrote.

    Returns
    -------
    tuple or None
        Tables as `aam.stages.clades` writes them; None: nobody looked for clades.
    """
    if not (directory / CLADES).is_file():
        return None
    features = read_results(directory / CLADE_FEATURES).set_index("feature-id")
    return read_results(directory / CLADES), features
