"""What a task's folds give without deep learning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.samples import SampleStore
from aam.data.splits import read_folds
from aam.evaluate.baselines import Problem, predict_baselines
from aam.evaluate.predictions import write_predictions
from aam.stages.entry import Files, RunContext
from aam.unifrac.store import read_distances


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Predict a task's samples with simple methods, on the folds that the model gets.

    Parameters
    ----------
    cfg
        `aam.config.slices.baselines`.
    inputs
        `folds` (TSV), `samples` (Arrow), `distances` (Parquet: unweighted UniFrac of view 0).
    outputs
        `predictions` (TSV: a row per sample and baseline).
    runtime
        `threads` of the forest.
    """
    folds = read_folds(inputs["folds"])
    table = predict_baselines(_problem(cfg, inputs, folds), runtime.threads)
    table.insert(0, "sample-id", folds.index.to_numpy()[table.pop("row")])
    write_predictions(outputs["predictions"], table)


def _problem(cfg: Mapping[str, Any], inputs: Files, folds: pd.DataFrame) -> Problem:
    store = SampleStore.open(inputs["samples"])
    counts = store.view_matrix(0, int(store.asvs.max()) + 1)
    names, distances = read_distances(inputs["distances"])
    rows = _positions(names, folds.index)
    regression = cfg["kind"] == "regression"
    return Problem(
        kind=cfg["kind"],
        target=folds["observed"].to_numpy(dtype=np.float64 if regression else np.str_),
        fold=folds["fold"].to_numpy(),
        group=folds["group"].to_numpy(dtype=np.str_),
        counts=counts[_positions(store.sample_ids, folds.index)],
        distances=distances[np.ix_(rows, rows)],
        seed=cfg["seed"],
    )


def _positions(names: Sequence[str], wanted: pd.Index) -> NDArray[np.intp]:
    positions = pd.Index(names).get_indexer(wanted)
    assert (positions >= 0).all(), "a sample of the folds is missing"
    return positions
