"""The speed table: a naive training step against the optimized one."""

from collections.abc import Mapping
from typing import Any

from aam.bench.ablation import run_ablation
from aam.bench.page import about_run, write_ladder
from aam.bench.subprocess_runner import SubprocessRunner
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Time the variants of the ladder on the real data.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.benchmark`.
    inputs
        `tokens`, `samples`, `distances` as pretraining gets them.
    outputs
        `table` (TSV), `text` (Markdown) and `roofline` (JSON).
    runtime
        `threads`, `workers`.
    """
    with SubprocessRunner() as measure:
        climbed = run_ablation(
            measure, cfg, inputs, threads=runtime.threads, workers=runtime.workers
        )
    about = about_run(cfg, inputs, climbed.about, runtime.threads)
    write_ladder(
        climbed,
        about,
        table=outputs["table"],
        text=outputs["text"],
        roofline=outputs["roofline"],
    )
