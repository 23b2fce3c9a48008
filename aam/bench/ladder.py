"""The speed ladder: from the naive step to the optimized one, one change at a time."""

import json
import logging
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from aam.bench import case
from aam.util.atomic import read_json

logger = logging.getLogger(__name__)
COLUMNS = [
    "name",
    "batch_size",
    "step_ms_median",
    "step_ms_iqr",
    "samples_per_s",
    "peak_memory_mb",
    "loss_after_steps",
    "loss_step",
    "timed_steps",
    "parameters",
]


@dataclass(frozen=True)
class Rung:
    """One mode of the training step.

    Attributes
    ----------
    name
        Words for the table.
    batch_size
        Samples per step.
    naive_asvs
        ASVs that every sample is padded to; None: distinct ASVs once, no padding.
    patch_bp, precision, level
        What the mode sets.
    """

    name: str
    batch_size: int
    naive_asvs: int | None
    patch_bp: int
    precision: str
    level: str


def rungs(cfg: Mapping[str, Any]) -> list[Rung]:
    """Return the modes of one run; the last of each batch size is what the configuration says."""
    first = cfg["batch_sizes"][0]
    patch, precision = cfg["model"]["patch_bp"], cfg["pretraining"]["precision"]
    level = cfg["optimization"]["level"]
    ladder = [
        Rung("naive", first, cfg["naive_asvs"], 1, "fp32", "basic"),
        Rung("distinct ASVs, no padding", first, None, 1, "fp32", "basic"),
        Rung("+ attention, fused AdamW", first, None, 1, "fp32", "advanced"),
    ]
    for batch_size in cfg["batch_sizes"]:
        ladder.append(Rung("+ bf16", batch_size, None, 1, "bf16", "advanced"))
        if patch > 1:
            name = f"+ patch stem of {patch} bp: optimized"
            ladder.append(Rung(name, batch_size, None, patch, precision, level))
    return ladder


def climb(cfg: Mapping[str, Any], inputs: Mapping[str, Any], threads: int) -> pd.DataFrame:
    """Time every rung, the repeats interleaved so that the machine's moods meet all alike.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.benchmark`.
    inputs
        `tokens`, `samples`, `distances`.
    threads
        Cores granted.

    Returns
    -------
    pandas.DataFrame
        One row per rung: `name`, `batch_size`, `step_ms_median`, `step_ms_iqr`, `samples_per_s`,
        `peak_memory_mb`, `speedup` (samples per second over the naive rung's),
        `loss_after_steps` (at the last step that all rungs of the batch size reached), `loss_step`,
        `timed_steps`, `parameters`. A rung that could not run, for want of memory for instance,
        has no figures.
    """
    ladder = rungs(cfg)
    results: dict[Rung, list[dict[str, Any]]] = {rung: [] for rung in ladder}
    failed: set[Rung] = set()
    for repeat in range(cfg["repeats"]):
        for rung in ladder:
            if rung in failed:
                continue
            result = _run_apart(rung, cfg, inputs, threads)
            words = (repeat + 1, rung.name, rung.batch_size)
            if result is None:
                failed.add(rung)
                logger.warning("repeat %d, %s, batch %d: could not run, see above", *words)
                continue
            results[rung].append(result)
            seconds = np.median(result["step_s"])
            logger.info("repeat %d, %s, batch %d: %.3g s a step", *words, seconds)
    return _table(results)


def _table(results: Mapping[Rung, list[dict[str, Any]]]) -> pd.DataFrame:
    rows = []
    for rung, repeats in results.items():
        if not repeats:
            rows.append({"name": rung.name, "batch_size": rung.batch_size})
            continue
        times_ms = 1e3 * np.concatenate([repeat["step_s"] for repeat in repeats])
        size = np.median(np.concatenate([repeat["sizes"] for repeat in repeats]))
        low, median, high = np.percentile(times_ms, [25, 50, 75])
        alike = [r for other, r in results.items() if other.batch_size == rung.batch_size]
        last = min(len(repeat["losses"]) for same in alike for repeat in same)
        rows.append(
            {
                "name": rung.name,
                "batch_size": rung.batch_size,
                "step_ms_median": median,
                "step_ms_iqr": high - low,
                "samples_per_s": size / median * 1e3,
                "peak_memory_mb": max(repeat["peak_memory_mb"] for repeat in repeats),
                "loss_after_steps": repeats[0]["losses"][last - 1],
                "loss_step": last,
                "timed_steps": len(times_ms),
                "parameters": repeats[0]["parameters"],
            }
        )
    table = pd.DataFrame(rows, columns=COLUMNS)
    table.insert(6, "speedup", table["samples_per_s"] / table["samples_per_s"].iloc[0])
    return table


def _run_apart(
    rung: Rung, cfg: Mapping[str, Any], inputs: Mapping[str, Any], threads: int
) -> dict[str, Any] | None:
    """Run one rung in a new process and return its result, None where it failed."""
    spec = {
        "cfg": {
            "model": {**cfg["model"], "patch_bp": rung.patch_bp},
            "pretraining": {
                **cfg["pretraining"],
                "batch_size": rung.batch_size,
                "precision": rung.precision,
            },
            "optimization": {**cfg["optimization"], "level": rung.level},
        },
        "inputs": {
            name: [str(item) for item in value] if isinstance(value, list) else str(value)
            for name, value in inputs.items()
        },
        "naive_asvs": rung.naive_asvs,
        "steps": cfg["steps"],
        "seconds": cfg["seconds"],
        "threads": threads,
    }
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "specification.json"), Path(folder, "result.json")
        # `write_json` sorts keys, but the order of the metrics is that of the files of distances.
        asked.write_text(json.dumps(spec), encoding="utf-8")
        command = [sys.executable, "-m", case.__name__, str(asked), str(answered)]
        done = subprocess.run(command, check=False)
        return read_json(answered) if done.returncode == 0 else None


def machine() -> dict[str, str]:
    """Return what the figures were measured on."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": str(psutil.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
