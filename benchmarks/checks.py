"""What checking the digests of artifacts costs, beside reading them and beside all stages' work.

Run as `python -m benchmarks.checks results/<dataset> ...` on finished results.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file

from aam.bench.tables import markdown_table
from aam.data.table import read_biom
from aam.util.digests import check_digests
from benchmarks.worklog import read_work

READERS: dict[str, Callable[[Path], Any]] = {
    ".parquet": pq.read_table,
    ".arrow": lambda path: pa.ipc.open_file(path).read_all(),
    ".biom": read_biom,
    ".safetensors": load_file,
}
REPEATS = 3
SHOWN_MB = 1.0


def seconds(call: Callable[[], Any]) -> float:
    """Return the median time of a call."""
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return float(np.median(took))


def costs(results: Path) -> list[tuple[str, float, float, float]]:
    """Return name, MB, seconds of the check and of reading, of every file with a digest."""
    found = []
    for beside in sorted(results.rglob(".*.sha256")):
        path = beside.with_name(beside.name.removeprefix(".").removesuffix(".sha256"))
        if path.is_file():
            read = READERS.get(path.suffix, Path.read_bytes)
            check_s = seconds(lambda path=path: check_digests([path]))
            read_s = seconds(lambda path=path, read=read: read(path))
            name, size_mb = str(path.relative_to(results)), path.stat().st_size / 1e6
            found.append((name, size_mb, check_s, read_s))
    return found


def main(studies: Sequence[str]) -> None:
    """Print a table per study: what is large, and the sum of all."""
    for study in map(Path, studies):
        rows = costs(study)
        total_mb, check_s, read_s = np.sum([row[1:] for row in rows], axis=0)
        found = map(read_work, (study / "logs").rglob("*.log"))
        work_s = sum(work.seconds for work in found if work is not None)
        rows = [row for row in rows if row[1] >= SHOWN_MB]
        rows.append((f"all {study.name}", total_mb, check_s, read_s))
        cells = [[name, f"{mb:.1f}", f"{a:.3f}", f"{b:.3f}"] for name, mb, a, b in rows]
        print(markdown_table(["artifact", "MB", "check, s", "reading, s"], cells))
        print(
            f"all checks once: {check_s / work_s:.2%} of {work_s:.0f} s that stages were at work\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
