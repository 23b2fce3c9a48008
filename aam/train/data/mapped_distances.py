"""Distances that stay on the disk: converted once, then read in pieces.

Shape suffixes: N samples, P panels of W columns, R rows, C columns.
"""

import errno
import fcntl
import hashlib
import logging
import mmap
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aam.train.data.sampler import Blocks
from aam.unifrac.store import distance_rows
from aam.util.atomic import atomic_path
from aam.util.errors import first_names, problem
from aam.util.provenance import file_digest

logger = logging.getLogger(__name__)
ITEM_BYTES = 4
GB = 2**30
HELD_BYTES = 2**27
"""Bytes of a file that stay mapped: two pools of blocks."""
LOCK = "lock"


class MappedMatrix:
    """Distances [N, N] in a file of `convert`, of which only what is asked for is read.

    Without blocks the file holds row after row, and whole rows are read. With blocks rows and
    columns are in the order of their line, and the file holds panels of as many columns as a block
    has samples: the distances between two blocks lie together and are read together.

    Parameters
    ----------
    path
        The file.
    samples
        Number N of samples.
    blocks
        Those that the file was converted for.
    """

    def __init__(self, path: Path, samples: int, blocks: Blocks | None = None) -> None:
        self._made_of = path, samples, blocks
        self._place_N = None if blocks is None else blocks.place_N
        self._tile_rows = 1 if blocks is None else blocks.size
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._held: set[tuple[int, int]] = set()
        panels, width = _panels(samples, blocks)
        values = np.frombuffer(self._memory, np.float32)
        self._panels_PNW = values.reshape(panels, samples, width)

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return len(self._memory)

    def __reduce__(self) -> tuple[Any, ...]:
        """Open the file again in the process of a worker that was not forked."""
        return MappedMatrix, self._made_of

    def __getitem__(self, index: tuple[NDArray[np.integer], ...]) -> NDArray[np.float32]:
        """Return the distances [R, C] of some samples to others: an index made by `numpy.ix_`."""
        rows_R, columns_C = (part.ravel() for part in index)
        if self._place_N is not None:
            rows_R, columns_C = self._place_N[rows_R], self._place_N[columns_C]
        width = self._panels_PNW.shape[2]
        self._announce(np.unique(rows_R // self._tile_rows), np.unique(columns_C // width))
        if len(self._panels_PNW) == 1:
            return self._panels_PNW[0][np.ix_(rows_R, columns_C)]
        return self._panels_PNW[columns_C // width, rows_R[:, None], columns_C % width]

    def _announce(self, tiles: NDArray[np.integer], panels: NDArray[np.integer]) -> None:
        """Ask for all tiles at once: one page fault after the other is several times slower."""
        _, samples, width = self._panels_PNW.shape
        row_bytes = width * ITEM_BYTES
        wanted = set(product(panels.tolist(), tiles.tolist()))
        held = len(self._held | wanted) * self._tile_rows * row_bytes
        if held > HELD_BYTES:
            # They stay cached by the system, but mapped they would count as this process's memory.
            self._memory.madvise(mmap.MADV_DONTNEED)
            self._held.clear()
        for panel, tile in wanted - self._held:
            first = tile * self._tile_rows
            start = (panel * samples + first) * row_bytes
            page = start % mmap.PAGESIZE
            length = min(self._tile_rows, samples - first) * row_bytes + page
            self._memory.madvise(mmap.MADV_WILLNEED, start - page, length)
        self._held |= wanted


def map_matrices(
    folder: Path, sources: Mapping[str, Path], sample_ids: Sequence[str], blocks: Blocks | None
) -> dict[str, MappedMatrix]:
    """Convert files of distances, unless that was done before, and map them.

    Processes that ask for the same at the same time wait for the one that converts. What else lies
    in the folder is deleted: files of other inputs, and those of a conversion that was killed.

    Parameters
    ----------
    folder
        Where the converted files lie, and nothing else.
    sources
        Parquet files of `aam.unifrac.store.write_distances`, by name.
    sample_ids
        The N samples that the files must hold, in their order.
    blocks
        Those that batches are drawn from; None: batches of any samples.

    Raises
    ------
    InputError
        When the folder's disk has too little room.
    """
    digests = {name: _digest(path, blocks) for name, path in sources.items()}
    targets = {name: folder / f"{name}-{digest[:16]}.f32" for name, digest in digests.items()}
    with _alone(folder):
        keep = {LOCK, *(target.name for target in targets.values())}
        for other in folder.iterdir():
            if other.name not in keep:
                # Over NFS a file that another process has mapped cannot go yet.
                with suppress(OSError):
                    other.unlink()
        missing = [name for name in targets if not targets[name].exists()]
        _assert_room(folder, len(missing), len(sample_ids), blocks)
        for name in missing:
            logger.info("converting %s to %s", sources[name], targets[name])
            convert(sources[name], targets[name], sample_ids, blocks)
    return {name: MappedMatrix(path, len(sample_ids), blocks) for name, path in targets.items()}


def convert(source: Path, target: Path, sample_ids: Sequence[str], blocks: Blocks | None) -> None:
    """Write the distances of a Parquet file as plain float32, atomically.

    Memory holds a row group at a time, then a panel. The file is written from front to back twice
    at most: rows arrive in the order of the samples, and within a panel are reordered later.
    """
    samples = len(sample_ids)
    panels, width = _panels(samples, blocks)
    line_N = None if blocks is None else blocks.line_N
    panel_bytes = samples * width * ITEM_BYTES
    with atomic_path(target) as partial, partial.open("wb+") as file:
        for first, rows_RN in checked_rows(source, sample_ids):
            line_RN = rows_RN if line_N is None else rows_RN[:, line_N]
            for panel in range(panels):
                part_RC = line_RN[:, panel * width : (panel + 1) * width]
                padding = ((0, 0), (0, width - part_RC.shape[1]))
                file.seek(panel * panel_bytes + first * width * ITEM_BYTES)
                file.write(np.ascontiguousarray(np.pad(part_RC, padding)).data)
        if line_N is None:
            return
        panel_NW = np.empty((samples, width), np.float32)
        for start in range(0, panels * panel_bytes, panel_bytes):
            file.seek(start)
            file.readinto(panel_NW.data)
            file.seek(start)
            file.write(panel_NW[line_N].data)


def checked_rows(
    source: Path, sample_ids: Sequence[str]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield groups of rows of a Parquet file, each with the number of its first row."""
    first, other = 0, f"{source} holds other samples than the store"
    for names, rows_RN in distance_rows(source):
        assert names == list(sample_ids[first : first + len(names)]), other
        assert rows_RN.shape[1] == len(sample_ids), other
        _assert_finite(rows_RN, first, source, sample_ids)
        yield first, rows_RN
        first += len(names)


def _assert_finite(
    rows_RN: NDArray[np.float32], first: int, path: Path, ids: Sequence[str]
) -> None:
    """Stop where distances are not finite, in rows of which `first` is the number of the first."""
    bad_R = ~np.isfinite(rows_RN).all(axis=1)
    if bad_R.any():
        samples = [ids[first + row] for row in np.flatnonzero(bad_R).tolist()]
        raise problem(
            path,
            f"distances that are not finite, of samples {first_names(samples)}",
            "numbers of 0 or more",
            "delete the file and run again: the unifrac stage writes none such",
        )


def _panels(samples: int, blocks: Blocks | None) -> tuple[int, int]:
    """Return the number and the width of the panels of a file."""
    width = samples if blocks is None else blocks.size
    return -(-samples // width), width


def _digest(source: Path, blocks: Blocks | None) -> str:
    """Return what the bytes of a converted file depend on."""
    digest = hashlib.sha256(file_digest(source).encode())
    if blocks is not None:
        digest.update(f"{blocks.size}".encode() + blocks.line_N.tobytes())
    return digest.hexdigest()


def _assert_room(folder: Path, files: int, samples: int, blocks: Blocks | None) -> None:
    panels, width = _panels(samples, blocks)
    needed, free = files * panels * samples * width * ITEM_BYTES, shutil.disk_usage(folder).free
    if needed > free:
        raise problem(
            folder,
            f"{free / GB:.3g} GB free",
            f"{needed / GB:.3g} GB, for distances that do not fit into the memory",
            "make room on that disk, or allow more memory: runtime.max_memory_gb where it is set, "
            "else the memory of the job",
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process in at a time, of all that share the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            logger.warning("%s: no file locks here, let no two runs begin at a time", folder)
        yield
    finally:
        os.close(lock)
