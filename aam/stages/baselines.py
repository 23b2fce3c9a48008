"""What a task's folds give without deep learning."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.folds import OBSERVED, read_folds
from aam.data.table import on_same_features, read_biom
from aam.data.trees.branches import branches, read_tree
from aam.evaluate.baselines.problem import Problem
from aam.evaluate.baselines.registry import predict_baselines
from aam.evaluate.predictions import TARGET, write_predictions
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.unifrac.store import read_distances


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Predict each target with simple methods, on the model's folds, from means of all views."""
    folds = read_folds(inputs["folds"])
    views = on_same_features(map(read_biom, inputs["views"]), [*folds.index])
    feature_ids, counts = views[0].feature_ids, sum(view.counts / len(views) for view in views)
    above, lengths = branches(read_tree(inputs["tree"], feature_ids), feature_ids)
    distances = _distances(inputs["distances"][0], folds.index)
    for path in inputs["distances"][1:]:
        distances += _distances(path, folds.index)
    distances /= len(inputs["distances"])
    several = [name for name in map(str, folds) if name.startswith(OBSERVED)]
    parts = []
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
        )
        table = predict_baselines(task, runtime.threads)
        table.insert(0, "sample-id", folds.index.to_numpy()[table.pop("row")])
        if several:
            table.insert(1, TARGET, column.removeprefix(OBSERVED))
        parts.append(table)
    write_predictions(outputs["predictions"], pd.concat(parts, ignore_index=True))


def _distances(path: Path, sample_ids: pd.Index) -> NDArray[np.float32]:
    """Return the distances between some samples, in their order."""
    names, distances = read_distances(path)
    places = pd.Index(names).get_indexer(sample_ids)
    assert places.min() >= 0, "a sample of the folds is missing"
    return distances[np.ix_(places, places)]
