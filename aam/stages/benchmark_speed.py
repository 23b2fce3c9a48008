"""The speed table: a naive training step against the optimized one."""

from collections.abc import Hashable, Mapping
from importlib.metadata import version
from typing import Any

import pandas as pd

from aam.bench.ladder import climb, machine
from aam.stages.entry import Files, RunContext
from aam.util.atomic import atomic_path, write_text
from aam.util.provenance import provenance


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Time the rungs of the ladder on the real data.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.benchmark`.
    inputs
        `tokens`, `samples`, `distances` as pretraining gets them.
    outputs
        `table` (TSV) and `text` (Markdown).
    runtime
        `threads`.
    """
    table = climb(cfg, inputs, runtime.threads)
    about = {
        **machine(),
        "threads": str(runtime.threads),
        "torch": version("torch"),
        "repeats": str(cfg["repeats"]),
        **provenance(cfg, inputs),
    }
    with atomic_path(outputs["table"]) as partial:
        table.to_csv(partial, sep="\t", index=False, float_format="%.4g")
    write_text(outputs["text"], page(table, about))


def page(table: pd.DataFrame, about: Mapping[str, str]) -> str:
    """Return the Markdown page of a speed table."""
    head = (
        "| mode | batch | step, ms (IQR) | samples/s | peak memory, MB | speed-up | loss (step) |"
    )
    rows = [_line(row) for row in table.to_dict("records")]
    facts = [f"- {name}: {value}" for name, value in about.items()]
    rule = "|---|---|---|---|---|---|---|"
    return "\n".join(["# Speed of a training step", "", head, rule, *rows, "", *facts, ""])


def _line(row: Mapping[Hashable, Any]) -> str:
    start = f"| {row['name']} | {row['batch_size']} |"
    if pd.isna(row["step_ms_median"]):
        return f"{start} could not run | | | | |"
    return (
        f"{start} {row['step_ms_median']:.0f} ({row['step_ms_iqr']:.0f}) "
        f"| {row['samples_per_s']:.3g} | {row['peak_memory_mb']:.0f} | {row['speedup']:.1f}x "
        f"| {row['loss_after_steps']:.4f} ({row['loss_step']:.0f}) |"
    )
