"""Which clades the label of a task depends on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

from aam.data.folds import read_folds
from aam.data.lineages import read_ranks
from aam.data.predictions import TARGET
from aam.data.rarefaction import rarefy
from aam.data.sequences import read_fasta, write_fasta
from aam.data.table import FeatureTable, read_biom
from aam.data.trees import read_tree, write_newick
from aam.evaluate.clade_tests import (
    HALF_READ,
    LOOSEST,
    ROOT,
    Clades,
    CladeTests,
    NamedClade,
    choose_rows,
)
from aam.learners.baselines.problem import Problem, problems_of_targets
from aam.stages.baselines import mean_counts
from aam.util.atomic import write_tsv
from aam.util.scikit_bio import TreeNode

COLUMNS = (
    *("clade", "taxon", "features", "p", "effect", "folds", "draws", "prevalence", "log_ratio"),
    *("direction", "representative"),
)
"""Columns of the table, before those of classes."""
DRAWS = 5
"""Further draws of rarefaction in which a named clade is tested again."""
SHARED = 0.9
"""Fraction of a clade's reads that must have a rank, for the clade to be called by it."""


def name_clades(
    *,
    folds: Path,
    views: Sequence[Path],
    tree: Path | None = None,
    taxonomy: Path | None = None,
    table: Path,
    sequences: Path,
    kind: Literal["regression", "classification", "ordinal"],
    classes: Sequence[str] | None = None,
    seed: int = 0,
    rarefaction_seed: int = 0,
    clades_out: Path,
    samples_out: Path,
    features_out: Path,
    tree_out: Path,
    sequences_out: Path,
) -> None:
    """Name the clades that each target depends on, given all others.

    Parameters
    ----------
    folds
        TSV file of the folds of the task, which has the observed values.
    views
        BIOM files of the rarefied tables.
    tree
        Newick file with a tip for every feature; None: features are tested one by one.
    taxonomy
        TSV file with the taxon of each feature; None: those of the table, where it has any.
    table
        BIOM file of the imported table.
    sequences
        FASTA file with the sequence of every feature; empty where they have none.
    kind
        Whether numbers or classes are predicted.
    classes
        Classes in their order. None: those that were observed.
    seed
        Seed of the choice of samples, where there are many.
    rarefaction_seed
        Seed of the draws of rarefaction in which the named clades are tested again.
    clades_out
        TSV file to write, a row per clade, the surest first: see docs/reference/artifacts.md.
    samples_out
        TSV file to write, a row per sample that was looked at: `sample-id`, what was observed, and
        the log-ratio of each clade, by its name.
    features_out
        TSV file to write, a row per feature that is frequent enough: `feature-id`, and `clade`, the
        named one that it is in, and `importance`, the fraction of the variance that is lost without
        this clade, empty and 0 for the others. Where there are several targets, a pair of columns
        each, which end with a colon and its name.
    tree_out
        Newick file to write: the tree that leads to the most frequent features of the clades.
    sequences_out
        FASTA file to write, with the sequence of the most frequent feature of each.
    """
    fold_table = read_folds(folds)
    counts, feature_ids, is_counted = mean_counts(views, fold_table.index)
    problems = problems_of_targets(
        fold_table,
        kind=kind,
        classes=classes,
        counts=counts,
        distances=np.zeros((0, 0), np.float32),
        above=csr_array((len(feature_ids), 0)),
        lengths=np.zeros(0),
        seed=seed,
        is_counted=is_counted,
    )
    known_tree = None if tree is None else read_tree(tree, feature_ids)
    ranks_of = read_ranks(table, taxonomy)
    looked_at = choose_rows(next(iter(problems.values())))
    samples = fold_table.iloc[looked_at].filter(regex="^observed").copy()
    seen = csr_array(counts[looked_at])
    draws = []
    if is_counted:
        imported = read_biom(table)
        depth = round(seen[[0]].sum())
        for number in range(len(views), len(views) + DRAWS):
            drawn_by = (rarefaction_seed, number)
            draws.append(_draw(imported, feature_ids, samples.index, depth, drawn_by))
    rows: list[dict[str, Any]] = []
    parts = []
    for name, task in problems.items():
        clades = Clades.of_table(seen, feature_ids, known_tree)
        tests = CladeTests.of_task(task, looked_at, clades)
        named = tests.name()
        steady = count_draws(tests, named, draws)
        part = pd.DataFrame({"clade": "", "importance": 0.0}, index=clades.features(ROOT))
        for found, passed in zip(named, steady, strict=True):
            about = describe_clade(found, passed, clades, task, looked_at, feature_ids, ranks_of)
            rows.append(({TARGET: name} if name else {}) | about)
            samples[about["clade"]] = log_ratio(clades.share_NB[:, found.node])
            part.loc[clades.features(found.node)] = about["clade"], found.effect
        parts.append(part.add_suffix(f":{name}") if name else part)
    found_table = pd.DataFrame(rows, columns=None if rows else list(COLUMNS))
    write_tsv(clades_out, found_table)
    write_tsv(samples_out, samples.rename_axis("sample-id"), index=True)
    features = pd.concat(parts, axis=1).rename(index=dict(enumerate(feature_ids)))
    write_tsv(features_out, features.rename_axis("feature-id"), index=True)
    chosen = [*dict.fromkeys(row["representative"] for row in rows)]
    write_newick(tree_out, _lead_to(chosen, known_tree))
    text_of = read_fasta(sequences)
    write_fasta(sequences_out, {name: text_of[name] for name in chosen if name in text_of})


