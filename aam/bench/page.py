"""The benchmark's tables as files: TSV, Markdown with what it was measured on, JSON."""

import platform
import subprocess
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from aam.bench.ablation import Ablation
from aam.bench.roofline import Rate
from aam.util.atomic import atomic_path, write_json, write_text
from aam.util.provenance import provenance

SPEED_HEAD = (
    "group",
    "mode",
    "batch",
    "step, ms (IQR)",
    "samples/s",
    "peak memory, MB",
    "speed-up",
    "GFLOP/step",
    "GFLOP/s",
    "of the roofline",
    "loading",
    "recompilations",
    "loss (step)",
)
SPEED_NOTES = """\
- Groups: `order` adds one change after the other; `alone` puts each change alone into the naive
  step, at a smaller batch; `batch` has the last modes at larger batches.
- Naive: every sample padded to one number of ASVs, each copy of an ASV encoded, in chunks that are
  computed a second time backward, for want of memory; with distinct ASVs everything is kept.
- Speed-up: samples per second over those of the naive step of the same group, without one over
  those of `order`.
- GFLOP: the model's matrix products, forward and backward, nothing counted twice. Of the roofline:
  over what matrix products alone reached in the same precision in the same run.
- Loading: share of the step spent waiting for its batch.
- Each repeat of a mode ran in a process of its own, whose peak memory this is."""


SCALING_HEAD = ("what", "time, ms (IQR)", "samples/s", "peak memory, MB", "measurements")
SCALING_NOTES = """\
- Training steps are of the configured model and run in processes of their own; depth and distinct
  ASVs are varied at the batch size of the pretraining, the latter with made-up samples.
- Checkpoint: how long it blocks the training, written at once and in the background.
- Embedding: all samples of a made-up study, from the start of a process to the written file.
- Validation: distances in a mapped file; the memory is that of the process without mapped files."""


def write_ladder(
    climbed: Ablation, about: Mapping[str, str], *, table: Path, text: Path, roofline: Path
) -> None:
    """Write what a ladder found.

    Parameters
    ----------
    climbed
        What `aam.bench.ablation.climb` returned.
    about
        What it was measured on, words by name.
    table, text, roofline
        TSV, Markdown and JSON to write. The JSON holds per precision, and for ``copy``, `median`,
        `iqr` (operations or bytes per second), `count` and `what`; and `about`.
    """
    write_tsv(table, climbed.table)
    write_text(text, speed_page(climbed.table, climbed.rates, about))
    rates = {name: rate.plain() for name, rate in climbed.rates.items()}
    write_json(roofline, {**rates, "about": dict(about)})


def write_tsv(path: Path, table: pd.DataFrame) -> None:
    """Write a table with six significant digits."""
    with atomic_path(path) as partial:
        table.to_csv(partial, sep="\t", index=False, float_format="%.6g")


def about_run(
    cfg: Mapping[str, Any], inputs: Mapping[str, Any], device: Mapping[str, str], threads: int
) -> dict[str, str]:
    """Return what figures were measured on and from, words by name."""
    return {
        **machine(),
        **device,
        "threads": str(threads),
        "repeats": str(cfg["repeats"]),
        **provenance(cfg, inputs),
    }


def speed_page(table: pd.DataFrame, rates: Mapping[str, Rate], about: Mapping[str, str]) -> str:
    """Return the page of a speed table.

    Parameters
    ----------
    table
        What `aam.bench.ablation.climb` returned.
    rates
        Per precision, and for ``copy``, the best that the machine did.
    about
        What the figures were measured on, words by name.
    """
    rows = [_speed_cells(row) for row in table.to_dict("records")]
    rooflines = [
        f"- {_what(name)}: {_per_second(name, rate.median)}, IQR {_per_second(name, rate.iqr)}, "
        f"{rate.count} measurements of {rate.what}"
        for name, rate in rates.items()
    ]
    parts = [
        "# Speed of a training step",
        SPEED_NOTES,
        markdown_table(SPEED_HEAD, rows),
        "## The machine at its best",
        "\n".join(rooflines),
        "## Measured on",
        facts(about),
    ]
    return "\n\n".join(parts) + "\n"


def scaling_page(table: pd.DataFrame, about: Mapping[str, str]) -> str:
    """Return the page of a scaling table, one section per experiment.

    Parameters
    ----------
    table
        What `aam.bench.scaling.scale` returned.
    about
        What the figures were measured on, words by name.
    """
    parts = ["# Scaling", SCALING_NOTES]
    for experiment in dict.fromkeys(table["experiment"]):
        of_it = table[table["experiment"] == experiment]
        head = (of_it["unit"].iloc[0], *SCALING_HEAD)
        rows = [_scaling_cells(row) for row in of_it.to_dict("records")]
        parts += [f"## {experiment[0].upper()}{experiment[1:]}", markdown_table(head, rows)]
    return "\n\n".join([*parts, "## Measured on", facts(about)]) + "\n"


def markdown_table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    first, *others = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([first, "|---" * len(head) + "|", *others])


def facts(about: Mapping[str, str]) -> str:
    """Return words by name as a list."""
    return "\n".join(f"- {name}: {value}" for name, value in about.items())


def machine() -> dict[str, str]:
    """Return what the figures were measured on, and the commit of the code."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "commit": _commit(),
        "processor": names[0] if names else platform.processor(),
        "cores": str(psutil.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _commit() -> str:
    """Return the commit of the checkout that runs, marked where files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown: not in a checkout of Git"
    return done.stdout.strip()


def _speed_cells(row: Mapping[Hashable, Any]) -> list[str]:
    start = [str(row["group"]), str(row["name"]), str(row["batch_size"])]
    if pd.isna(row["step_ms_median"]):
        return [*start, "not run", *[""] * (len(SPEED_HEAD) - 4)]
    return [
        *start,
        f"{_number(row['step_ms_median'])} ({_number(row['step_ms_iqr'])})",
        _number(row["samples_per_s"]),
        f"{row['peak_memory_mb']:.0f}",
        "" if pd.isna(row["speedup"]) else f"{row['speedup']:.1f}x",
        _number(row["gflop_per_step"]),
        _number(row["gflop_per_s"]),
        f"{100 * row['roofline_share']:.0f} %",
        f"{100 * row['loading_share']:.1f} %",
        f"{row['recompilations']:.0f}",
        f"{row['loss_after_steps']:.4f} ({row['loss_step']:.0f})",
    ]


def _scaling_cells(row: Mapping[Hashable, Any]) -> list[str]:
    start = [_number(float(row["x"])), str(row["mode"])]
    if pd.isna(row["time_ms_median"]):
        return [*start, "not run", "", "", ""]
    spread = "" if pd.isna(row["time_ms_iqr"]) else f" ({_number(row['time_ms_iqr'])})"
    return [
        *start,
        f"{_number(row['time_ms_median'])}{spread}",
        "" if pd.isna(row["samples_per_s"]) else _number(row["samples_per_s"]),
        "" if pd.isna(row["peak_memory_mb"]) else f"{row['peak_memory_mb']:.0f}",
        f"{row['count']:.0f}",
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _what(name: str) -> str:
    return "copies" if name == "copy" else f"matrix products, {name}"


def _per_second(name: str, value: float) -> str:
    unit = "GB/s" if name == "copy" else "GFLOP/s"
    return f"{value / 1e9:.3g} {unit}"
