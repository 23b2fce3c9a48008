"""The folds of a task."""

import logging

import numpy as np
import pandas as pd

from aam.data.folds import CATEGORY, OBSERVED, TEST
from aam.data.metadata import metadata_column, read_metadata
from aam.data.splits import labelled, members
from aam.data.table import read_biom
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_tsv

logger = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write fold, observed values, group and categories of every labelled sample.

    The group is the value of `folds.groups`, else of `folds.column`, else empty. Members of a fold
    are all samples of its groups or values, with a target or without.
    """
    sample_ids = read_biom(inputs["table"]).sample_ids
    stored = read_metadata(inputs["metadata"]).loc[sample_ids]
    metadata, values, folds, groups = labelled(stored, cfg)
    columns = cfg["columns"]
    # repr keeps every bit of a number; classes are text as they are.
    text = values.map(lambda value: repr(float(value))) if cfg["kind"] == "regression" else values
    frame = pd.DataFrame(
        {"fold": folds, "observed": text[columns[0]], "group": "" if groups is None else groups},
        index=values.index,
    )
    for column in columns if len(columns) > 1 else []:
        frame[OBSERVED + column] = text[column]
    for column in cfg["categories"]:
        frame[CATEGORY + column] = metadata_column(metadata, column).loc[frame.index].fillna("")
    logger.info(
        "%d of %d samples: %d to test, the others in folds of %s",
        len(frame), len(sample_ids), (folds == TEST).sum(),
        np.bincount(folds[folds != TEST]).tolist(),
    )  # fmt: skip
    named = [cfg["folds"][key] for key in ("groups", "column") if cfg["folds"][key]]
    others = members(stored, frame["fold"], named).to_frame()
    for name, table in (("folds", frame), ("members", others)):
        write_tsv(outputs[name], table.rename_axis("sample-id"), index=True)
