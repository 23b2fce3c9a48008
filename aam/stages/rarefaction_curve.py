"""Expected richness by depth, to choose the rarefaction depth from."""

import logging

import numpy as np
import pandas as pd

from aam.data.rarefaction import expected_richness
from aam.data.table import read_biom
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_tsv
from aam.util.seeds import seed_of

MAX_SAMPLES = 2000
"""Of larger tables, so many samples are chosen, by a digest of their IDs."""
DEPTHS = 20
"""Depths from one read to the reads of the deepest sample, evenly spaced in their logarithm."""

logger = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write the expected richness of every sample at common depths and at all of its reads."""
    table = read_biom(inputs["table"])
    reads = table.reads
    grid = np.unique(np.geomspace(1, int(reads.max()), DEPTHS).round().astype(np.int64))
    key = [seed_of("rarefaction_curve", sample) for sample in table.sample_ids]
    rows = np.sort(np.argsort(key)[:MAX_SAMPLES])
    parts = []
    for row in rows:
        depth = np.append(grid[grid < reads[row]], reads[row])
        span = slice(table.counts.indptr[row], table.counts.indptr[row + 1])
        richness = expected_richness(table.counts.data[span], depth)
        columns = {"sample-id": table.sample_ids[row], "depth": depth, "richness": richness}
        parts.append(pd.DataFrame(columns))
    logger.info("curves of %d of %d samples", len(rows), len(table.sample_ids))
    write_tsv(outputs["curve"], pd.concat(parts), float_format="%.4f")
