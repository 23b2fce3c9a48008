"""The super learner of a task, kept for other tables."""

import shutil

import pandas as pd

from aam.data.folds import read_folds, units_of
from aam.data.table import on_same_features, read_biom, write_biom
from aam.evaluate import super_learner as mixing
from aam.evaluate.predictions import (
    CROSS_VALIDATION,
    TARGET,
    by_target,
    class_names,
    read_predictions,
    write_predictions,
)
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import atomic_path, write_json
from aam.util.manifest import write_manifest
from aam.util.provenance import file_digest, provenance, settings_digest


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write what predicting another table with the mixture of model and baselines takes."""
    folds = read_folds(inputs["folds"])
    model = cfg["names"]["model"]
    units = units_of(folds["group"])
    predictions = by_target(read_predictions(inputs["predictions"]))
    nested = by_target(pd.read_parquet(inputs["nested"]))
    baselines = mixing.learners_by_target(
        read_predictions(inputs["baselines"]), pd.read_parquet(inputs["nested_baselines"])
    )
    parts, mixtures = [], {}
    for target, first in predictions.items():
        learners = {model: mixing.Learner(first, nested[target]), **baselines[target]}
        mixed = mixing.super_learner(learners, units)
        table = mixed.predictions
        parts.append(table.assign(**{TARGET: target}) if target else table)
        mixtures[target] = mixed.mixture.plain()
    settings = {
        "format": mixing.FORMAT,
        "model": model,
        "classes": cfg["classes"] or class_names(predictions[next(iter(predictions))]),
        **{key: cfg[key] for key in ("kind", "bounds", "seed", "rarefaction")},
        "mixtures": mixtures,
        "provenance": provenance(cfg, inputs),
    }
    with atomic_path(outputs["directory"]) as partial:
        partial.mkdir()
        shutil.copytree(inputs["model"], partial / mixing.MODEL)
        shutil.copyfile(inputs["folds"], partial / mixing.FOLDS)
        shutil.copyfile(inputs["tree"], partial / mixing.TREE)
        shutil.copyfile(inputs["sequences"], partial / mixing.SEQUENCES)
        known = [*folds.index[folds["fold"] >= 0]]
        views = [read_biom(path) for path in inputs["views"]]
        for view, reads in enumerate(on_same_features(views, known)):
            write_biom(partial / f"view{view}.biom", reads, {})
        write_predictions(partial / CROSS_VALIDATION, pd.concat(parts, ignore_index=True))
        write_json(partial / mixing.SETTINGS, settings)
        write_manifest(partial)
    files = {key: file_digest(inputs[key]) for key in ("digests", "folds", "tree", "sequences")}
    known_by = settings_digest({"settings": settings, "files": files})
    write_json(outputs["digest"], {"digest": known_by})
