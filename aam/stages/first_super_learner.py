"""The super learner of a task's baselines, kept to predict other tables without networks."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from aam.data.folds import read_folds, units_of
from aam.data.importing.sequences import load_sequences
from aam.data.predictions import GROUP, read_predictions
from aam.data.same_reads import fingerprint_samples
from aam.data.table import read_biom
from aam.learners.first_answer import first_answer_learners
from aam.learners.kept_mixture import mix_targets, mixture_settings, write_super_learner
from aam.learners.kept_task import KeptTask
from aam.util.atomic import write_json
from aam.util.digests import settings_digest


def keep_baselines(
    *,
    baselines: Path,
    nested_baselines: Path,
    folds: Path,
    views: Sequence[Path],
    tree: Path,
    sequences: Path,
    table: Path,
    task: KeptTask,
    directory_out: Path,
    digest_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Write what predicting another table with the mixture of a task's baselines takes.

    Parameters
    ----------
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
    table
        BIOM file of the imported table, by whose reads training samples are recognized.
    task
        What is predicted, and how another table is rarefied.
    directory_out
        Folder to write: see `aam.learners.kept_mixture`.
    digest_out
        JSON file to write, with a digest that stands for the folder.
    provenance
        Where the mixture comes from, which is written with it (`aam.util.digests`).
    """
    fold_table = read_folds(folds)
    learners = first_answer_learners(read_predictions(baselines), pd.read_parquet(nested_baselines))
    units = units_of(fold_table["group"])
    mixtures, mixed = mix_targets(learners, units)
    # Probabilities are calibrated by groups, as those of the page are.
    mixed = mixed.assign(**{GROUP: units.loc[mixed["sample-id"]].to_numpy()})
    settings = mixture_settings(
        mixtures,
        mixed,
        model=None,
        kind=task.kind,
        classes=task.classes,
        bounds=task.bounds,
        seed=task.seed,
        rarefaction=task.rarefaction,
        provenance=provenance,
    )
    labelled = [*fold_table.index[fold_table["fold"] >= 0]]
    sequence_of = load_sequences(sequences)
    write_super_learner(
        directory_out,
        settings,
        mixed,
        folds=folds,
        tree=tree,
        sequences=sequences,
        views=views,
        fingerprints=fingerprint_samples(read_biom(table), labelled, sequence_of),
    )
    # The provenance in the settings has the digests of all inputs.
    write_json(digest_out, {"digest": settings_digest({"settings": settings})})
