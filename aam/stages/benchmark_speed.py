"""The speed table: a naive training step against the optimized one."""

from collections.abc import Mapping
from typing import Any

from aam.bench.apart import Apart
from aam.bench.ladder import climb
from aam.bench.page import about_run, write_ladder
from aam.stages.entry import Files, RunContext


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Time the rungs of the ladder on the real data.

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
    with Apart() as measure:
        climbed = climb(measure, cfg, inputs, threads=runtime.threads, workers=runtime.workers)
    about = about_run(cfg, inputs, climbed.about, runtime.threads)
    write_ladder(
        climbed,
        about,
        table=outputs["table"],
        text=outputs["text"],
        roofline=outputs["roofline"],
    )
