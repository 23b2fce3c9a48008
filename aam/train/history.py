"""What training leaves behind for people and figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from aam.util.parquet import write_table

HISTORY = pa.schema(
    [
        ("step", pa.int64()),
        ("epoch", pa.float64()),
        ("split", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
    ]
)


def write_history(
    path: Path,
    history: Sequence[Mapping[str, Any]],
    provenance: Mapping[str, str],
    extra: Sequence[tuple[str, pa.DataType]] = (),
) -> None:
    """Write the records of a run to a Parquet file.

    Parameters
    ----------
    path
        File to write.
    history
        Records with the fields of `HISTORY` and of `extra`.
    provenance
        Facts that are written to the file's metadata.
    extra
        Names and types of columns in addition to those of `HISTORY`. They come first.
    """
    schema = pa.schema([*extra, *HISTORY])
    columns = {name: [record[name] for record in history] for name in schema.names}
    write_table(path, columns, provenance, schema)
