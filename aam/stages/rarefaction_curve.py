"""Expected richness by depth, to choose the rarefaction depth from."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.rarefaction import expected_richness, reads_per_sample
from aam.data.table import read_biom
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import write_text
from aam.util.seeds import seed_of

MAX_SAMPLES = 2000
"""Of larger tables, so many samples are chosen."""
DEPTHS = 20
"""Depths from one read to the reads of the deepest sample, evenly spaced in their logarithm."""

logger = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write the expected richness of every sample at common depths and at all of its reads.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        `table`.
    outputs
        `curve` (TSV: `sample-id`, `depth`, `richness`).
    runtime
        Not used.
    """
    table = read_biom(inputs["table"])
    reads = reads_per_sample(table)
    rows = _chosen(table.sample_ids)
    grid = np.unique(np.geomspace(1, int(reads.max()), DEPTHS).round().astype(np.int64))
    parts = []
    for row in rows:
        depths = np.append(grid[grid < reads[row]], reads[row])
        span = slice(table.counts.indptr[row], table.counts.indptr[row + 1])
        richness = expected_richness(table.counts.data[span], depths)
        parts.append(
            pd.DataFrame(
                {"sample-id": table.sample_ids[row], "depth": depths, "richness": richness}
            )
        )
    logger.info("curves of %d of %d samples", len(rows), len(table.sample_ids))
    text = pd.concat(parts).to_csv(sep="\t", index=False, lineterminator="\n", float_format="%.4f")
    write_text(outputs["curve"], text)


def _chosen(sample_ids: list[str]) -> NDArray[np.int64]:
    """Return the rows of at most `MAX_SAMPLES` samples, chosen by a digest of their IDs."""
    key = [seed_of("rarefaction_curve", sample) for sample in sample_ids]
    return np.sort(np.argsort(key)[:MAX_SAMPLES])
