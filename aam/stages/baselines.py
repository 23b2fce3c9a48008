"""What a task's folds give without deep learning."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.config.baselines import CONSTANTS
from aam.data.folds import read_folds
from aam.data.predictions import TARGET, write_predictions
from aam.data.table import align_features, read_biom
from aam.data.trees import branches_of
from aam.distances.store import distance_rows, read_ids
from aam.learners.baselines.problem import draw_landmarks, problems_of_targets
from aam.learners.baselines.registry import cross_validate, suitable_baselines
from aam.learners.nested_predictions import CrossValidated
from aam.stages.first_score import FirstScore
from aam.util.parquet import write_table


def fit_baselines(
    *,
    folds: Path,
    views: Sequence[Path],
    tree: Path | None = None,
    distances: Sequence[Path] = (),
    kind: Literal["regression", "classification", "ordinal"],
    classes: Sequence[str] | None = None,
    bounds: tuple[float | None, float | None] = (None, None),
    baselines: Sequence[str] | None = None,
    seed: int = 0,
    threads: int = 1,
    predictions_out: Path,
    nested_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Predict each target with simple methods, on a task's folds, from means of all views.

    Parameters
    ----------
    folds
        TSV file of the folds of the task, which has the observed values.
    views
        BIOM files of the rarefied tables.
    tree
        Newick file with a tip for every feature of the tables; None: there is none.
    distances
        Parquet files of the distances of all views, for methods that compare samples: unweighted
        UniFrac, without a tree Bray-Curtis. Empty: no such method is asked for.
    kind
        Whether numbers or classes are predicted.
    classes
        Classes in their order. None: those that were observed, in the order of
        `aam.data.predictions.class_order`.
    bounds
        Least and largest number that can be predicted; None: no bound.
    baselines
        Names of the methods, as in `aam.config.baselines`. None: those that are fitted by default.
    seed
        Seed of the methods that draw.
    threads
        Cores to use. They change no result.
    predictions_out
        TSV file to write, with a row per sample and method.
    nested_out
        Parquet file to write, with nested predictions: the weights of a super learner are fitted
        to them.
    provenance
        Metadata of the Parquet file (`aam.util.digests`).
    """
    fold_table = read_folds(folds)
    sample_ids = fold_table.index
    counts, feature_ids, is_counted = mean_counts(views, sample_ids)
    above, lengths = branches_of(tree, feature_ids)
    landmarks = draw_landmarks(len(fold_table), seed)
    tables: dict[str, CrossValidated] = {}
    problems = problems_of_targets(
        fold_table,
        kind=kind,
        classes=classes,
        counts=counts,
        distances=_mean_distances(distances, sample_ids, landmarks),
        above=above,
        lengths=lengths,
        seed=seed,
        bounds=bounds,
        asked=baselines,
        is_counted=is_counted,
        landmarks=landmarks,
    )
    for name, task in problems.items():
        methods = [method for method in suitable_baselines(task) if method not in CONSTANTS]
        tell = FirstScore(kind, task.group, classes or (), methods=len(methods))
        tables[name] = cross_validate(task, threads, tell)
    write_tables(tables, sample_ids, predictions_out, nested_out, provenance)


def write_tables(
    tables: Mapping[str, CrossValidated],
    sample_ids: pd.Index,
    predictions_out: Path,
    nested_out: Path,
    provenance: Mapping[str, str],
) -> None:
    """Write what methods predict, with the IDs of the samples.

    Parameters
    ----------
    tables
        By name of the target, empty where there is one.
    sample_ids
        Samples in the order of the rows.
    predictions_out
        TSV file to write.
    nested_out
        Parquet file to write, with nested predictions.
    provenance
        Metadata of the Parquet file (`aam.util.digests`).
    """
    predictions = {name: table.predictions for name, table in tables.items()}
    nested = {name: table.nested for name, table in tables.items()}
    write_predictions(predictions_out, _join_targets(predictions, sample_ids))
    write_table(nested_out, _join_targets(nested, sample_ids), provenance)


def mean_counts(views: Sequence[Path], sample_ids: pd.Index) -> tuple[csr_array, list[str], bool]:
    """Return the mean of some samples over all views, the features, and whether it is of reads."""
    tables = align_features(map(read_biom, views), [*sample_ids])
    counts = sum(table.counts / len(tables) for table in tables)
    return csr_array(counts), tables[0].feature_ids, tables[0].facts.is_counted


def _join_targets(predictions: Mapping[str, pd.DataFrame], sample_ids: pd.Index) -> pd.DataFrame:
    """Return the predictions of all targets, by their names, in one table."""
    parts = [_named(table, sample_ids, name) for name, table in predictions.items()]
    return pd.concat(parts, ignore_index=True)


def _named(predictions: pd.DataFrame, sample_ids: pd.Index, target: str) -> pd.DataFrame:
    """Return predictions with the IDs of their samples in place of rows, and the target's name."""
    table = predictions.copy()
    rows = table.pop("row").to_numpy(np.int64)
    table.insert(0, "sample-id", sample_ids.to_numpy()[rows])
    if target:
        table.insert(1, TARGET, target)
    return table


def _mean_distances(
    paths: Sequence[Path], sample_ids: pd.Index, landmarks: NDArray[np.intp] | None
) -> NDArray[np.float32]:
    """Return the mean distances of some samples to each other, or to landmarks, in their order."""
    if not paths:
        return np.zeros((0, 0), np.float32)
    columns = np.arange(len(sample_ids)) if landmarks is None else landmarks
    mean_NL = np.zeros((len(sample_ids), len(columns)), np.float32)
    for path in paths:
        column_N = pd.Index(read_ids(path)).get_indexer(sample_ids)
        assert column_N.min() >= 0, "a sample of the folds is missing"
        for names, distances_RN in distance_rows(path):
            row_R = sample_ids.get_indexer(pd.Index(names))
            is_wanted_R = row_R >= 0
            mean_NL[row_R[is_wanted_R]] += distances_RN[is_wanted_R][:, column_N[columns]]
    # In place, since with landmarks the matrix takes gigabytes.
    mean_NL /= np.float32(len(paths))
    return mean_NL
