"""The super learner of a task, kept for other tables."""

import shutil

import pandas as pd

from aam.data.folds import read_folds
from aam.data.table import on_same_features, read_biom, write_biom
from aam.evaluate import super_learner as mixing
from aam.evaluate.predictions import (
    CROSS_VALIDATION,
    TARGET,
    by_baseline,
    by_target,
    class_names,
    read_predictions,
    write_predictions,
)
from aam.evaluate.report import CONSTANT
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import atomic_path, write_json
from aam.util.manifest import write_manifest
from aam.util.provenance import file_digest, provenance, settings_digest


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write what predicting another table with the mixture of model and baselines takes."""
    folds = read_folds(inputs["folds"])
    model, units = cfg["names"]["model"], mixing.units_of(folds["group"])
    own = by_target(read_predictions(inputs["predictions"]))
    baselines = by_baseline(read_predictions(inputs["baselines"]))
    rivals = {name: parts for name, parts in baselines.items() if name not in CONSTANT}
    parts, mixtures = [], {}
    for target, first in own.items():
        tables = {model: first, **{name: part[target] for name, part in rivals.items()}}
        mixed, mixture = mixing.super_learner(tables, units)
        parts.append(mixed.assign(**{TARGET: target}) if target else mixed)
        mixtures[target] = mixture.plain()
    settings = {
        "format": mixing.FORMAT,
        "model": model,
        "classes": cfg["classes"] or class_names(own[next(iter(own))]),
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
