"""The metadata file (Parquet) that stages exchange."""

import difflib
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from aam.util.atomic import atomic_path
from aam.util.errors import first_names, problem

TYPES_ATTRIBUTE = "q2:types"
"""Key of the QIIME 2 types by column, where known, in `DataFrame.attrs`."""
TYPE_FIELD = b"q2:type"
"""Key of a column's QIIME 2 type in its field metadata."""


def write_metadata(path: Path, frame: pd.DataFrame, provenance: Mapping[str, str]) -> None:
    """Write sample metadata as Parquet, atomically.

    Parameters
    ----------
    path
        File to write.
    frame
        Strings by sample ID, None or NaN where missing. `attrs["q2:types"]` has the QIIME 2 type of
        columns, where it is known.
    provenance
        What made the file, as `aam.util.digests.provenance` returns it.
    """
    types = frame.attrs.get(TYPES_ATTRIBUTE, {})
    arrays = [pa.array(frame.index, type=pa.string())]
    fields = [pa.field("sample_id", pa.string(), nullable=False)]
    for column in frame.columns:
        arrays.append(pa.array(frame[column], type=pa.string(), from_pandas=True))
        metadata = {TYPE_FIELD: types[column].encode()} if column in types else None
        fields.append(pa.field(column, pa.string(), metadata=metadata))
    schema = pa.schema(fields, metadata=dict(provenance))
    with atomic_path(path) as partial:
        pq.write_table(pa.table(arrays, schema=schema), partial, compression="zstd")


def read_metadata(path: Path) -> pd.DataFrame:
    """Read what `write_metadata` wrote.

    Parameters
    ----------
    path
        File of the stage that imports metadata.

    Returns
    -------
    pandas.DataFrame
        Strings by sample ID, NaN where missing. `attrs["q2:types"]` has the QIIME 2 types.
    """
    frame = pd.read_parquet(path).set_index("sample_id")
    fields = pq.read_schema(path)
    given = {field.name: (field.metadata or {}).get(TYPE_FIELD) for field in fields}
    frame.attrs[TYPES_ATTRIBUTE] = {
        name: kind.decode() for name, kind in given.items() if kind is not None
    }
    return frame


def declared_type(values: pd.Series) -> str | None:
    """Return the type that `#q2:types` gives a column: numeric, categorical or None.

    Parameters
    ----------
    values
        A column of metadata as `read_metadata` or `load_metadata` returns them, or of some of its
        rows.
    """
    declared = values.attrs.get(TYPES_ATTRIBUTE, {}).get(values.name)
    return None if declared is None else str(declared)


def metadata_column(metadata: pd.DataFrame, column: str) -> pd.Series:
    """Return a column of the metadata.

    Parameters
    ----------
    metadata
        Values by sample ID.
    column
        Name that the configuration gives.

    Raises
    ------
    InputError
        There is no such column; the message has the names that come close.
    """
    # The import of metadata writes one form of each letter, too.
    column = unicodedata.normalize("NFC", column)
    if column in metadata.columns:
        return metadata[column]
    names = [str(name) for name in metadata.columns]
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(column.casefold(), list(folded), n=3)
    hint = "correct the name in the configuration, or add the column to the metadata"
    if close:
        hint = f"did you mean {' or '.join(repr(folded[name]) for name in close)}?"
    expected = f"one of the metadata's columns, {first_names(names, limit=20)}"
    raise problem(f"metadata column '{column}'", "no such column", expected, hint)
