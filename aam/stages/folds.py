"""The folds of a task."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.folds import CATEGORY, OBSERVED, TEST
from aam.data.samples import SampleStore
from aam.data.splits import assign_folds, folds_of_labels, held_out_groups
from aam.data.targets import (
    metadata_column,
    observed_values,
    require_logarithms,
    require_varied,
)
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import write_text
from aam.util.errors import first_names, problem

logger = logging.getLogger(__name__)

LEAST_TRAINING = 2
"""Samples that a fold must leave to train on."""


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write the fold, the observed values, the group and the categories of every labelled sample.

    The members of a fold are all samples of its groups, or of its value of `folds.column`, with a
    target or without: what an encoder that is to know nothing of the fold must not see.

    Parameters
    ----------
    cfg
        `aam.config.slices.folds`.
    inputs
        `metadata` (Parquet) and `samples` (Arrow: the samples that rarefaction keeps).
    outputs
        `folds` (TSV: `sample-id`, `fold`, `observed`, `group`, for several targets
        `observed:<column>`, and `category:<column>`), and `members` (TSV: `sample-id`, `fold`).
    runtime
        Not used.

    Raises
    ------
    InputError
        Naming the metadata column that cannot be predicted or divided by, the values, and the
        way out.
    """
    sample_ids = SampleStore.open(inputs["samples"]).sample_ids
    stored = pd.read_parquet(inputs["metadata"]).set_index("sample_id").loc[sample_ids]
    metadata = _chosen(stored, cfg["where"])
    columns = cfg["columns"]
    values = observed_values(metadata, cfg["kind"], columns, cfg["classes"])
    if cfg["logarithm"]:
        require_logarithms(values)
    named = cfg["folds"]["column"]
    groups = None
    if named is not None:
        values, folds = _named(metadata, values, cfg["folds"])
    else:
        groups = _groups(metadata, values, cfg["folds"])
        folds = _drawn(values, groups, cfg)
    _require_training(folds, named or cfg["folds"]["groups"] or columns[0])
    if cfg["kind"] != "regression":
        _warn_of_classes(values[columns[0]], folds, cfg)
    frame = _table(metadata, values, folds, groups, cfg)
    logger.info(
        "%d of %d samples: %d to test, the others in folds of %s",
        len(frame),
        len(sample_ids),
        (folds == TEST).sum(),
        np.bincount(folds[folds != TEST]).tolist(),
    )
    members = _members(stored, frame, named or cfg["folds"]["groups"])
    for path, table in ((outputs["folds"], frame), (outputs["members"], members)):
        write_text(path, table.to_csv(sep="\t", index=False, lineterminator="\n"))


def _table(
    metadata: pd.DataFrame,
    values: pd.DataFrame,
    folds: NDArray[np.int64],
    groups: list[str] | None,
    cfg: Mapping[str, Any],
) -> pd.DataFrame:
    """Return what is written of the labelled samples."""
    columns = cfg["columns"]
    # repr keeps every bit of a number; classes are text as they are.
    text = values.map(lambda value: repr(float(value))) if cfg["kind"] == "regression" else values
    frame = pd.DataFrame(
        {
            "sample-id": values.index.tolist(),
            "fold": folds,
            "observed": text[columns[0]].tolist(),
            "group": "" if groups is None else groups,
        }
    )
    if len(columns) > 1:
        frame = frame.assign(**{OBSERVED + column: text[column].tolist() for column in columns})
    for column in cfg["categories"]:
        told = metadata_column(metadata, column).loc[values.index]
        frame[CATEGORY + column] = told.where(told.notna(), "").tolist()
    return frame


def _members(stored: pd.DataFrame, frame: pd.DataFrame, column: str | None) -> pd.DataFrame:
    """Return the fold of every stored sample that shares its value of a column with a fold."""
    fold = frame.set_index("sample-id")["fold"]
    if column is not None:
        shared = metadata_column(stored, column)
        # A value lies in one fold, so that any of its samples tells which.
        of_value = dict(zip(shared.loc[fold.index], fold, strict=True))
        fold = shared[shared.isin(list(of_value))].map(of_value)
    names = [name for name in stored.index if name in fold.index]
    return pd.DataFrame({"sample-id": names, "fold": fold.loc[names].astype(np.int64).tolist()})


def _require_training(folds: NDArray[np.int64], column: str) -> None:
    """Check that beside every fold there are samples to train on."""
    in_folds = folds[folds != TEST]
    sizes = np.bincount(in_folds)
    left = len(in_folds) - sizes
    if left.min() < LEAST_TRAINING:
        raise problem(
            f"metadata column '{column}'",
            f"a fold of {sizes.max()} of {len(in_folds)} samples, which leaves {left.min()} to "
            "train on",
            f"at least {LEAST_TRAINING} samples outside of every fold",
            "choose folds that divide the samples more evenly, or fill in the metadata",
        )


def _chosen(metadata: pd.DataFrame, where: Mapping[str, list[str]]) -> pd.DataFrame:
    """Return the samples that have one of the wanted values in every column that is named."""
    for column, wanted in where.items():
        found = metadata_column(metadata, column)
        kept = metadata[found.isin(wanted)]
        if not len(kept):
            raise problem(
                f"metadata column '{column}'",
                f"{first_names(found.dropna().unique())} in {len(metadata)} samples",
                f"{first_names(wanted)}, as `where` of the task says",
                "correct the values of `where`, or leave it out",
            )
        metadata = kept
    return metadata


