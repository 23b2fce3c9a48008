"""Parquet files that are complete or absent, and say what made them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from aam.util.atomic import atomic_path

if TYPE_CHECKING:
    import pandas as pd


def write_table(
    path: Path,
    columns: "Mapping[str, Any] | pd.DataFrame",
    provenance: Mapping[str, str],
    schema: pa.Schema | None = None,
) -> None:
    """Write columns to Parquet atomically, with the provenance in the schema's metadata.

    Parameters
    ----------
    path
        File to write.
    columns
        Values by name, or a table of pandas.
    provenance
        What made the file, as `aam.util.digests.provenance` returns it.
    schema
        Types of the columns; None: as the values have them.
    """
    values = {str(name): column for name, column in columns.items()}
    table = pa.table(values, schema=schema).replace_schema_metadata(dict(provenance))
    with atomic_path(path) as partial:
        pq.write_table(table, partial, compression="zstd")
