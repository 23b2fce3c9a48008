"""Import the sample metadata."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from aam.data.importing.metadata import metadata_of
from aam.data.metadata import write_metadata
from aam.data.table import read_biom
from aam.util.notes import Note, collect_notes, write_notes


def import_metadata(
    *,
    table: Path,
    metadata: Path | None = None,
    metadata_out: Path,
    notes_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Check the metadata, and write one row per sample of the table.

    Parameters
    ----------
    table
        BIOM file of an imported table, whose samples are wanted. Those that the metadata lack get
        empty rows.
    metadata
        The user's TSV file. None: there are no metadata, and the rows are empty.
    metadata_out
        Parquet file to write.
    notes_out
        TSV file to write: what was decided for the user.
    provenance
        Metadata of the file that is written (`aam.util.digests`).

    Raises
    ------
    InputError
        The file cannot be read, or has none of the samples of the table.
    """
    sample_ids = read_biom(table).sample_ids
    rows = pd.DataFrame(index=sample_ids)
    notes: list[Note] = []
    if metadata is not None:
        with collect_notes() as notes:
            rows = metadata_of(metadata, sample_ids)
    write_metadata(metadata_out, rows, provenance)
    write_notes(notes_out, notes)
