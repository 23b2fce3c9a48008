"""The scaling table: time and memory against batch size, depth, ASVs and the size of a study."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aam.bench.page import about_run, scaling_page, write_tsv
from aam.bench.scaling import scale
from aam.bench.subprocess_runner import SubprocessRunner
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import write_text


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Time training steps, checkpoints, embeddings and validations of growing size.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.scaling`.
    inputs
        `tokens`, `samples`, `distances` as pretraining gets them.
    outputs
        `table` (TSV) and `text` (Markdown); checkpoints are timed on the disk of the table.
    runtime
        `threads`, `workers`.
    """
    place = outputs["table"].parent
    place.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".checkpoints-", dir=place) as name,
        SubprocessRunner() as measure,
    ):
        table, device = scale(
            measure,
            cfg,
            inputs,
            threads=runtime.threads,
            workers=runtime.workers,
            folder=Path(name, "timed"),
        )
    write_tsv(outputs["table"], table)
    about = about_run(cfg, inputs, device, runtime.threads)
    write_text(outputs["text"], scaling_page(table, about))
