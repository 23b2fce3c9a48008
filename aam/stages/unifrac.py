"""Distances between all samples of a rarefied table, or their Faith's PD."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aam.data.table import FeatureTable, read_biom
from aam.data.trees import branches
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.unifrac import check, compositional, parts, store
from aam.unifrac.engines import Engine, choose
from aam.unifrac.scikit_bio import ScikitBio
from aam.unifrac.ssu import Ssu
from aam.unifrac.stripes import Joined, Matrix
from aam.util.provenance import provenance
from aam.util.scikit_bio import TreeNode

LOG = logging.getLogger(__name__)
RATIOS = ("unweighted", "weighted_normalized", "generalized")
"""Metrics that divide by the length of the branches that two samples have."""


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Compute one metric of one view, check a sample of it by other means, and write it.

    Parameters
    ----------
    cfg
        What `aam.config.slices.unifrac` returns.
    inputs
        `table` (of a view) and `tree`, which the metrics of `aam.unifrac.compositional` leave;
        where other jobs computed the distances, `parts`: what `unifrac_part` wrote, in order.
    outputs
        `distances`, a Parquet file; its metadata names the engine under `aam.engine`. Its bytes do
        not depend on the number of parts.
    runtime
        Threads, and the folder for temporary files.

    Raises
    ------
    InputError
        If the engine is missing, the tree's branch lengths leave a distance undefined, or a part
        is missing, damaged, or of another view.
    RuntimeError
        If an engine fails, or the engines disagree; nothing is written.
    """
    table = read_biom(inputs["table"])
    metadata = provenance(cfg, {name: inputs[name] for name in ("table", "tree") if name in inputs})
    if cfg["metric"] in compositional.METRICS:
        _write_non_phylogenetic(cfg, table, metadata, outputs)
        return
    tree = branches.read_tree(inputs["tree"], table.feature_ids)
    if cfg["metric"] in RATIOS:
        branches.check_lengths(table, tree, inputs["tree"])
    if cfg["metric"] == "faith_pd":
        _write_faith_pd(cfg, table, tree, metadata, outputs, runtime)
    else:
        _write_distances(cfg, table, tree, metadata, inputs, outputs, runtime)


def _write_distances(
    cfg: Mapping[str, Any],
    table: FeatureTable,
    tree: TreeNode,
    metadata: Mapping[str, str],
    inputs: Files,
    outputs: Files,
    runtime: RunOptions,
) -> None:
    metric, alpha = cfg["metric"], cfg.get("alpha", 1.0)
    with _distances(cfg, table, tree, metadata, inputs, runtime) as (matrix, name, other):
        check.check_distances(
            matrix, table, tree, metric, alpha, pairs=cfg["checked_pairs"], other=other
        )
        store.write_distances(
            outputs["distances"], table.sample_ids, matrix, {**metadata, "aam.engine": name}
        )


@contextmanager
def _distances(
    cfg: Mapping[str, Any],
    table: FeatureTable,
    tree: TreeNode,
    metadata: Mapping[str, str],
    inputs: Files,
    runtime: RunOptions,
) -> Iterator[tuple[store.Rows, str, Engine | None]]:
    """Yield the distances, the name of the engine that computed them, and another to check them."""
    metric, samples = cfg["metric"], len(table.sample_ids)
    if "parts" in inputs:
        LOG.info("%s of %d samples from %d parts", metric, samples, len(inputs["parts"]))
        with parts.open_parts(inputs["parts"]) as opened:
            parts.check_whole(opened, samples, metadata["aam.inputs"])
            yield Matrix(Joined(opened)), Ssu.name, ScikitBio()
        return
    engine, other = choose(cfg["engine"], threads=runtime.threads, scratch=runtime.work)
    LOG.info("%s of %d samples with %s", metric, samples, engine.name)
    with engine.distances(table, tree, metric, cfg.get("alpha", 1.0)) as matrix:
        yield matrix, engine.name, other


def _write_non_phylogenetic(
    cfg: Mapping[str, Any],
    table: FeatureTable,
    metadata: Mapping[str, str],
    outputs: Files,
) -> None:
    metric, engine = cfg["metric"], compositional.Sparse()
    LOG.info("%s of %d samples", metric, len(table.sample_ids))
    with engine.distances(table, metric) as matrix:
        check.check_non_phylogenetic(matrix, table, metric, pairs=cfg["checked_pairs"])
        store.write_distances(
            outputs["distances"], table.sample_ids, matrix, {**metadata, "aam.engine": engine.name}
        )


def _write_faith_pd(
    cfg: Mapping[str, Any],
    table: FeatureTable,
    tree: TreeNode,
    metadata: Mapping[str, str],
    outputs: Files,
    runtime: RunOptions,
) -> None:
    engine, other = choose(cfg["engine"], threads=runtime.threads, scratch=runtime.work)
    LOG.info("faith_pd of %d samples with %s", len(table.sample_ids), engine.name)
    values = engine.faith_pd(table, tree)
    check.check_faith_pd(values, table, tree, samples=cfg["checked_pairs"], other=other)
    store.write_faith_pd(
        outputs["distances"], table.sample_ids, values, {**metadata, "aam.engine": engine.name}
    )
