"""What a task's folds give without deep learning."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.folds import OBSERVED, read_folds
from aam.data.table import on_same_features, read_biom
from aam.data.trees.branches import branches, read_tree
from aam.evaluate.baselines.problem import Problem, landmarks_of
from aam.evaluate.baselines.registry import predict_baselines, predict_nested
from aam.evaluate.predictions import TARGET, write_predictions
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.unifrac.store import distance_rows, read_ids
from aam.util.parquet import write_table
from aam.util.provenance import provenance


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Predict each target with simple methods, on the model's folds, from means of all views.

    The nested predictions are what the weights of a super learner are fitted to.
    """
    folds = read_folds(inputs["folds"])
    views = on_same_features(map(read_biom, inputs["views"]), [*folds.index])
    feature_ids, counts = views[0].feature_ids, sum(view.counts / len(views) for view in views)
    above, lengths = branches(read_tree(inputs["tree"], feature_ids), feature_ids)
    landmarks = landmarks_of(len(folds), cfg["seed"])
    distances = _distances(inputs["distances"], folds.index, landmarks)
    several = [name for name in map(str, folds) if name.startswith(OBSERVED)]
    parts = []
    nested_parts = []
    for column in several or ["observed"]:
        regression = cfg["kind"] == "regression"
        task = Problem(
            kind=cfg["kind"],
            target=folds[column].to_numpy(dtype=np.float64 if regression else np.str_),
            classes=[] if regression else cfg["classes"] or sorted(set(folds[column])),
            fold=folds["fold"].to_numpy(),
            group=folds["group"].to_numpy(dtype=np.str_),
            counts=csr_array(counts),
            distances=distances,
            above=above,
            lengths=lengths,
            seed=cfg["seed"],
            bounds=cfg["bounds"],
            asked=cfg["baselines"],
            landmarks=landmarks,
        )
        table = predict_baselines(task, runtime.threads)
        nested = predict_nested(task, runtime.threads)
        for predictions in (table, nested):
            rows = predictions.pop("row").to_numpy(np.int64)
            predictions.insert(0, "sample-id", folds.index.to_numpy()[rows])
            if several:
                predictions.insert(1, TARGET, column.removeprefix(OBSERVED))
        parts.append(table)
        nested_parts.append(nested)
    write_predictions(outputs["predictions"], pd.concat(parts, ignore_index=True))
    write_table(
        outputs["nested"], pd.concat(nested_parts, ignore_index=True), provenance(cfg, inputs)
    )


def _distances(
    paths: Sequence[Path], sample_ids: pd.Index, landmarks: NDArray[np.intp] | None
) -> NDArray[np.float32]:
    """Return the mean distances of some samples to each other, or to landmarks, in their order."""
    if not paths:
        return np.zeros((0, 0), np.float32)
    columns = np.arange(len(sample_ids)) if landmarks is None else landmarks
    mean_NL = np.zeros((len(sample_ids), len(columns)), np.float32)
    for path in paths:
        place = pd.Index(read_ids(path)).get_indexer(sample_ids)
        assert place.min() >= 0, "a sample of the folds is missing"
        for names, distances_RN in distance_rows(path):
            row_R = sample_ids.get_indexer(pd.Index(names))
            own = row_R >= 0
            mean_NL[row_R[own]] += distances_RN[own][:, place[columns]]
    return mean_NL / np.float32(len(paths))
