"""Time and memory of every stage on studies of several sizes, and the growth fitted to them."""

from collections.abc import Mapping
from typing import Any

from aam.bench.page import machine, write_tsv
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import write_text
from aam.util.errors import problem
from benchmarks.growth import fits, fits_table, growth_page, measured


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Gather what the stages logged of themselves.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.growth`: the size of every simulated dataset.
    inputs
        `logs`: a list, of all jobs on all datasets.
    outputs
        `table` and `fits` (TSV), `text` (Markdown).
    runtime
        Not used.

    Raises
    ------
    InputError
        If all datasets have the same size.
    """
    samples = cfg["samples"]
    if len(set(samples.values())) < 2:
        raise problem(
            "datasets",
            f"simulated studies of {sorted(set(samples.values()))} samples",
            "at least two sizes",
            "run `snakemake --configfile config/growth.yaml -- growth`",
        )
    table = measured(inputs["logs"], samples)
    powers = fits(table)
    write_tsv(outputs["table"], table)
    write_tsv(outputs["fits"], fits_table(powers))
    write_text(outputs["text"], growth_page(table, powers, machine()))
