"""Stripes of a distance matrix: stripe k holds sample i's distance to sample i + k + 1.

Samples are counted modulo N, so N // 2 stripes hold every pair. McDonald et al. 2018,
doi:10.1038/s41592-018-0187-8. Jobs hand stripes over as Parquet files with the columns `behind` and
`before`, lists of S float32. Shape suffixes: N samples, R of them, S stripes.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import ceil
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aam.distances.store import ROW_GROUP, read_provenance
from aam.util.atomic import atomic_path
from aam.util.errors import InputError, problem

logger = logging.getLogger(__name__)
_MAGIC = 0x088ABA02
_CODEC = pa.Codec("lz4_raw")
Sides = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Distances [R, S] of samples to those behind them, and to those before them.

Column k of stripes that begin with s belongs to the sample that is s + k + 1 further.
"""
_SIDES = ("behind", "before")
_EXTENT = "aam.stripes"
"""Key of the metadata: first stripe, the one after the last, number of samples, as JSON."""


class Striped(Protocol):
    """The stripes from `start` up to `stop` of N `samples`, wherever they lie."""

    start: int
    stop: int
    samples: int

    def sides(self, rows: slice) -> Sides:
        """Return the distances of some samples to those behind them, and to those before them.

        Parameters
        ----------
        rows
            Which samples.
        """


class Stripes:
    """Stripes in memory, 4 bytes per distance."""

    def __init__(self, start: int, stop: int, samples: int) -> None:
        self.start = start
        self.stop = stop
        self.samples = samples
        self._behind_SN = np.empty((stop - start, samples), dtype=np.float32)

    def put(self, stripe: int, distance_N: NDArray[np.floating]) -> None:
        """Take over one stripe.

        Parameters
        ----------
        stripe
            Its number.
        distance_N
            Distance of each sample i to sample i + stripe + 1.
        """
        self._behind_SN[stripe - self.start] = distance_N

    def put_rows(self, first: int, distance_RC: NDArray[np.floating]) -> None:
        """Take over the stripes of some samples, from the sample `first` on.

        Parameters
        ----------
        first
            Number of the sample of the first row.
        distance_RC
            Distances to the samples from `first + start + 1` on, modulo N; there are as many
            columns as the last row needs, so row r begins with r distances that are not used.
        """
        rows = slice(first, first + len(distance_RC))
        # One step behind in the row is one step further in the column: a stripe is a diagonal of
        # the block.
        for row, distance_N in enumerate(self._behind_SN):
            distance_N[rows] = distance_RC.diagonal(row)

    def sides(self, rows: slice) -> Sides:
        """Return the distances of some samples: see `Striped.sides`."""
        stripe_S = np.arange(self.stop - self.start)[:, None]
        number_R = np.arange(*rows.indices(self.samples))
        # A negative number counts from the end, just as samples are counted modulo N.
        earlier_SR = number_R - (self.start + 1 + stripe_S)
        return self._behind_SN[:, rows].T, self._behind_SN[stripe_S, earlier_SR].T


class Joined:
    """Stripes in several parts, the parts in order."""

    def __init__(self, parts: Sequence[Striped]) -> None:
        assert all(a.stop == b.start for a, b in zip(parts, parts[1:], strict=False))
        self.parts = parts
        self.start = parts[0].start
        self.stop = parts[-1].stop
        self.samples = parts[0].samples

    def sides(self, rows: slice) -> Sides:
        """Return the distances of some samples: see `Striped.sides`."""
        behind, before = zip(*(part.sides(rows) for part in self.parts), strict=True)
        return np.hstack(behind), np.hstack(before)


class StripeMatrix:
    """A matrix of which no more rows are in memory than are asked for."""

    def __init__(self, whole: Striped) -> None:
        assert (whole.start, whole.stop) == (0, count_stripes(whole.samples))
        self.whole = whole
        self.shape: tuple[int, ...] = (whole.samples, whole.samples)

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        samples = self.shape[0]
        behind_RS, before_RS = self.whole.sides(rows)
        # Around the circle, from the sample behind a row to the one before it. With an even N the
        # last stripe holds its pairs twice, so that one column of the other side is left out.
        farthest_first_RS = before_RS[:, : samples - 1 - behind_RS.shape[1]][:, ::-1]
        around_RN = np.hstack([behind_RS, farthest_first_RS])
        block_RN = np.zeros((len(around_RN), samples), dtype=np.float32)
        for block_N, others_N, row in zip(
            block_RN, around_RN, range(*rows.indices(samples)), strict=True
        ):
            # After the last sample the circle goes on with the first one.
            samples_behind = samples - 1 - row
            block_N[row + 1 :] = others_N[:samples_behind]
            block_N[:row] = others_N[samples_behind:]
        return block_RN


def count_stripes(samples: int) -> int:
    """Return the number of stripes that hold all pairs.

    Parameters
    ----------
    samples
        Number of samples.
    """
    return samples // 2


