"""Arrow IPC files of one record batch, mapped into memory when opened."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from aam.util.atomic import atomic_path


def write_batch(path: Path, columns: Mapping[str, pa.Array], provenance: Mapping[str, str]) -> None:
    """Write columns as an uncompressed Arrow IPC file of one record batch, atomically.

    Parameters
    ----------
    path
        File to write.
    columns
        Arrays of the same length without nulls, by name.
    provenance
        What made the file, for the metadata of the schema.
    """
    assert all(column.null_count == 0 for column in columns.values())
    schema = pa.schema(
        [pa.field(name, column.type, nullable=False) for name, column in columns.items()],
        metadata=dict(sorted(provenance.items())),
    )
    batch = pa.record_batch(list(columns.values()), schema=schema)
    with (
        atomic_path(path) as partial,
        pa.OSFile(str(partial), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(batch)


def map_batch(path: Path) -> pa.RecordBatch:
    """Map the one record batch of an Arrow IPC file into memory.

    Parameters
    ----------
    path
        A file of `write_batch`. The arrays of the batch keep it mapped.
    """
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    assert reader.num_record_batches == 1, f"{path} has {reader.num_record_batches} record batches"
    return reader.get_batch(0)
