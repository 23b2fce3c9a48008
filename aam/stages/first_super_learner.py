"""The super learner of a task's baselines, kept to predict other tables without networks."""

import pandas as pd

from aam.data.folds import read_folds, units_of
from aam.data.importing.sequences import load_sequences
from aam.data.same_reads import fingerprint_samples
from aam.data.table import read_biom
from aam.evaluate import super_learner as mixing
from aam.evaluate.first_answer import learners_of_first_answer
from aam.evaluate.kept_mixture import mix_targets, write_super_learner
from aam.evaluate.predictions import GROUP, class_names, read_predictions
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_json
from aam.util.provenance import provenance, settings_digest


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write what predicting another table with the mixture of the baselines takes."""
    folds = read_folds(inputs["folds"])
    learners = learners_of_first_answer(
        read_predictions(inputs["baselines"]), pd.read_parquet(inputs["nested_baselines"])
    )
    units = units_of(folds["group"])
    mixtures, mixed = mix_targets(learners, units)
    # Probabilities are calibrated by groups, as those of the page are.
    mixed = mixed.assign(**{GROUP: units.loc[mixed["sample-id"]].to_numpy()})
    settings = {
        "format": mixing.FORMAT,
        "model": None,
        "classes": cfg["classes"] or class_names(mixed),
        **{key: cfg[key] for key in ("kind", "bounds", "seed", "rarefaction")},
        "mixtures": {target: mixture.plain() for target, mixture in mixtures.items()},
        "provenance": provenance(cfg, inputs),
    }
    labelled = [*folds.index[folds["fold"] >= 0]]
    sequences = load_sequences(inputs["sequences"])
    write_super_learner(
        outputs["directory"],
        settings,
        mixed,
        folds=inputs["folds"],
        tree=inputs["tree"],
        sequences=inputs["sequences"],
        views=inputs["views"],
        fingerprints=fingerprint_samples(read_biom(inputs["table"]), labelled, sequences),
    )
    # The provenance in the settings has the digests of all inputs.
    write_json(outputs["digest"], {"digest": settings_digest({"settings": settings})})
