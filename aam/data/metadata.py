"""The metadata file (Parquet) that stages exchange."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from aam.util.atomic import atomic_path

TYPE_FIELD = b"q2:type"
"""Key of a column's QIIME 2 type in its field metadata."""


def write_metadata(
    path: Path, frame: pd.DataFrame, types: Mapping[str, str], provenance: Mapping[str, str]
) -> None:
    """Write sample metadata as Parquet, atomically; the same content gives the same bytes.

    Parameters
    ----------
    path
        The file to write.
    frame
        Index: sample IDs; columns of strings and missing values.
    types
        QIIME 2 type by column name, where known.
    provenance
        What `aam.util.provenance.provenance` returned.
    """
    arrays = [pa.array(frame.index, type=pa.string())]
    fields = [pa.field("sample_id", pa.string(), nullable=False)]
    for column in frame.columns:
        arrays.append(pa.array(frame[column], type=pa.string(), from_pandas=True))
        known = {TYPE_FIELD: types[column].encode()} if column in types else None
        fields.append(pa.field(column, pa.string(), metadata=known))
    schema = pa.schema(fields, metadata=dict(provenance))
    with atomic_path(path) as partial:
        pq.write_table(pa.table(arrays, schema=schema), partial, compression="zstd")


def read_metadata(path: Path) -> pd.DataFrame:
    """Read what `write_metadata` wrote.

    Returns
    -------
    pandas.DataFrame
        Index: sample IDs; every column holds strings, None where missing; `attrs["q2:types"]`:
        type by column, where known.
    """
    table = pq.read_table(path)
    names = table.column_names[1:]
    frame = pd.DataFrame(
        {name: pd.Series(table[name].to_pylist(), dtype=object) for name in names},
        columns=pd.Index(names, dtype=object),
    )
    frame.index = pd.Index(table["sample_id"].to_pylist(), dtype=object)
    frame.attrs["q2:types"] = {
        name: metadata[TYPE_FIELD].decode()
        for name in names
        if TYPE_FIELD in (metadata := table.schema.field(name).metadata or {})
    }
    return frame
