"""A range of the distances between all samples of a rarefied table, for one of several jobs."""

import logging

from aam.config.metrics import METRICS
from aam.data.table import read_biom
from aam.data.trees.branches import read_tree
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.unifrac.engines import choose_for_jobs
from aam.unifrac.parts import write_part
from aam.unifrac.stripes import of_job
from aam.util.provenance import provenance

LOG = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Compute some stripes of the distances, and write them for the stage `unifrac`."""
    table = read_biom(inputs["table"])
    metric = cfg["metric"]
    samples = len(table.sample_ids)
    engine = choose_for_jobs(
        cfg["engine"],
        samples=samples,
        metric=metric,
        threads=runtime.threads,
        scratch=runtime.work,
    )
    start, stop = of_job(cfg["part"], cfg["parts"], samples)
    tree = read_tree(inputs["tree"], table.feature_ids)
    LOG.info(
        "%s of %d samples with %s: stripes %d to %d", metric, samples, engine.name, start, stop
    )
    parameters = METRICS[metric].parameters_in(cfg)
    with engine.compute_stripes(table, tree, metric, parameters, start, stop) as striped:
        about = provenance(cfg, inputs)
        write_part(outputs["part"], striped, {**about, "aam.engine": engine.name})
