"""Expected richness by depth, to choose the rarefaction depth from."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd

from aam.data.rarefaction import expected_richness
from aam.data.table import read_biom
from aam.util.atomic import write_tsv
from aam.util.errors import problem
from aam.util.seeds import seed_of

MAX_SAMPLES = 2000
"""Most samples that have a curve; those of a larger table are chosen by a digest of their IDs."""
DEPTHS = 20
"""Depths from one read to the reads of the deepest sample, evenly spaced in their logarithm."""

logger = logging.getLogger(__name__)


def compute_rarefaction_curves(*, table: Path, curve_out: Path) -> None:
    """Compute the expected richness of every sample at common depths and at all of its reads.

    Parameters
    ----------
    table
        BIOM file of an imported table; at most `MAX_SAMPLES` of its samples have a curve.
    curve_out
        TSV file to write, with a row per sample and depth.

    Raises
    ------
    InputError
        The table has amounts, which the configuration does not say.
    """
    counted = read_biom(table)
    if not counted.facts.is_counted:
        raise problem(
            "configuration key datasets.<name>.values",
            "nothing, for a table of amounts, which has no rarefaction curves",
            "amounts",
            "set `values: amounts`",
        )
    reads = counted.reads
    grid = np.unique(np.geomspace(1, int(reads.max()), DEPTHS).round().astype(np.int64))
    key = [seed_of("rarefaction_curve", sample) for sample in counted.sample_ids]
    rows = np.sort(np.argsort(key)[:MAX_SAMPLES])
    parts = []
    for row in rows:
        depth = np.append(grid[grid < reads[row]], reads[row])
        span = slice(counted.counts.indptr[row], counted.counts.indptr[row + 1])
        richness = expected_richness(counted.counts.data[span], depth)
        columns = {"sample-id": counted.sample_ids[row], "depth": depth, "richness": richness}
        parts.append(pd.DataFrame(columns))
    logger.info("curves of %d of %d samples", len(rows), len(counted.sample_ids))
    write_tsv(curve_out, pd.concat(parts), float_format="%.4f")
