"""Stripes of a distance matrix as Parquet files, by which jobs hand them over.

Columns: `behind` and `before`, lists of S float32 (`aam.distances.stripes`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aam.distances.store import ROW_GROUP, read_provenance
from aam.distances.stripes import Sides, Striped, stripes
from aam.util.atomic import atomic_path
from aam.util.errors import InputError, problem

COLUMNS = ("behind", "before")
STRIPES = "aam.stripes"
"""Key of the metadata: first stripe, the one after the last, number of samples, as JSON."""


def write_part(path: Path, striped: Striped, provenance: Mapping[str, str]) -> None:
    """Write at least one stripe, atomically and in blocks of rows.

    Parameters
    ----------
    path
        File to write.
    striped
        The stripes.
    provenance
        What made them, as `aam.util.provenance.provenance` returns it.
    """
    kind = pa.list_(pa.field("element", pa.float32(), nullable=False), striped.stop - striped.start)
    extent = json.dumps([striped.start, striped.stop, striped.samples])
    schema = pa.schema(
        [pa.field(name, kind, nullable=False) for name in COLUMNS],
        metadata=dict(sorted({**provenance, STRIPES: extent}.items())),
    )
    with (
        atomic_path(path) as partial,
        pq.ParquetWriter(partial, schema, compression="none", use_dictionary=False) as writer,
    ):
        for start in range(0, striped.samples, ROW_GROUP):
            sides = striped.sides(slice(start, start + ROW_GROUP))
            columns = [
                pa.FixedSizeListArray.from_arrays(pa.array(side_RS.ravel()), type=kind)
                for side_RS in sides
            ]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=ROW_GROUP)


class StripeFile:
    """Stripes in a file of `write_part`, of which a row group is read at a time."""

    def __init__(self, path: Path, file: pq.ParquetFile) -> None:
        self.path = path
        self.metadata = read_provenance(path)
        self.start, self.stop, self.samples = json.loads(self.metadata[STRIPES])
        self._file = file

    @property
    def engine(self) -> str:
        """Return the name of the engine that computed the distances."""
        return self.metadata["aam.engine"]

    def sides(self, rows: slice) -> Sides:
        """Return the distances of some samples."""
        first, last, _ = rows.indices(self.samples)
        groups = range(first // ROW_GROUP, -(-last // ROW_GROUP))
        table = self._file.read_row_groups(list(groups), columns=list(COLUMNS))
        inside = slice(first - groups.start * ROW_GROUP, last - groups.start * ROW_GROUP)
        behind_RS = _matrix(table, "behind")
        before_RS = _matrix(table, "before")
        return behind_RS[inside], before_RS[inside]


@contextmanager
def open_parts(paths: Sequence[Path]) -> Iterator[list[StripeFile]]:
    """Open files of stripes.

    Parameters
    ----------
    paths
        Files of `write_part`.

    Yields
    ------
    list of StripeFile
        One for each file, in the same order.
    """
    with ExitStack() as stack:
        yield [StripeFile(path, stack.enter_context(pq.ParquetFile(path))) for path in paths]


def check_whole(parts: Sequence[StripeFile], samples: int, inputs: str) -> None:
    """Check that files are, in order, the parts of one matrix.

    Parameters
    ----------
    parts
        The opened files.
    samples
        Number of samples of the table.
    inputs
        The provenance `aam.inputs` that all of them should have.

    Raises
    ------
    InputError
        A part is missing or double, or was made from another table or tree.
    """
    expected = 0
    for part in parts:
        if (part.start, part.samples) != (expected, samples):
            actual = f"stripes {part.start} to {part.stop} of {part.samples} samples"
            raise _unusable(part.path, actual, f"stripes from {expected} of {samples} samples")
        if part.metadata["aam.inputs"] != inputs:
            raise _unusable(part.path, "stripes of another table or tree", "those of this view")
        if part.engine != parts[0].engine:
            raise _unusable(part.path, f"stripes by {part.engine}", f"those by {parts[0].engine}")
        expected = part.stop
    if expected != stripes(samples):
        actual = f"stripes up to {expected} in the last file"
        raise _unusable(parts[-1].path, actual, f"stripes up to {stripes(samples)}")


def _matrix(table: pa.Table, column: str) -> NDArray[np.float32]:
    """Return a column of lists of the same length as a matrix, [R, S]."""
    values = table.column(column).combine_chunks().flatten().to_numpy()
    return values.reshape(table.num_rows, -1)


def _unusable(path: Path, actual: str, expected: str) -> InputError:
    return problem(path, actual, expected, "remove the file and start Snakemake again")
