"""Stripes of a distance matrix: stripe k holds sample i's distance to sample i + k + 1.

Samples are counted modulo N, so N // 2 stripes hold every pair. McDonald et al. 2018,
doi:10.1038/s41592-018-0187-8. Shape suffixes: N samples, R of them, S stripes.
"""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aam.util.errors import problem

_MAGIC = 0x088ABA02
_CODEC = pa.Codec("lz4_raw")
Sides = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Distances [R, S] of samples to those behind them, and to those before them.

Column k of stripes that begin with s belongs to the sample that is s + k + 1 further.
"""


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
        assert (whole.start, whole.stop) == (0, stripes(whole.samples))
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


def stripes(samples: int) -> int:
    """Return the number of stripes that hold all pairs.

    Parameters
    ----------
    samples
        Number of samples.
    """
    return samples // 2


def steps(start: int, stop: int, stripe_bytes: int, memory_bytes: int) -> list[tuple[int, int]]:
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
    return ranges(start, stop, ceil((stop - start) / at_once))


def ranges(start: int, stop: int, parts: int) -> list[tuple[int, int]]:
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
    if parts > stripes(samples):
        raise problem(
            "unifrac.partitions",
            f"{parts} for {samples} samples",
            f"at most half of the samples, {stripes(samples)}",
            "set it to auto",
        )
    return ranges(0, stripes(samples), parts)[part]


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
