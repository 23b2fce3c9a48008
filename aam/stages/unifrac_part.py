"""A range of the distances between all samples of a rarefied table, for one of several jobs."""

import logging
from collections.abc import Mapping
from pathlib import Path

from aam.config.metrics import METRICS
from aam.config.settings.data import EngineName
from aam.data.table import read_biom
from aam.data.trees import read_tree
from aam.distances.engines import choose_engine_for_jobs
from aam.distances.stripes import job_stripes, write_part

logger = logging.getLogger(__name__)


def compute_part(
    *,
    table: Path,
    tree: Path,
    metric: str,
    alpha: float | None = None,
    part: int,
    parts: int,
    engine: EngineName = "auto",
    threads: int = 1,
    work: Path | None = None,
    part_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Compute some stripes of the distances and write them for `aam.stages.unifrac`.

    Parameters
    ----------
    table
        BIOM file of a rarefied table.
    tree
        Newick file with a tip for every ASV.
    metric
        Name of the metric, as in `aam.config.metrics`.
    alpha
        Exponent of generalized UniFrac; other metrics have none.
    part, parts
        Number of the job, from 0, and how many jobs share the matrix.
    engine
        What computes the distances (`aam.distances.engines.choose_engine_for_jobs`).
    threads
        Cores to use.
    work
        Folder for scratch files.
    part_out
        Parquet file to write.
    provenance
        Metadata of the part, by which it is known to belong to the others (`aam.util.digests`).

    Raises
    ------
    InputError
        The program `ssu` is not installed.
    """
    counted = read_biom(table)
    samples = len(counted.sample_ids)
    chosen = choose_engine_for_jobs(
        engine, samples=samples, metric=metric, threads=threads, scratch=work
    )
    start, stop = job_stripes(part, parts, samples)
    tree_of_table = read_tree(tree, counted.feature_ids)
    logger.info(
        "%s of %d samples with %s: stripes %d to %d", metric, samples, chosen.name, start, stop
    )
    parameters = METRICS[metric].parameters_in({"alpha": alpha})
    with chosen.compute_stripes(counted, tree_of_table, metric, parameters, start, stop) as striped:
        write_part(part_out, striped, {**provenance, "aam.engine": chosen.name})