def _draw(
    table: FeatureTable,
    feature_ids: Sequence[str],
    sample_ids: pd.Index,
    depth: int,
    seed_parts: tuple[int, int],
) -> csr_array:
    """Return reads that are drawn from some samples, as columns of some features.

    `seed_parts` are the seed and the number of the draw.
    """
    rows = pd.Index(table.sample_ids).get_indexer(sample_ids)
    drawn = rarefy(table.select_samples(rows), depth, *seed_parts)
    reads = drawn.counts.tocoo()
    column_F = pd.Index(feature_ids).get_indexer(pd.Index(drawn.feature_ids))[reads.col]
    # A rare feature may be in none of the tables of the study.
    is_known = column_F >= 0
    shape = (len(sample_ids), len(feature_ids))
    entries = (reads.row[is_known], column_F[is_known])
    return csr_array((reads.data[is_known], entries), shape=shape)


def count_draws(
    tests: CladeTests, named: Sequence[NamedClade], draws: Sequence[csr_array]
) -> list[int | None]:
    """Return in how many draws of rarefaction each named clade passes, given the others.

    Parameters
    ----------
    tests
        The tests that named them.
    named
        The clades.
    draws
        Reads of the same samples and features [N, F].

    Returns
    -------
    list of int or None
        None where there are no draws.
    """
    if not draws:
        return [None] * len(named)
    nodes = [found.node for found in named]
    passed = np.zeros(len(nodes), int)
    for counts in draws if nodes else ():
        again = tests.of_draw(counts)
        for at, node in enumerate(nodes):
            others = [other for other in nodes if other != node]
            passed[at] += again.test(node, others) <= LOOSEST
    return passed.tolist()


def _lead_to(feature_ids: Sequence[str], tree: TreeNode | None) -> TreeNode:
    """Return the part of a tree that leads to some features; without one they hang on the root."""
    if tree is None or len(feature_ids) < 2:
        # A root without children is a tip, which needs a name.
        return TreeNode("", children=[TreeNode(name, length=1.0) for name in feature_ids])
    part = tree.shear(feature_ids)
    part.length = None
    return part


