"""The folds of a task."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd

from aam.config.settings.tasks import FoldsSettings
from aam.data.folds import CATEGORY, OBSERVED, TEST
from aam.data.metadata import metadata_column, read_metadata
from aam.data.splits import divide_labelled, fold_members
from aam.data.table import read_biom
from aam.util.atomic import write_tsv
from aam.util.notes import collect_notes, write_notes

logger = logging.getLogger(__name__)


def divide_into_folds(
    *,
    metadata: Path,
    table: Path,
    settings: FoldsSettings,
    folds_out: Path,
    members_out: Path,
    notes_out: Path,
) -> None:
    """Write fold, observed values, group and categories of every labelled sample.

    Parameters
    ----------
    metadata
        Parquet file of the imported metadata.
    table
        BIOM file of a rarefied table, whose samples are divided.
    settings
        What the task predicts, and how its samples are divided.
    folds_out
        TSV file to write. The group is the value of `groups` of the division, else of its
        `column`, else empty.
    members_out
        TSV file to write. Members of a fold are all samples of its groups or values, with a target
        or without.
    notes_out
        TSV file to write: what was decided for the user.

    Raises
    ------
    InputError
        The task cannot be learned from these samples.
    """
    sample_ids = read_biom(table).sample_ids
    imported = read_metadata(metadata)
    stored = imported.loc[sample_ids]
    with collect_notes() as notes:
        wanted, values, fold, groups = divide_labelled(stored, settings, before=imported)
    text = values.map(_exact_text) if settings.kind == "regression" else values
    columns = settings.columns
    frame = pd.DataFrame(
        {"fold": fold, "observed": text[columns[0]], "group": "" if groups is None else groups},
        index=values.index,
    )
    for column in columns if len(columns) > 1 else []:
        frame[OBSERVED + column] = text[column]
    for column in settings.categories:
        frame[CATEGORY + column] = metadata_column(wanted, column).loc[frame.index].fillna("")
    logger.info(
        "%d of %d samples: %d to test, the others in folds of %s",
        len(frame),
        len(sample_ids),
        (fold == TEST).sum(),
        np.bincount(fold[fold != TEST]).tolist(),
    )
    named = [column for column in (settings.folds.groups, settings.folds.column) if column]
    others = fold_members(stored, frame["fold"], named, settings.known).to_frame()
    write_tsv(folds_out, frame.rename_axis("sample-id"), index=True)
    write_tsv(members_out, others.rename_axis("sample-id"), index=True)
    write_notes(notes_out, notes)


def _exact_text(value: float) -> str:
    """Return a number as text that keeps every bit of it."""
    return repr(float(value))
