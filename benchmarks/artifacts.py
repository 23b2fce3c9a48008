"""What a run leaves below `results/`, reduced to what must be the same in every run.

As a program it compares the results of two versions of the code, whose provenance differs:
`python -m benchmarks.artifacts OLD/results NEW/results`.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from safetensors.numpy import load_file

RECORDED_KEYS = (
    "wall_s",
    "samples_per_s",
    "peak_memory_mb",
    "estimated_step_memory_mb",
    "measured_step_memory_mb",
    "precision_step_s",
    "loading_share",
    "model_flop_utilisation",
    "gpu_utilisation",
    "gpu_utilisation_peak",
    "gpu_memory_mb_peak",
    "gpu_power_w",
    "gpu_power_w_peak",
)
"""Keys of `scores.json` of pretraining that hold times, memory and power of the run itself."""


def digests(results: Path) -> dict[str, str]:
    """Return a digest per file, by its path below `results`; of some files a part counts."""
    digest_of_file = {}
    for path in sorted(results.rglob("*")):
        if path.is_file() and not set(path.relative_to(results).parts) & set(NO_ARTIFACTS):
            content = _rule(path)(path)
            digest_of_file[str(path.relative_to(results))] = hashlib.sha256(content).hexdigest()
    return digest_of_file


def contents(results: Path) -> dict[str, str]:
    """Return a digest per file like `digests`, of everything but the provenance."""
    digest_of_file = digests(results)
    for name in digest_of_file:
        path = results / name
        reader = READERS.get(path.suffix)
        if reader is not None and _rule(path) is not _presence:
            digest_of_file[name] = hashlib.sha256(reader(path)).hexdigest()
    return digest_of_file


def differences(expected: dict[str, str], actual: dict[str, str]) -> list[str]:
    """Return a line for every file that is missing, not expected, or not the same."""
    return [
        *(f"missing: {name}" for name in sorted(expected.keys() - actual.keys())),
        *(f"left over: {name}" for name in sorted(actual.keys() - expected.keys())),
        *(
            f"not the same: {name}"
            for name in sorted(expected.keys() & actual.keys())
            if expected[name] != actual[name]
        ),
    ]


def _rule(path: Path) -> Callable[[Path], bytes]:
    return next((rule for pattern, rule in RULES if path.match(pattern)), Path.read_bytes)


def _presence(path: Path) -> bytes:
    return b""


def _without_recorded_keys(path: Path, keys: tuple[str, ...] = RECORDED_KEYS) -> bytes:
    def cleaned(value: Any) -> Any:
        if isinstance(value, list):
            return [cleaned(item) for item in value]
        if isinstance(value, dict):
            return {k: cleaned(v) for k, v in value.items() if k not in keys}
        return value

    return json.dumps(cleaned(json.loads(path.read_text(encoding="utf-8")))).encode()


def _without_system_rows(path: Path) -> bytes:
    table = pq.read_table(path)
    kept = table.filter(pc.not_equal(table["split"], "system"))
    return json.dumps([str(table.schema), kept.to_pylist()]).encode()


def _without_the_line_of_times(path: Path) -> bytes:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if "samples per second" not in line).encode()


def _table_content(table: pa.Table) -> bytes:
    if "split" in table.column_names:
        table = table.filter(pc.not_equal(table["split"], "system"))
    columns = [str(field) for field in table.schema.remove_metadata()]
    return json.dumps([columns, table.to_pylist()], default=str).encode()


def _tensors_content(path: Path) -> bytes:
    tensors = sorted(load_file(path).items())
    return b"".join(f"{name} {t.dtype} {t.shape}".encode() + t.tobytes() for name, t in tensors)


def _biom_content(path: Path) -> bytes:
    parts: list[bytes] = []

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            parts.append(f"{name} {item.shape} {np.asarray(item[()]).tolist()}".encode())

    with h5py.File(path) as file:
        file.visititems(add)
    return b"".join(parts)


UNCOMPARED_KEYS = (*RECORDED_KEYS, "provenance", "fingerprint", "settings")
"""Of JSON files: what depends on the code and on the names of settings, not on the results."""
READERS: dict[str, Callable[[Path], bytes]] = {
    ".json": lambda path: _without_recorded_keys(path, UNCOMPARED_KEYS),
    ".parquet": lambda path: _table_content(pq.read_table(path)),
    ".arrow": lambda path: _table_content(pa.ipc.open_file(path).read_all()),
    ".safetensors": _tensors_content,
    ".biom": _biom_content,
}
"""How the content of a file with provenance is read."""
NO_ARTIFACTS = ("logs", "benchmarks")
"""Folders of records, below a dataset's."""
RULES: tuple[tuple[str, Callable[[Path], bytes]], ...] = (
    ("pretrain/*/scores.json", _without_recorded_keys),
    ("inductive/*/scores.json", _without_recorded_keys),
    ("history.parquet", _without_system_rows),
    ("history.svg", _presence),
    ("figures/speed.svg", _presence),
    ("benchmark/speed.*", _presence),
    ("benchmark/roofline.json", _presence),
    ("summary.md", _without_the_line_of_times),
    ("report.html", _presence),
    ("first.html", _presence),
    ("first.md", _presence),
    # Every file that they have the digest of is compared itself.
    ("MANIFEST.json", _presence),
    (".*.sha256", _presence),
    (".digests.json", _presence),
)
"""Files with recorded times and memory, and what of them must be the same; all others wholly."""


if __name__ == "__main__":
    old_results, new_results = sys.argv[1:]
    old = contents(Path(old_results))
    new = contents(Path(new_results))
    different = differences(old, new)
    print("\n".join([*different, f"{len(old)} files, {len(different)} differences"]))
    sys.exit(bool(different))
