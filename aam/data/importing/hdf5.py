"""IDs and counts of BIOM 2.1 (http://biom-format.org), read by a process of its own.

A damaged file can crash the HDF5 library, or keep it busy for ever. This module is also that
process's program. biom-format is not used: it checks no positions, and is slow with lineages.
"""

import io
import json
import os
import resource
import subprocess
import sys
from typing import Any

import h5py
import numpy as np

MOST_INFLATED = 1100
"""Bytes that one stored byte becomes at most: gzip reaches 1032."""
LEAST_S = 60
"""Seconds that the program may take for any file."""
BYTES_PER_S = 1_000_000
"""Bytes of a file that allow it one second more."""
LEAST_BYTES = 4 << 30
"""Memory that it may take for any file."""
BYTES_PER_BYTE = 100
"""Memory that each byte of a file allows it in addition."""
MATRIX = ("data", "indices", "indptr")
"""Arrays of a sparse matrix, by their names in the file."""
TAXONOMY = "observation/metadata/taxonomy"
"""Where biom-format puts the lineages of the features."""
# With -P this file's own folder is not searched for modules, where `tree.py` and others would hide
# installed packages of such names.
COMMAND = [sys.executable, "-P", __file__]


def read_hdf5(content: bytes) -> dict[str, Any]:
    """Return the IDs and the counts of a BIOM 2.1 file.

    Parameters
    ----------
    content
        The bytes of the file.

    Returns
    -------
    dict
        `samples` and `features`, `lineages` of the features, which are none where the file has no
        taxonomy, and the arrays `data`, `indices` and `indptr` of a sparse matrix with samples in
        rows.

    Raises
    ------
    ValueError
        What is wrong with the file, which may have taken too much time or memory.
    """
    # Threads reserve memory, of which the program has little.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    allowed_s = LEAST_S + len(content) / BYTES_PER_S
    try:
        done = subprocess.run(
            COMMAND,
            input=content,
            capture_output=True,
            timeout=allowed_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"it was not read in {allowed_s:.0f} s") from error
    if done.returncode:
        # The program itself ends with 1 and one line. Any other status is of HDF5: a signal,
        # mostly.
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(said if done.returncode == 1 else f"status {done.returncode} of HDF5")
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as arrays:
        ids = json.loads(arrays["ids"].tobytes())
        return {**ids, **{name: arrays[name] for name in MATRIX}}


def main() -> None:
    """Read standard input; write .npz to standard output, or a line of what is wrong."""
    content = sys.stdin.buffer.read()
    most = LEAST_BYTES + BYTES_PER_BYTE * len(content)
    limit = resource.RLIMIT_AS
    hard_limit = resource.getrlimit(limit)[1]
    # A limit that is there already, on a cluster, may be the lower one.
    if hard_limit == resource.RLIM_INFINITY or hard_limit > most:
        resource.setrlimit(limit, (most, hard_limit))
    try:
        with h5py.File(io.BytesIO(content), "r") as handle:
            # biom-format writes an empty axis as numbers.
            axes = {"samples": "sample/ids", "features": "observation/ids"}
            datasets = {name: _dataset(handle, path) for name, path in axes.items()}
            ids = {name: [*one.asstr()[:]] if one.size else [] for name, one in datasets.items()}
            ids["lineages"] = _lineages(handle)
            parts = {k: _dataset(handle, f"sample/matrix/{k}")[:] for k in MATRIX}
        np.savez(sys.stdout.buffer, ids=np.frombuffer(json.dumps(ids).encode(), np.uint8), **parts)
    except (
        AttributeError,
        KeyError,
        MemoryError,
        OSError,
        OverflowError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        sys.exit(" ".join(str(error).split()) or type(error).__name__)


def _lineages(handle: h5py.File) -> list[str]:
    """Return the lineages of the features, none where the file has no taxonomy as text."""
    if TAXONOMY not in handle:
        return []
    dataset = _dataset(handle, TAXONOMY, most_axes=2)
    if not dataset.size or h5py.check_string_dtype(dataset.dtype) is None:
        return []
    rows = dataset.asstr()[:]
    return [join_taxa(row if rows.ndim == 1 else [*row]) for row in rows]


def join_taxa(taxa: Any) -> str:
    """Return a lineage as text, which BIOM holds as text or as a list of its taxa.

    Parameters
    ----------
    taxa
        What the file has; anything but text and lists of it is no lineage.
    """
    if isinstance(taxa, str):
        return taxa.strip()
    is_list = isinstance(taxa, list) and all(isinstance(taxon, str) for taxon in taxa)
    # A rank that is not known stays where others follow.
    return "; ".join(map(str.strip, taxa)).rstrip("; ") if is_list else ""


def _dataset(handle: h5py.File, name: str, most_axes: int = 1) -> h5py.Dataset:
    """Return a list of values that are stored in the file itself."""
    path = ""
    for part in name.split("/"):
        path = f"{path}/{part}"
        if not isinstance(handle.get(path, getlink=True), h5py.HardLink):
            raise KeyError(f"no {path} in the file itself")
    dataset = handle[name]
    if not 1 <= dataset.ndim <= most_axes or dataset.is_virtual or dataset.external:
        raise ValueError(f"{name} is no list of values in the file itself")
    if dataset.nbytes > MOST_INFLATED * (dataset.id.get_storage_size() + 2**20):
        raise ValueError(f"{name} claims {dataset.size:,} values")
    return dataset


if __name__ == "__main__":
    main()