def _named(
    metadata: pd.DataFrame, values: pd.DataFrame, settings: Mapping[str, Any]
) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return the samples that a column puts into a fold, and these folds.

    What is held out for testing are whole folds of the column, which may be studies or hosts.
    """
    column = settings["column"]
    labels = metadata_column(metadata, column).loc[values.index]
    without = labels.index[labels.isna()]
    if len(without):
        logger.warning(
            "left out, for want of a value of '%s': %s samples", column, first_names(without)
        )
    labels = labels[labels.notna()]
    is_test = np.zeros(len(labels), dtype=np.bool_)
    if settings["test"] > 0 and labels.nunique() > 1:
        is_test = _held_out(labels.index.tolist(), settings, None, labels.tolist(), column)
    rest = labels[~is_test]
    if rest.nunique() < 2:
        left = " that folds.test leaves" if is_test.any() else ""
        raise problem(
            f"metadata column '{column}'",
            f"{rest.nunique()} folds in the {len(rest) if left else len(values)} samples{left} "
            "that have a target",
            "at least two",
            "name another column in folds.column, or draw folds with folds.k"
            + (", or lower folds.test" if left else ""),
        )
    folds = np.full(len(labels), TEST, dtype=np.int64)
    folds[~is_test] = folds_of_labels(rest.tolist())
    values = values.loc[labels.index]
    for target in values:
        require_varied(values[target], str(target), f"that have a value of '{column}'")
    return values, folds


def _groups(
    metadata: pd.DataFrame, values: pd.DataFrame, settings: Mapping[str, Any]
) -> list[str] | None:
    column = settings["groups"]
    if column is None:
        return None
    groups = metadata_column(metadata, column).loc[values.index]
    without = groups.index[groups.isna()]
    if len(without):
        raise problem(
            f"metadata column '{column}'",
            f"no value in {first_names(without)} of {len(groups)} samples that have a target",
            "the group of each of them",
            "fill in the column, or empty the target of these samples",
        )
    return [str(group) for group in groups]


def _drawn(
    values: pd.DataFrame, groups: list[str] | None, cfg: Mapping[str, Any]
) -> NDArray[np.int64]:
    """Return the fold of each sample, -1 for the share to test."""
    settings = cfg["folds"]
    observed = values[cfg["columns"][0]]
    names = observed.index.tolist()
    classes = observed.tolist() if settings["stratified"] else None
    is_test = np.zeros(len(names), dtype=np.bool_)
    if settings["test"] > 0:
        where = settings["groups"] or cfg["columns"][0]
        is_test = _held_out(names, settings, classes, groups, where)
    rest = np.flatnonzero(~is_test)
    rest_groups = None if groups is None else [groups[row] for row in rest]
    _require_enough(observed.iloc[rest], rest_groups, cfg)
    folds = np.full(len(names), TEST, dtype=np.int64)
    folds[rest] = assign_folds(
        [names[row] for row in rest],
        settings["k"],
        settings["seed"],
        classes=None if classes is None else [classes[row] for row in rest],
        groups=rest_groups,
    )
    return folds


def _held_out(
    names: list[str],
    settings: Mapping[str, Any],
    classes: list[str] | None,
    groups: list[str] | None,
    column: str,
) -> NDArray[np.bool_]:
    share = settings["test"]
    is_test = held_out_groups(names, share, settings["seed"], classes=classes, groups=groups)
    if not is_test.any():
        groups = names if groups is None else groups
        smallest = pd.Series(groups).value_counts().min()
        raise problem(
            f"metadata column '{column}'",
            f"{len(names)} samples, of which folds.test = {share:g} is less than the smallest "
            f"group, {smallest}",
            "a share to test that whole groups come near to",
            "raise folds.test, or set it to 0",
        )
    return is_test


def _require_enough(observed: pd.Series, groups: list[str] | None, cfg: Mapping[str, Any]) -> None:
    """Check that the samples to divide are enough for the folds, as are groups and classes."""
    settings = cfg["folds"]
    k = settings["k"]
    beyond = " beyond folds.test" if settings["test"] > 0 else ""
    lower = "lower folds.k or folds.test" if beyond else "lower folds.k"
    if groups is not None and len(set(groups)) < k:
        raise problem(
            f"metadata column '{settings['groups']}'",
            f"groups {first_names(dict.fromkeys(groups))}{beyond}",
            f"at least as many as folds, {k}",
            f"{lower}, or group by another column",
        )
    if len(observed) < k:
        raise problem(
            f"metadata column '{observed.name}'",
            f"a value in {len(observed)} samples{beyond}",
            f"at least as many as folds, {k}",
            f"{lower}, or fill in the metadata",
        )
    if cfg["kind"] == "regression":
        return
    sizes = observed.value_counts()
    small = sizes[sizes < k].sort_index()
    if len(small):
        raise problem(
            f"metadata column '{observed.name}'",
            f"classes with fewer samples than folds{beyond}: "
            f"{first_names(f'{name}: {size}' for name, size in small.items())}",
            f"at least {k} samples of each class",
            f"{lower}, or empty the target of the samples of these classes",
        )


def _warn_of_classes(observed: pd.Series, folds: NDArray[np.int64], cfg: Mapping[str, Any]) -> None:
    in_folds = pd.Series(folds, index=observed.index).where(folds != TEST)
    spread = in_folds.groupby(observed).nunique()
    for count, where in ((1, "in one fold"), (0, "in the test set alone")):
        confined = spread.index[spread == count]
        if len(confined):
            logger.warning(
                "classes of '%s' that lie %s, so that its model never sees them: %s",
                observed.name,
                where,
                first_names(confined),
            )
    unseen = [name for name in cfg["classes"] or [] if name not in spread.index]
    if unseen:
        logger.warning("classes of '%s' that no sample has: %s", observed.name, first_names(unseen))
