"""The scaling table: time and memory of a step against batch size, depth and distinct ASVs."""

from collections.abc import Mapping
from typing import Any

from aam.bench.scaling import scale, scaling_page
from aam.bench.subprocess_runner import SubprocessRunner
from aam.bench.tables import about_run, write_tsv
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import write_text


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Time training steps of growing size."""
    with SubprocessRunner() as measure:
        table, device = scale(measure, cfg, inputs, runtime)
    write_tsv(outputs["table"], table)
    about = about_run(cfg, inputs, device, runtime.threads)
    write_text(outputs["text"], scaling_page(table, about))
