"""What a task's covariates give alone, and together with the features."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from aam.data.covariates import read_covariates
from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.learners.baselines.problem import draw_landmarks, problems_of_targets
from aam.learners.covariate_methods import fit_with_covariates
from aam.stages.baselines import mean_counts, write_tables


def fit_covariates(
    *,
    folds: Path,
    views: Sequence[Path],
    metadata: Path,
    covariates: Sequence[str],
    kind: Literal["regression", "classification", "ordinal"],
    classes: Sequence[str] | None = None,
    bounds: tuple[float | None, float | None] = (None, None),
    seed: int = 0,
    threads: int = 1,
    predictions_out: Path,
    nested_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Predict each target from covariates, alone and with the features, on a task's folds.

    Parameters
    ----------
    folds
        TSV file of the folds of the task, which has the observed values.
    views
        BIOM files of the rarefied tables.
    metadata
        Parquet file of the imported metadata.
    covariates
        Columns of the metadata.
    kind
        Whether numbers or classes are predicted.
    classes
        Classes in their order. None: those that were observed, in the order of
        `aam.data.predictions.class_order`.
    bounds
        Least and largest number that can be predicted; None: no bound.
    seed
        Seed of the methods that draw.
    threads
        Cores to use. They change no result.
    predictions_out
        TSV file to write, with a row per sample and method of `aam.learners.covariate_methods`.
    nested_out
        Parquet file to write, with nested predictions: weights are fitted to them.
    provenance
        Metadata of the Parquet file (`aam.util.digests`).

    Raises
    ------
    InputError
        There is no such column, or one of numbers has values that are none.
    """
    fold_table = read_folds(folds)
    sample_ids = fold_table.index
    imported = read_metadata(metadata)
    labelled = imported.loc[sample_ids]
    # Selecting rows may lose the attributes, which hold the types that the file declares.
    labelled.attrs = dict(imported.attrs)
    known = read_covariates(labelled, covariates)
    counts, _, is_counted = mean_counts(views, sample_ids)
    problems = problems_of_targets(
        fold_table,
        kind=kind,
        classes=classes,
        counts=counts,
        # Methods that look at covariates compare no samples, and no clades.
        distances=np.zeros((0, 0), np.float32),
        above=csr_array((counts.shape[1], 0)),
        lengths=np.zeros(0),
        seed=seed,
        bounds=bounds,
        is_counted=is_counted,
        landmarks=draw_landmarks(len(fold_table), seed),
    )
    tables = {name: fit_with_covariates(task, known, threads) for name, task in problems.items()}
    write_tables(tables, sample_ids, predictions_out, nested_out, provenance)
