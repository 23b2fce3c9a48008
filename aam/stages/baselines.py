"""What a task's folds give without deep learning."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from aam.data.folds import OBSERVED, read_folds
from aam.data.samples import SampleStore
from aam.evaluate.baselines.problem import Problem
from aam.evaluate.baselines.registry import predict_baselines
from aam.evaluate.predictions import TARGET, write_predictions
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.unifrac.store import read_distances


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Predict a task's samples with simple methods, on the folds that the model gets.

    Reads are those of view 0. Of several targets each is predicted by itself.
    """
    folds = read_folds(inputs["folds"])
    store = SampleStore.open(inputs["samples"])
    names, distances = read_distances(inputs["distances"])
    rows, places = (pd.Index(ids).get_indexer(folds.index) for ids in (store.sample_ids, names))
    assert min(rows.min(), places.min()) >= 0, "a sample of the folds is missing"
    counts = store.view_matrix(0, int(store.asvs.max()) + 1)[rows]
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
            counts=counts,
            distances=distances[np.ix_(places, places)],
            seed=cfg["seed"],
        )
        table = predict_baselines(task, runtime.threads)
        table.insert(0, "sample-id", folds.index.to_numpy()[table.pop("row")])
        if several:
            table.insert(1, TARGET, column.removeprefix(OBSERVED))
        parts.append(table)
    write_predictions(outputs["predictions"], pd.concat(parts, ignore_index=True))
