"""Distances between all samples of a rarefied table, or their Faith's PD."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aam.config.metrics import METRICS, Parameters
from aam.data.table import FeatureTable, read_biom
from aam.data.trees import branches
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.unifrac import check, parts, store
from aam.unifrac.engines import Engine, ScikitBio, Sparse, choose
from aam.unifrac.stripes import Joined, StripeMatrix
from aam.util.provenance import provenance
from aam.util.scikit_bio import TreeNode

Wanted = tuple[FeatureTable, TreeNode | None, str, Parameters]
"""The table, the tree where one is needed, the metric and its parameters."""
LOG = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Compute one metric of one view, or join its parts, check a sample of it, and write it."""
    table = read_biom(inputs["table"])
    metadata = provenance(cfg, {name: inputs[name] for name in ("table", "tree") if name in inputs})
    metric = METRICS[cfg["metric"]]
    tree = None
    if metric.phylogenetic:
        tree = branches.read_tree(inputs["tree"], table.feature_ids)
        if metric.is_ratio:
            above_FB, length_B = branches.branches(tree, table.feature_ids)
            height_F = above_FB @ length_B
            branches.check_lengths(table.sample_ids, table.counts, height_F, inputs["tree"])
    wanted = (table, tree, cfg["metric"], metric.parameters_in(cfg))
    with _computed(cfg, wanted, metadata, inputs, runtime) as (values, name, other):
        check.check(values, *wanted, count=cfg["checked_pairs"], other=other)
        write = store.write_faith_pd if metric.per_sample else store.write_distances
        write(outputs["distances"], table.sample_ids, values, {**metadata, "aam.engine": name})


@contextmanager
def _computed(
    cfg: Cfg, wanted: Wanted, metadata: Mapping[str, str], inputs: Files, runtime: RunOptions
) -> Iterator[tuple[store.Values, str, Engine | None]]:
    """Yield the values, the name of the engine that computed them, and another to check them."""
    name, samples = cfg["metric"], len(wanted[0].sample_ids)
    if "parts" in inputs:
        LOG.info("%s of %d samples from %d parts", name, samples, len(inputs["parts"]))
        with parts.open_parts(inputs["parts"]) as opened:
            parts.check_whole(opened, samples, metadata["aam.inputs"])
            yield StripeMatrix(Joined(opened)), opened[0].engine, ScikitBio()
        return
    engine: Engine = Sparse()
    other: Engine | None = None
    if METRICS[name].phylogenetic:
        engine, other = choose(
            cfg["engine"],
            samples=samples,
            metric=name,
            threads=runtime.threads,
            scratch=runtime.work,
        )
    LOG.info("%s of %d samples with %s", name, samples, engine.name)
    with engine.compute(*wanted) as values:
        yield values, engine.name, other
