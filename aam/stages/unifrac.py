"""Distances between all samples of a rarefied table, or their Faith's PD."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aam.config.metrics import METRICS, Parameters
from aam.config.settings.data import EngineName
from aam.data.table import FeatureTable, read_biom
from aam.data.trees import check_lengths, find_branches, read_tree
from aam.distances import check, store
from aam.distances.engines import Engine, ScikitBio, Sparse, choose_engine
from aam.distances.stripes import Joined, StripeMatrix, check_whole, open_parts
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Wanted:
    """A metric of a table."""

    table: FeatureTable
    """Reads of a rarefied table."""
    tree: TreeNode | None
    """Tree with the table's features at its tips; None: the metric needs none."""
    metric: str
    """A key of `aam.config.metrics.METRICS`."""
    parameters: Parameters
    """Parameters of the metric by name."""


@dataclass(frozen=True, eq=False)
class _Computed:
    """Values of a metric, not yet checked."""

    values: store.Values
    """Distances of all samples, or a value of each."""
    engine: str
    """Name of the engine that computed them."""
    other: Engine | None
    """An engine that did not compute them, to check them; None: there is none."""


def compute_distances(
    *,
    table: Path,
    tree: Path | None = None,
    computed: Sequence[Path] | None = None,
    metric: str,
    alpha: float | None = None,
    engine: EngineName = "auto",
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
        Metadata of the file that is written (`aam.util.digests`). Where parts are joined, its
        digests of the inputs have to be theirs.

    Raises
    ------
    InputError
        An engine is not installed, branches of the tree are unsuitable for the metric, or parts
        are missing.
    """
    counted = read_biom(table)
    facts = METRICS[metric]
    wanted = _Wanted(
        table=counted,
        tree=_read_tree(tree, counted, metric),
        metric=metric,
        parameters=facts.parameters_in({"alpha": alpha}),
    )
    if computed is not None:
        source = _join_parts(wanted, computed, provenance)
    else:
        source = _compute(wanted, engine, threads, work)
    with source as found:
        check.check_values(
            found.values,
            table=wanted.table,
            tree=wanted.tree,
            metric=wanted.metric,
            parameters=wanted.parameters,
            count=checked_pairs,
            other=found.other,
        )
        write = store.write_faith_pd if facts.per_sample else store.write_distances
        about = {**provenance, "aam.engine": found.engine}
        write(distances_out, counted.sample_ids, found.values, about)


def _read_tree(path: Path | None, table: FeatureTable, metric: str) -> TreeNode | None:
    """Return the tree of a table, whose branches suit the metric; None: the metric needs none."""
    facts = METRICS[metric]
    if not facts.phylogenetic:
        return None
    assert path is not None, f"{metric} needs a tree"
    tree = read_tree(path, table.feature_ids)
    if facts.is_ratio:
        above_FB, length_B = find_branches(tree, table.feature_ids)
        height_F = above_FB @ length_B
        check_lengths(table.sample_ids, table.counts, height_F, path)
    return tree


@contextmanager
def _join_parts(
    wanted: _Wanted, computed: Sequence[Path], provenance: Mapping[str, str]
) -> Iterator[_Computed]:
    """Yield the values that several jobs have computed."""
    samples = len(wanted.table.sample_ids)
    logger.info("%s of %d samples from %d parts", wanted.metric, samples, len(computed))
    with open_parts(computed) as opened:
        check_whole(opened, samples, provenance["aam.inputs"])
        yield _Computed(
            values=StripeMatrix(Joined(opened)), engine=opened[0].engine, other=ScikitBio()
        )


@contextmanager
def _compute(
    wanted: _Wanted, setting: EngineName, threads: int, work: Path | None
) -> Iterator[_Computed]:
    """Yield values that are computed here."""
    metric = wanted.metric
    samples = len(wanted.table.sample_ids)
    engine: Engine = Sparse()
    other: Engine | None = None
    if METRICS[metric].phylogenetic:
        engine, other = choose_engine(
            setting, samples=samples, metric=metric, threads=threads, scratch=work
        )
    logger.info("%s of %d samples with %s", metric, samples, engine.name)
    computation = engine.compute(
        table=wanted.table, tree=wanted.tree, metric=metric, parameters=wanted.parameters
    )
    with computation as values:
        yield _Computed(values=values, engine=engine.name, other=other)
