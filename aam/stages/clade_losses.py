"""By how much the answer to a task is worse without each named clade."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from aam.data.folds import read_folds, units_of
from aam.data.predictions import read_predictions
from aam.inference.clade_effects import list_clades
from aam.inference.clade_losses import measure_losses
from aam.inference.with_baselines import SuperLearner
from aam.learners.kept_mixture import FOLDS
from aam.learners.mixture import Mixture
from aam.learners.super_learner import super_learner
from aam.stages.super_learner import list_baselines, task_of
from aam.util.atomic import write_tsv


def measure_clade_losses(
    *,
    model: Path,
    baselines: Path,
    nested_baselines: Path,
    losses_out: Path,
) -> None:
    """Write by how much held-out predictions are worse without each named clade.

    Parameters
    ----------
    model
        Folder of a super learner without networks, with the clades that were named.
    baselines, nested_baselines
        What `aam.stages.baselines` writes: predictions (TSV) and nested ones (Parquet).
    losses_out
        TSV file to write, a row per clade: see `aam.inference.clade_losses.measure_losses`.
    """
    kept = SuperLearner.load(model)
    assert kept is not None, "the folder is an output of the stage super_learner"
    assert kept.folds is not None, "the stage keeps the samples"
    # Samples that are set aside are among the predictions, too.
    units = units_of(read_folds(model / FOLDS)["group"])
    # Where no clade was named there is nothing to mix.
    learners = (
        list_baselines(read_predictions(baselines), pd.read_parquet(nested_baselines))
        if list_clades(kept)
        else {}
    )
    folds = np.unique(kept.folds["fold"]).tolist()
    mixtures = {}
    for target, named in learners.items():
        if len(named) > 1:
            mixtures[target] = super_learner(named, units).mixtures
        else:
            mixtures[target] = dict.fromkeys(folds, Mixture.equal([*named]))
    # The mixture of a fold may have methods that the one for other tables does without.
    every = {target: Mixture.equal([*named]).plain() for target, named in learners.items()}
    settings = {**kept.settings, "mixtures": every}
    nothing = [
        csr_array((0, len(kept.reads.features)), dtype=view.counts.dtype)
        for view in kept.reads.views
    ]
    tasks = {
        target: task_of(settings, kept.folds, kept.reads, nothing, target) for target in learners
    }
    write_tsv(losses_out, measure_losses(kept, tasks, mixtures, units))
