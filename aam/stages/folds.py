"""The folds of a task."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.samples import SampleStore
from aam.data.splits import assign_folds, folds_of_labels
from aam.data.targets import metadata_column, observed_classes, observed_numbers
from aam.stages.entry import Files, RunContext
from aam.util.atomic import write_text
from aam.util.errors import first_names, problem

logger = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Write the fold, the observed value and the group of every labelled sample.

    Parameters
    ----------
    cfg
        `aam.config.slices.folds`.
    inputs
        `metadata` (Parquet) and `samples` (Arrow: the samples that rarefaction keeps).
    outputs
        `folds` (TSV: `sample-id`, `fold`, `observed`, `group`).
    runtime
        Not used.

    Raises
    ------
    InputError
        Naming the metadata column that cannot be predicted or divided by, the values, and the
        way out.
    """
    sample_ids = SampleStore.open(inputs["samples"]).sample_ids
    metadata = pd.read_parquet(inputs["metadata"]).set_index("sample_id").loc[sample_ids]
    regression = cfg["kind"] == "regression"
    observed = (observed_numbers if regression else observed_classes)(metadata, cfg["column"])
    settings = cfg["folds"]
    if settings["column"] is not None:
        observed, folds = _named(metadata, observed, settings["column"])
        groups = None
    else:
        groups = _groups(metadata, observed, settings)
        folds = _drawn(observed, groups, settings, cfg)
    if not regression:
        _warn_of_confined_classes(observed, folds, cfg["column"])
    frame = pd.DataFrame(
        {
            "sample-id": observed.index.tolist(),
            "fold": folds,
            "observed": [repr(float(value)) for value in observed]
            if regression
            else observed.tolist(),
            "group": "" if groups is None else groups,
        }
    )
    logger.info(
        "%d of %d samples in folds of %s", len(frame), len(sample_ids), np.bincount(folds).tolist()
    )
    write_text(outputs["folds"], frame.to_csv(sep="\t", index=False, lineterminator="\n"))


def _named(
    metadata: pd.DataFrame, observed: pd.Series, column: str
) -> tuple[pd.Series, NDArray[np.int64]]:
    """Return the samples that a column puts into a fold, and these folds."""
    labels = metadata_column(metadata, column).loc[observed.index]
    without = labels.index[labels.isna()]
    if len(without):
        logger.warning(
            "left out, for want of a value of '%s': %s samples", column, first_names(without)
        )
    labels = labels[labels.notna()]
    if labels.nunique() < 2:
        raise problem(
            f"metadata column '{column}'",
            f"{labels.nunique()} folds in the {len(observed)} samples that have a target",
            "at least two",
            "name another column in folds.column, or draw folds with folds.k",
        )
    return observed.loc[labels.index], folds_of_labels(labels.tolist())


def _groups(
    metadata: pd.DataFrame, observed: pd.Series, settings: Mapping[str, Any]
) -> list[str] | None:
    column = settings["groups"]
    if column is None:
        return None
    groups = metadata_column(metadata, column).loc[observed.index]
    without = groups.index[groups.isna()]
    if len(without):
        raise problem(
            f"metadata column '{column}'",
            f"no value in {first_names(without)} of {len(groups)} samples that have a target",
            "the group of each of them",
            "fill in the column, or empty the target of these samples",
        )
    if groups.nunique() < settings["k"]:
        raise problem(
            f"metadata column '{column}'",
            f"groups {first_names(groups.unique())}",
            f"at least as many as folds, {settings['k']}",
            "lower folds.k, or group by another column",
        )
    return [str(group) for group in groups]


def _drawn(
    observed: pd.Series,
    groups: list[str] | None,
    settings: Mapping[str, Any],
    cfg: Mapping[str, Any],
) -> NDArray[np.int64]:
    k, column = settings["k"], cfg["column"]
    if len(observed) < k:
        raise problem(
            f"metadata column '{column}'",
            f"a value in {len(observed)} samples",
            f"at least as many as folds, {k}",
            "lower folds.k, or fill in the metadata",
        )
    if cfg["kind"] == "classification":
        _require_samples_of_each_class(observed, k, column)
    classes = observed.tolist() if settings["stratified"] else None
    return assign_folds(
        observed.index.tolist(), k, settings["seed"], classes=classes, groups=groups
    )


def _require_samples_of_each_class(observed: pd.Series, k: int, column: str) -> None:
    sizes = observed.value_counts()
    small = sizes[sizes < k].sort_index()
    if len(small):
        raise problem(
            f"metadata column '{column}'",
            "classes with fewer samples than folds: "
            f"{first_names(f'{name}: {size}' for name, size in small.items())}",
            f"at least {k} samples of each class",
            "lower folds.k, or empty the target of the samples of these classes",
        )


def _warn_of_confined_classes(observed: pd.Series, folds: NDArray[np.int64], column: str) -> None:
    spread = pd.Series(folds, index=observed.index).groupby(observed).nunique()
    confined = spread.index[spread < 2]
    if len(confined):
        logger.warning(
            "classes of '%s' that lie in one fold, so that its model never sees them: %s",
            column,
            first_names(confined),
        )
