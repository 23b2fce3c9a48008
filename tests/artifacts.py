"""What a run leaves below `results/`, reduced to what must be the same in every run."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

RECORDED_KEYS = (
    "wall_s",
    "samples_per_s",
    "peak_memory_mb",
    "estimated_step_memory_mb",
    "measured_step_memory_mb",
    "mapped_distances_mb",
    "loading_share",
    "model_flop_utilisation",
    "gpu_utilisation",
)
"""Of `metrics.json` of pretraining: times and memory of the run itself."""


def of(results: Path) -> dict[str, str]:
    """Return a digest per file, by its path below `results`; of some files a part counts."""
    found = {}
    for path in sorted(results.rglob("*")):
        name = str(path.relative_to(results))
        rule = next((rule for pattern, rule in RULES if path.match(pattern)), _whole)
        if path.is_file() and not set(path.relative_to(results).parts) & set(NO_ARTIFACTS):
            found[name] = hashlib.sha256(rule(path)).hexdigest()
    return found


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return a line for every file that is missing, not expected, or not the same."""
    return [
        *(f"missing: {name}" for name in sorted(expected.keys() - found.keys())),
        *(f"left over: {name}" for name in sorted(found.keys() - expected.keys())),
        *(
            f"not the same: {name}"
            for name in sorted(expected.keys() & found.keys())
            if expected[name] != found[name]
        ),
    ]


def _whole(path: Path) -> bytes:
    return path.read_bytes()


def _presence(path: Path) -> bytes:
    return b""


def _without_recorded_keys(path: Path) -> bytes:
    def cleaned(value: Any) -> Any:
        if isinstance(value, list):
            return [cleaned(item) for item in value]
        if isinstance(value, dict):
            return {k: cleaned(v) for k, v in value.items() if k not in RECORDED_KEYS}
        return value

    return json.dumps(cleaned(json.loads(path.read_text(encoding="utf-8")))).encode()


def _without_system_rows(path: Path) -> bytes:
    table = pq.read_table(path)
    kept = table.filter(pc.not_equal(table["split"], "system"))
    return json.dumps([str(table.schema), kept.to_pylist()]).encode()


def _without_the_line_of_times(path: Path) -> bytes:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if "samples per second" not in line).encode()


NO_ARTIFACTS = ("logs", "benchmarks")
"""Folders of records, below a dataset's."""
RULES: tuple[tuple[str, Callable[[Path], bytes]], ...] = (
    ("pretrain/*/metrics.json", _without_recorded_keys),
    ("inductive/*/metrics.json", _without_recorded_keys),
    ("history.parquet", _without_system_rows),
    ("history.png", _presence),
    *(
        (pattern.format(name), _presence)
        for name in ("speed", "scaling", "models")
        for pattern in ("figures/{}.png", "benchmark/{}.*")
    ),
    ("benchmark/models_curves.tsv", _presence),
    ("benchmark/roofline.json", _presence),
    ("summary.md", _without_the_line_of_times),
)
"""Files with recorded times and memory, and what of them must be the same; all others wholly."""
