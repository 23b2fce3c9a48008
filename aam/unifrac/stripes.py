"""Stripes of a distance matrix, and the matrix that is read from them in blocks of rows.

Shape suffixes: N samples, R of them, S stripes. See `aam.unifrac.partitions` for what a stripe is.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aam.unifrac.partitions import stripes

_MAGIC = 0x088ABA02
_CODEC = pa.Codec("lz4_raw")
Sides = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Distances [R, S] of samples to those behind them, and to those before them.

Column k of stripes that begin with s belongs to the sample that is s + k + 1 further.
"""


class Striped(Protocol):
    """Some stripes, wherever they lie."""

    @property
    def samples(self) -> int:
        """Return N."""

    @property
    def start(self) -> int:
        """Return the first stripe."""

    @property
    def stop(self) -> int:
        """Return the stripe after the last."""

    def sides(self, rows: slice) -> Sides:
        """Return the distances of some samples."""


class Stripes:
    """Stripes in memory, 8 bytes per distance."""

    def __init__(self, start: int, stop: int, samples: int) -> None:
        self.start = start
        self.stop = stop
        self.samples = samples
        self._behind_SN = np.empty((stop - start, samples), dtype=np.float32)
        self._before_SN = np.empty_like(self._behind_SN)

    def put(self, stripe: int, distance_N: NDArray[np.floating]) -> None:
        """Take over one stripe."""
        row = stripe - self.start
        self._behind_SN[row] = distance_N
        self._before_SN[row] = np.roll(self._behind_SN[row], stripe + 1)

    def sides(self, rows: slice) -> Sides:
        """Return the distances of some samples."""
        return self._behind_SN[:, rows].T, self._before_SN[:, rows].T


class Joined:
    """Stripes in several pieces, the pieces in order."""

    def __init__(self, pieces: Sequence[Striped]) -> None:
        assert all(a.stop == b.start for a, b in zip(pieces, pieces[1:], strict=False))
        self.pieces = pieces
        self.samples = pieces[0].samples
        self.start = pieces[0].start
        self.stop = pieces[-1].stop

    def sides(self, rows: slice) -> Sides:
        """Return the distances of some samples."""
        behind, before = zip(*(piece.sides(rows) for piece in self.pieces), strict=True)
        return np.hstack(behind), np.hstack(before)


class Matrix:
    """A matrix of which no more rows are in memory than are asked for."""

    def __init__(self, whole: Striped) -> None:
        assert (whole.start, whole.stop) == (0, stripes(whole.samples))
        self.whole = whole
        self.shape: tuple[int, ...] = (whole.samples, whole.samples)

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        samples = self.shape[0]
        numbers = range(*rows.indices(samples))
        behind_RS, before_RS = self.whole.sides(rows)
        # With an even N, the last stripe holds its pairs twice.
        farthest_first_RS = before_RS[:, : samples - 1 - behind_RS.shape[1]][:, ::-1]
        around_RN = np.hstack([behind_RS, farthest_first_RS])
        block_RN = np.zeros((len(numbers), samples), dtype=np.float32)
        for block_N, others_N, own in zip(block_RN, around_RN, numbers, strict=True):
            block_N[own + 1 :] = others_N[: samples - 1 - own]
            block_N[:own] = others_N[samples - 1 - own :]
        return block_RN


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
        The N samples, in the order that they must have.

    Raises
    ------
    RuntimeError
        If the file is not complete, or holds other samples.
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
