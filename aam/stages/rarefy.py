"""One rarefied view of the table."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from aam.data.rarefaction import rarefy, reads_per_sample
from aam.data.table import read_biom, write_biom
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import write_text
from aam.util.provenance import provenance

logger = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw `depth` reads from every sample, and list the samples that have fewer.

    Parameters
    ----------
    cfg
        `aam.config.slices.rarefy`.
    inputs
        `table`.
    outputs
        `table` (BIOM) and `dropped` (TSV: `sample-id`, `reads`, `depth`).
    runtime
        Not used: a draw takes one core.

    Raises
    ------
    InputError
        If no sample has `depth` reads.
    """
    table = read_biom(inputs["table"])
    view = rarefy(table, cfg["depth"], cfg["seed"], cfg["view"])
    reads = reads_per_sample(table)
    shallow = np.flatnonzero(reads < cfg["depth"])
    dropped = pd.DataFrame(
        {
            "sample-id": [table.sample_ids[row] for row in shallow],
            "reads": reads[shallow],
            "depth": cfg["depth"],
        }
    )
    logger.info(
        "view %d at %d reads: %d of %d samples, %d of %d features",
        cfg["view"],
        cfg["depth"],
        len(view.sample_ids),
        len(table.sample_ids),
        len(view.feature_ids),
        len(table.feature_ids),
    )
    write_text(outputs["dropped"], dropped.to_csv(sep="\t", index=False, lineterminator="\n"))
    write_biom(outputs["table"], view, provenance(cfg, inputs))
