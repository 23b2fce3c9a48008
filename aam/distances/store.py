"""Distance matrices and Faith's PD as Parquet: written and read block by block, or read whole."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aam.util.atomic import atomic_path

ROW_GROUP = 256
"""Rows that are held in memory at a time, and rows of a row group of the file."""


class Rows(Protocol):
    """What a matrix offers to be written: an array, or rows made on demand."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the lengths of the axes."""

    def __getitem__(self, rows: slice, /) -> NDArray[np.floating]:
        """Return some rows."""


Values = Rows | NDArray[np.float64]
"""A matrix of distances [N, N], or a value of each sample [N]."""


def write_distances(
    path: Path, sample_ids: Sequence[str], matrix: Rows, provenance: Mapping[str, str]
) -> None:
    """Write a matrix of distances as Parquet, atomically and in blocks of rows.

    Parameters
    ----------
    path
        File to write.
    sample_ids
        IDs of the N samples.
    matrix
        Distances [N, N]; they are written as lists of N float32.
    provenance
        What made them, as `aam.util.digests.provenance` returns it.
    """
    samples = len(sample_ids)
    assert matrix.shape == (samples, samples)
    distances = pa.list_(pa.field("element", pa.float32(), nullable=False), samples)
    schema = _schema({"sample_id": pa.string(), "distances": distances}, provenance)
    with (
        atomic_path(path) as partial,
        pq.ParquetWriter(
            partial,
            schema,
            compression="zstd",
            use_dictionary=False,
            # This encoding puts the first bytes of all floats next to each other, then the second
            # ones: they are alike, and zstd makes far less of them.
            column_encoding={"sample_id": "PLAIN", "distances.list.element": "BYTE_STREAM_SPLIT"},
        ) as writer,
    ):
        for start in range(0, samples, ROW_GROUP):
            block = np.asarray(matrix[start : start + ROW_GROUP], dtype=np.float32)
            _assert_distances(block, start)
            columns = [
                pa.array(sample_ids[start : start + ROW_GROUP], pa.string()),
                pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), type=distances),
            ]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=ROW_GROUP)


def read_ids(path: Path) -> list[str]:
    """Return the sample IDs of a file of this module, in the order of rows and columns.

    Parameters
    ----------
    path
        A file of `write_distances` or `write_faith_pd`.
    """
    return pq.read_table(path, columns=["sample_id"]).column("sample_id").to_pylist()


def distance_rows(path: Path) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
    """Yield the rows of a matrix of distances, a row group at a time.

    Parameters
    ----------
    path
        A file of `write_distances`.

    Yields
    ------
    sample_ids : list of str
        IDs of R samples.
    rows : numpy.ndarray
        Their distances to all samples, float32 [R, N].
    """
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            values = table.column("distances").combine_chunks().flatten().to_numpy()
            yield table.column("sample_id").to_pylist(), values.reshape(table.num_rows, -1)


def write_faith_pd(
    path: Path, sample_ids: Sequence[str], values: Values, provenance: Mapping[str, str]
) -> None:
    """Write Faith's phylogenetic diversity as Parquet, atomically.

    Parameters
    ----------
    path
        File to write.
    sample_ids
        IDs of the N samples.
    values
        [N] in units of branch length.
    provenance
        What made them, as `aam.util.digests.provenance` returns it.
    """
    assert values.shape == (len(sample_ids),)
    assert np.isfinite(values[:]).all()
    schema = _schema({"sample_id": pa.string(), "faith_pd": pa.float64()}, provenance)
    table = pa.table([pa.array(sample_ids, pa.string()), pa.array(values[:])], schema=schema)
    with atomic_path(path) as partial:
        pq.write_table(table, partial, compression="zstd")


def read_faith_pd(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Read Faith's phylogenetic diversity.

    Parameters
    ----------
    path
        A file of `write_faith_pd`.

    Returns
    -------
    sample_ids : list of str
        In the order of the file.
    values : numpy.ndarray
        float64 [N] in units of branch length.
    """
    table = pq.read_table(path)
    return table.column("sample_id").to_pylist(), table.column("faith_pd").to_numpy()


def read_provenance(path: Path) -> dict[str, str]:
    """Return the provenance that a file carries.

    Parameters
    ----------
    path
        A Parquet file of this package.
    """
    metadata = pq.read_schema(path).metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def _schema(types: Mapping[str, pa.DataType], provenance: Mapping[str, str]) -> pa.Schema:
    fields = [pa.field(name, kind, nullable=False) for name, kind in types.items()]
    return pa.schema(fields, metadata=dict(sorted(provenance.items())))


def _assert_distances(block: NDArray[np.float32], start: int) -> None:
    assert np.isfinite(block).all(), "a distance is not a number"
    assert (block >= 0).all(), "a distance is negative"
    assert not np.diagonal(block, offset=start).any(), "a sample is not at distance 0 of itself"
