"""Distances between all samples of a rarefied table, or their Faith's PD."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from aam.config.metrics import METRICS, Parameters
from aam.data.table import FeatureTable, read_biom
from aam.data.trees import branches
from aam.unifrac import check, parts, store
from aam.unifrac.engines import Engine, ScikitBio, Setting, Sparse, choose
from aam.unifrac.stripes import Joined, StripeMatrix
from aam.util.scikit_bio import TreeNode

Wanted = tuple[FeatureTable, TreeNode | None, str, Parameters]
"""The table, the tree where one is needed, the metric and its parameters."""
LOG = logging.getLogger(__name__)


def compute_distances(
    *,
    table: Path,
    tree: Path | None = None,
    computed: Sequence[Path] | None = None,
    metric: str,
    alpha: float | None = None,
    engine: Setting = "auto",
    checked_pairs: int = 50,
    threads: int = 1,
    work: Path | None = None,
    distances_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Compute one metric of one rarefied table, or join its parts, check a sample, and write it.

    Parameters
    ----------
    table
        BIOM file of a rarefied table.
    tree
        Newick file with a tip for every ASV, for the metrics that need a tree.
    computed
        Parquet files of the parts, where several jobs have computed the matrix
        (`aam.stages.unifrac_part`). None: it is computed here.
    metric
        Name of the metric, as in `aam.config.metrics`.
    alpha
        Exponent of generalized UniFrac; other metrics have none.
    engine
        What computes phylogenetic metrics.
    checked_pairs
        Pairs of samples that are computed a second time, by another engine.
    threads
        Cores to use.
    work
        Folder for scratch files.
    distances_out
        Parquet file to write: a matrix, or a value per sample.
    provenance
        Metadata of the file that is written (`aam.util.provenance`). Where parts are joined, its
        digests of the inputs have to be theirs.

    Raises
    ------
    InputError
        An engine is not installed, branches of the tree are unsuitable for the metric, or parts
        are missing.
    """
    counted = read_biom(table)
    facts = METRICS[metric]
    tree_of_table = None
    if facts.phylogenetic:
        assert tree is not None, f"{metric} needs a tree"
        tree_of_table = branches.read_tree(tree, counted.feature_ids)
        if facts.is_ratio:
            above_FB, length_B = branches.branches(tree_of_table, counted.feature_ids)
            height_F = above_FB @ length_B
            branches.check_lengths(counted.sample_ids, counted.counts, height_F, tree)
    wanted = (counted, tree_of_table, metric, facts.parameters_in({"alpha": alpha}))
    if computed is not None:
        source = _join_parts(wanted, computed, provenance)
    else:
        source = _compute(wanted, engine, threads, work)
    with source as (values, name, other):
        check.check(values, *wanted, count=checked_pairs, other=other)
        write = store.write_faith_pd if facts.per_sample else store.write_distances
        write(distances_out, counted.sample_ids, values, {**provenance, "aam.engine": name})


Source = tuple[store.Values, str, Engine | None]
"""The values, the name of the engine that computed them, and another to check them."""


@contextmanager
def _join_parts(
    wanted: Wanted, computed: Sequence[Path], provenance: Mapping[str, str]
) -> Iterator[Source]:
    """Yield the values that several jobs have computed."""
    samples = len(wanted[0].sample_ids)
    LOG.info("%s of %d samples from %d parts", wanted[2], samples, len(computed))
    with parts.open_parts(computed) as opened:
        parts.check_whole(opened, samples, provenance["aam.inputs"])
        yield StripeMatrix(Joined(opened)), opened[0].engine, ScikitBio()


@contextmanager
def _compute(
    wanted: Wanted,
    setting: Setting,
    threads: int,
    work: Path | None,
) -> Iterator[Source]:
    """Yield values that are computed here."""
    name = wanted[2]
    samples = len(wanted[0].sample_ids)
    engine: Engine = Sparse()
    other: Engine | None = None
    if METRICS[name].phylogenetic:
        engine, other = choose(setting, samples=samples, metric=name, threads=threads, scratch=work)
    LOG.info("%s of %d samples with %s", name, samples, engine.name)
    with engine.compute(*wanted) as values:
        yield values, engine.name, other
