"""The super learner of a task, kept for other tables."""

import pandas as pd

from aam.data.folds import read_folds, units_of
from aam.evaluate import super_learner as mixing
from aam.evaluate.kept_mixture import mix_targets, write_super_learner
from aam.evaluate.predictions import by_target, class_names, read_predictions
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_json
from aam.util.provenance import file_digest, provenance, settings_digest


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write what predicting another table with the mixture of model and baselines takes."""
    folds = read_folds(inputs["folds"])
    model = cfg["names"]["model"]
    predictions = by_target(read_predictions(inputs["predictions"]))
    nested = by_target(pd.read_parquet(inputs["nested"]))
    baselines = mixing.learners_by_target(
        read_predictions(inputs["baselines"]), pd.read_parquet(inputs["nested_baselines"])
    )
    learners = {
        target: {model: mixing.Learner(table, nested[target]), **baselines[target]}
        for target, table in predictions.items()
    }
    mixtures, mixed = mix_targets(learners, units_of(folds["group"]))
    settings = {
        "format": mixing.FORMAT,
        "model": model,
        "classes": cfg["classes"] or class_names(mixed),
        **{key: cfg[key] for key in ("kind", "bounds", "seed", "rarefaction")},
        "mixtures": {target: mixture.plain() for target, mixture in mixtures.items()},
        "provenance": provenance(cfg, inputs),
    }
    write_super_learner(
        outputs["directory"],
        settings,
        mixed,
        folds=inputs["folds"],
        tree=inputs["tree"],
        sequences=inputs["sequences"],
        views=inputs["views"],
        models=inputs["model"],
    )
    files = {key: file_digest(inputs[key]) for key in ("digests", "folds", "tree", "sequences")}
    known_by = settings_digest({"settings": settings, "files": files})
    write_json(outputs["digest"], {"digest": known_by})