def describe_clade(
    found: NamedClade,
    draws: int | None,
    clades: Clades,
    task: Problem,
    rows: NDArray[np.intp],
    feature_ids: Sequence[str],
    ranks_of: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return what the table says of a clade.

    Parameters
    ----------
    found
        The clade.
    draws
        What `count_draws` returns for it.
    clades
        All clades, of some samples.
    task
        The task.
    rows
        These samples.
    feature_ids
        IDs of the features.
    ranks_of
        Ranks of the features by ID, as far as they are known.
    """
    node = found.node
    members = clades.features(node)
    reads_F = np.asarray(task.counts[rows][:, members].sum(axis=0)).ravel()
    representative = feature_ids[members[int(reads_F.argmax())]]
    names = [feature_ids[member] for member in members.tolist()]
    share_N = clades.share_NB[:, node]
    log_N = log_ratio(share_N)
    row: dict[str, Any] = {
        "clade": representative if len(members) == 1 else f"clade of {representative}",
        "taxon": common_taxon([ranks_of.get(name, ()) for name in names], reads_F),
        "features": len(members),
        "p": found.p,
        "effect": found.effect,
        "folds": found.folds,
        "draws": draws,
        "prevalence": float((share_N > 0).mean()),
        "log_ratio": float(log_N.mean()),
    }
    target = task.target[rows]
    if task.regression:
        slope = float(stats.spearmanr(log_N, target.astype(np.float64)).statistic)
        return row | {
            "direction": "rises" if slope > 0 else "falls",
            "representative": representative,
            "correlation": slope,
        }
    units = np.unique(task.units[rows], return_inverse=True)[1]
    by_class: dict[str, float] = {}
    means = {}
    for name in task.classes:
        is_class_N = target == name
        if not is_class_N.any():
            continue
        mean, low, high = _mean_of_units(log_N[is_class_N], units[is_class_N])
        means[name] = mean
        by_class |= {
            f"prevalence:{name}": float((share_N[is_class_N] > 0).mean()),
            f"log_ratio:{name}": mean,
            f"low:{name}": low,
            f"high:{name}": high,
        }
    highest = max(means, key=lambda name: means[name])
    return row | {"direction": highest, "representative": representative} | by_class


def log_ratio(share_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln of the share of a clade against all else.

    Parameters
    ----------
    share_N
        Share of each sample's reads.
    """
    ratio_N: NDArray[np.float64] = np.log((share_N + HALF_READ) / (1 - share_N + HALF_READ))
    return ratio_N


def _mean_of_units(
    value_N: NDArray[np.float64], unit_N: NDArray[np.intp]
) -> tuple[float, float, float]:
    """Return a mean over units, and its 95 % interval; the interval is the mean of one unit."""
    number = np.bincount(unit_N)
    mean_U = np.bincount(unit_N, value_N)[number > 0] / number[number > 0]
    mean = float(mean_U.mean())
    if len(mean_U) < 2:
        return mean, mean, mean
    half = stats.t.ppf(0.975, len(mean_U) - 1) * mean_U.std(ddof=1) / np.sqrt(len(mean_U))
    return mean, mean - float(half), mean + float(half)


def common_taxon(lineages: Sequence[Sequence[str]], reads_F: NDArray[np.number]) -> str:
    """Return the lineage that most reads of some features have in common, as far down as they do.

    Parameters
    ----------
    lineages
        Ranks of each feature, the highest first; empty where they are not known.
    reads_F
        Reads of each.

    Returns
    -------
    str
        Ranks with `; ` between them; each has `SHARED` of the reads. Empty where none has.
    """
    total = float(reads_F.sum())
    common: tuple[str, ...] = ()
    while True:
        reads_of: dict[tuple[str, ...], float] = {}
        for ranks, reads in zip(lineages, reads_F.tolist(), strict=True):
            if len(ranks) > len(common) and tuple(ranks[: len(common)]) == common:
                longer = tuple(ranks[: len(common) + 1])
                reads_of[longer] = reads_of.get(longer, 0.0) + reads
        best = max(reads_of, key=lambda ranks: reads_of[ranks], default=None)
        if best is None or reads_of[best] < SHARED * total:
            return "; ".join(common)
        common = best