def divide_stripes(
    start: int, stop: int, stripe_bytes: int, memory_bytes: int
) -> list[tuple[int, int]]:
    """Divide stripes into ranges that stay within the memory, or hold one stripe each.

    Parameters
    ----------
    start, stop
        The first stripe, and the one after the last.
    stripe_bytes
        Memory that one stripe takes.
    memory_bytes
        Memory that a range may take.

    Returns
    -------
    list of tuple
        First stripe and the one after the last, of each range.
    """
    at_once = max(1, memory_bytes // stripe_bytes)
    return divide_range(start, stop, ceil((stop - start) / at_once))


def divide_range(start: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """Divide a range into parts whose lengths differ by at most 1."""
    edges = [start + (stop - start) * part // parts for part in range(parts)] + [stop]
    return list(zip(edges[:-1], edges[1:], strict=True))


def job_stripes(part: int, parts: int, samples: int) -> tuple[int, int]:
    """Return the stripes that a job computes, the first and the one after the last.

    Parameters
    ----------
    part
        Number of the job, from 0.
    parts
        Number of jobs.
    samples
        Number of samples.

    Raises
    ------
    InputError
        There are more jobs than stripes.
    """
    if parts > count_stripes(samples):
        raise problem(
            "unifrac.partitions",
            f"{parts} for {samples} samples",
            f"at most half of the samples, {count_stripes(samples)}",
            "set it to auto",
        )
    return divide_range(0, count_stripes(samples), parts)[part]


def read_partial(path: Path, labels: Sequence[str]) -> Stripes:
    """Read what `ssu --mode partial` wrote.

    The file is a header of eight 32-bit numbers (a magic number, N, S, the first stripe, the
    number of all stripes, a flag, the bytes of the labels before and after compression), the
    labels, each ended by a zero, and per stripe its compressed size and N float64; all of it
    compressed as LZ4 blocks. The magic number ends it. See `api.cpp` of biocore/unifrac-binaries.

    Parameters
    ----------
    path
        The file.
    labels
        Labels of the samples, in the order that the file should have.

    Raises
    ------
    RuntimeError
        The file is incomplete, or of other samples.
    """
    try:
        with path.open("rb") as file:
            magic, samples, count, start, _, _, size, compressed = _numbers(file, 8)
            if magic != _MAGIC:
                raise ValueError("it does not begin as one")
            names = _unpacked(file, compressed, size).decode().split("\0")[:-1]
            if names != list(labels):
                raise ValueError("it holds other samples")
            result = Stripes(start, start + count, samples)
            for stripe in range(start, start + count):
                content = _unpacked(file, _numbers(file, 1)[0], 8 * samples)
                result.put(stripe, np.frombuffer(content, dtype="<f8"))
            if _numbers(file, 1) != [_MAGIC]:
                raise ValueError("it does not end as one")
    except (ValueError, OSError) as error:
        raise RuntimeError(f"{path}: ssu left no complete file of stripes: {error}") from error
    return result


def _numbers(file: BinaryIO, count: int) -> list[int]:
    return np.frombuffer(_read(file, 4 * count), dtype="<u4").tolist()


def _unpacked(file: BinaryIO, compressed: int, size: int) -> bytes:
    return _CODEC.decompress(_read(file, compressed), size, asbytes=True)


def _read(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) != size:
        raise ValueError("it is too short")
    return content


def write_part(path: Path, striped: Striped, provenance: Mapping[str, str]) -> None:
    """Write at least one stripe, atomically and in blocks of rows.

    Parameters
    ----------
    path
        File to write.
    striped
        The stripes.
    provenance
        What made them, as `aam.util.digests.provenance` returns it.
    """
    kind = pa.list_(pa.field("element", pa.float32(), nullable=False), striped.stop - striped.start)
    extent = json.dumps([striped.start, striped.stop, striped.samples])
    schema = pa.schema(
        [pa.field(name, kind, nullable=False) for name in _SIDES],
        metadata=dict(sorted({**provenance, _EXTENT: extent}.items())),
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
        self.start, self.stop, self.samples = json.loads(self.metadata[_EXTENT])
        self._file = file

    @property
    def engine(self) -> str:
        """Return the name of the engine that computed the distances."""
        return self.metadata["aam.engine"]

    def sides(self, rows: slice) -> Sides:
        """Return the distances of some samples."""
        first, last, _ = rows.indices(self.samples)
        groups = range(first // ROW_GROUP, -(-last // ROW_GROUP))
        table = self._file.read_row_groups(list(groups), columns=list(_SIDES))
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
    if expected != count_stripes(samples):
        actual = f"stripes up to {expected} in the last file"
        raise _unusable(parts[-1].path, actual, f"stripes up to {count_stripes(samples)}")


def _matrix(table: pa.Table, column: str) -> NDArray[np.float32]:
    """Return a column of lists of the same length as a matrix, [R, S]."""
    values = table.column(column).combine_chunks().flatten().to_numpy()
    return values.reshape(table.num_rows, -1)


def _unusable(path: Path, actual: str, expected: str) -> InputError:
    return problem(path, actual, expected, "remove the file and start Snakemake again")


@contextmanager
def compute_in_steps(
    ranges: Sequence[tuple[int, int]], compute: Callable[[int, int], Stripes], folder: Path
) -> Iterator[Striped]:
    """Compute stripes range by range.

    Parameters
    ----------
    ranges
        First stripe of a step, and the one after its last; one range behind the other.
    compute
        What returns the stripes of a range.
    folder
        Temporary folder that takes the stripes of all steps, where there are several.

    Yields
    ------
    Striped
        The stripes of all ranges: in memory if there is one range, else in files.
    """
    if len(ranges) == 1:
        yield compute(*ranges[0])
        return
    paths = []
    for number, (start, stop) in enumerate(ranges):
        paths.append(folder / f"{number}.parquet")
        write_part(paths[-1], compute(start, stop), {})
        logger.info("%d of %d steps", number + 1, len(ranges))
    with open_parts(paths) as opened:
        yield Joined(opened)
