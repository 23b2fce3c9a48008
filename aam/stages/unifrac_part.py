"""A share of the distances between all samples of a rarefied table, for one of several jobs."""

import logging
from collections.abc import Mapping
from typing import Any

from aam.data.table import read_biom
from aam.data.trees import branches
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.unifrac import partitions
from aam.unifrac.engines import for_parts
from aam.unifrac.parts import write_part
from aam.util.provenance import provenance

LOG = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Compute some stripes of the distances, and write them for the stage `unifrac`.

    Parameters
    ----------
    cfg
        What `aam.config.slices.unifrac_part` returns.
    inputs
        `table` (of a view) and `tree`.
    outputs
        `part`, a Parquet file; see `aam.unifrac.parts`.
    runtime
        Threads, and the folder for temporary files.

    Raises
    ------
    InputError
        If `ssu` is not installed, or there are more jobs than stripes.
    RuntimeError
        If `ssu` fails.
    """
    engine = for_parts(threads=runtime.threads, scratch=runtime.work)
    table = read_biom(inputs["table"])
    samples = len(table.sample_ids)
    start, stop = partitions.of_job(cfg["part"], cfg["parts"], samples)
    tree = branches.read_tree(inputs["tree"], table.feature_ids)
    LOG.info("%s of %d samples: stripes %d to %d", cfg["metric"], samples, start, stop)
    metric, alpha = cfg["metric"], cfg.get("alpha", 1.0)
    with engine.stripes(table, tree, metric, alpha, start, stop) as striped:
        write_part(outputs["part"], striped, provenance(cfg, inputs))
