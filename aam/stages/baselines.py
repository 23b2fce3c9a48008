"""What a task's folds give without deep learning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.folds import OBSERVED, read_folds
from aam.data.samples import SampleStore
from aam.evaluate.baselines.problem import Problem
from aam.evaluate.baselines.registry import predict_baselines
from aam.evaluate.predictions import write_predictions
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.unifrac.store import read_distances


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Predict a task's samples with simple methods, on the folds that the model gets.

    Of several targets each is predicted by itself.

    Parameters
    ----------
    cfg
        `aam.config.slices.baselines`.
    inputs
        `folds` (TSV), `samples` (Arrow), `distances` (Parquet: unweighted UniFrac of view 0).
    outputs
        `predictions` (TSV: a row per baseline and sample, and per target where there are several,
        named in `target`).
    runtime
        `threads` of the baselines.
    """
    folds = read_folds(inputs["folds"])
    counts, distances = _features(inputs, folds.index)
    several = [name for name in map(str, folds) if name.startswith(OBSERVED)]
    parts = []
    for column in several or ["observed"]:
        task = _problem(cfg, folds, folds[column], counts, distances)
        table = predict_baselines(task, runtime.threads)
        table.insert(0, "sample-id", folds.index.to_numpy()[table.pop("row")])
        if several:
            table.insert(1, "target", column.removeprefix(OBSERVED))
        parts.append(table)
    write_predictions(outputs["predictions"], pd.concat(parts, ignore_index=True))


def _features(inputs: Files, samples: pd.Index) -> tuple[Any, NDArray[np.float32]]:
    """Return the reads [N, F] and the distances [N, N] of some samples."""
    store = SampleStore.open(inputs["samples"])
    counts = store.view_matrix(0, int(store.asvs.max()) + 1)
    names, distances = read_distances(inputs["distances"])
    rows = _positions(names, samples)
    return counts[_positions(store.sample_ids, samples)], distances[np.ix_(rows, rows)]


def _problem(
    cfg: Mapping[str, Any],
    folds: pd.DataFrame,
    observed: pd.Series,
    counts: Any,
    distances: NDArray[np.float32],
) -> Problem:
    kind = cfg["kind"]
    classes = {
        "regression": lambda: [],
        "classification": lambda: sorted(set(observed)),
        "ordinal": lambda: cfg["classes"],
    }
    return Problem(
        kind=kind,
        target=observed.to_numpy(dtype=np.float64 if kind == "regression" else np.str_),
        classes=classes[kind](),
        fold=folds["fold"].to_numpy(),
        group=folds["group"].to_numpy(dtype=np.str_),
        counts=counts,
        distances=distances,
        seed=cfg["seed"],
    )


def _positions(names: Sequence[str], wanted: pd.Index) -> NDArray[np.intp]:
    positions = pd.Index(names).get_indexer(wanted)
    assert (positions >= 0).all(), "a sample of the folds is missing"
    return positions
