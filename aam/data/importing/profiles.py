"""Tables of profilers, in which the same abundance stands in several rows, of which one is kept.

MetaPhlAn and the reports of Kraken in its style have a row for each taxon of every rank, HUMAnN one
for each function and others for the shares of its species, and both one for what they could not
assign.
Shape suffixes: N samples, F features.
"""

import logging
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from scipy.sparse import csr_array

from aam.data.importing.layout import Layout
from aam.data.importing.taxonomy import without_bootstraps
from aam.data.nouns import RANKS, rank_of_taxon
from aam.util.errors import first_names

logger = logging.getLogger(__name__)
ORDER = tuple(dict.fromkeys(RANKS.values()))
"""Ranks from the highest to the lowest."""
DEFAULT_RANK = "species"
"""The rank that is kept of a table of all ranks."""
NOUNS = {"pathway": "pathway", "genefamily": "gene family"}
"""What HUMAnN's tables hold by the simple name of their first column."""
UNASSIGNED = frozenset(
    {"UNMAPPED", "UNINTEGRATED", "UNGROUPED", "READS_UNMAPPED", "UNCLASSIFIED", "UNKNOWN"}
)
"""What MetaPhlAn and HUMAnN call what they could not assign."""
LEAST_OF_A_HIERARCHY = 0.9
"""Share of the rows that have the row above them, from which on a table has all ranks."""
LEAST_SUMS = 0.95
"""Share of the values that hold at least the sum of those below them, from which on rows repeat
what the rows below them say."""
_ROUNDING = 0.01
"""Share of a value by which rounded values below it may exceed it."""
_SEPARATOR = re.compile(r"\s*[|;]\s*")


def split_lineage(text: str) -> list[str]:
    """Return the taxa of a lineage, from the highest rank to the lowest.

    Parameters
    ----------
    text
        Taxa with `|` or `;` between them, perhaps with mothur's bootstrap values: `Bacteria(100);`.
    """
    return _SEPARATOR.split(without_bootstraps(text).strip().rstrip(";|"))


def is_lineage(text: str) -> bool:
    """Tell whether an ID is a lineage: its first taxon has the prefix of a rank, as in `k__`.

    Parameters
    ----------
    text
        The ID of a feature.
    """
    return rank_of_taxon(split_lineage(text)[0]) is not None


def rank_of(name: str) -> str | None:
    """Return the rank of the last taxon of a lineage, None where it has no prefix of one.

    Parameters
    ----------
    name
        A lineage such as `k__Bacteria|p__Firmicutes`.
    """
    return rank_of_taxon(split_lineage(name)[-1])


def keep_once(
    path: Path,
    layout: Layout,
    *,
    level_of: Mapping[str, str] = MappingProxyType({}),
) -> Layout:
    """Leave out the features whose abundance others hold, and what no feature was found for.

    Warnings say which rank is kept, and how many rows are left out.

    Parameters
    ----------
    path
        The user's file, for messages.
    layout
        The table.
    level_of
        Rank by feature ID, where the file has it beside the ID; empty: the lineages say it.
    """
    layout = _drop_strata(path, layout)
    layout = _keep_rank(path, layout, level_of)
    return _drop_unassigned(path, layout)


def _drop_strata(path: Path, layout: Layout) -> Layout:
    """Leave out HUMAnN's rows of single species: `PWY-1|g__A.s__B` below `PWY-1`."""
    if any(is_lineage(name) for name in layout.feature_ids):
        return layout
    whole = {name for name in layout.feature_ids if "|" not in name}
    strata = [name for name in layout.feature_ids if "|" in name]
    known = [name for name in strata if name.partition("|")[0] in whole]
    if not known or len(known) < LEAST_OF_A_HIERARCHY * len(strata):
        return layout
    logger.warning(
        "%s: %d rows that divide others by species are left out, as in tables of HUMAnN (%s); the "
        "%d rows of whole functions are read",
        path,
        len(strata),
        first_names(strata, limit=1),
        len(whole),
    )
    return without_features(layout, strata, "a share of another feature")


def _keep_rank(path: Path, layout: Layout, level_of: Mapping[str, str]) -> Layout:
    """Keep the species of a table whose higher ranks hold the sums of the lower.

    Without any species, the lowest rank above is kept.
    """
    rank_F = [level_of.get(name) or rank_of(name) for name in layout.feature_ids]
    count_by_rank = Counter(one for one in rank_F if one is not None)
    present = [one for one in ORDER if count_by_rank[one]]
    # Those of one rank hold nothing of each other, and what has no rank at all is another table.
    if len(present) < 2 or not (level_of or _repeats(path, layout, rank_F)):
        return layout
    highest = next(iter(present))
    low_enough = [one for one in present if ORDER.index(one) <= ORDER.index(DEFAULT_RANK)]
    kept = (low_enough or present)[-1]
    sums = {
        one: layout.counts[:, [i for i, other in enumerate(rank_F) if other == one]].sum()
        for one in (highest, kept)
    }
    total = sums[highest]
    logger.warning(
        "%s: it has rows of several ranks (%s), and the higher ones hold the sums of the lower: "
        "the %s of rank %s are read, with %.0f %% of what stands at the rank %s; to have another "
        "rank, delete the rows of the others",
        path,
        ", ".join(f"{one} {count_by_rank[one]}" for one in present),
        f"{count_by_rank[kept]} rows",
        kept,
        100 * sums[kept] / total if total else 0,
        highest,
    )
    others = [
        name
        for name, one in zip(layout.feature_ids, rank_F, strict=True)
        if one != kept and name not in UNASSIGNED
    ]
    return without_features(layout, others, f"not of the rank {kept}")


def _repeats(path: Path, layout: Layout, rank_F: Sequence[str | None]) -> bool:
    """Tell whether features of higher ranks hold the sums of those below them."""
    column_of = {
        tuple(split_lineage(name)): column
        for column, name in enumerate(layout.feature_ids)
        if rank_F[column] is not None
    }
    top = min(len(taxa) for taxa in column_of)
    below = {taxa: column for taxa, column in column_of.items() if len(taxa) > top}
    pairs = [
        (column, column_of[taxa[:-1]]) for taxa, column in below.items() if taxa[:-1] in column_of
    ]
    if not pairs or len(pairs) < LEAST_OF_A_HIERARCHY * len(below):
        return False
    child, parent = np.array(pairs).T
    size = len(layout.feature_ids)
    above = csr_array((np.ones(len(pairs)), (child, parent)), shape=(size, size))
    sums = csr_array(layout.counts @ above).tocoo()
    is_filled = sums.data > 0
    row, column = sums.row[is_filled], sums.col[is_filled]
    largest_N = np.asarray(layout.counts.sum(axis=1)).ravel()
    held = np.asarray(layout.counts[row, column]).ravel()
    slack = _ROUNDING * held + 1e-4 * largest_N[row]
    share = float((sums.data[is_filled] <= held + slack).mean()) if is_filled.any() else 0.0
    if share < LEAST_SUMS:
        logger.warning(
            "%s: it has rows of several ranks, but the higher ones do not hold the sums of the "
            "lower: all rows are read; if some repeat what others hold, delete them",
            path,
        )
    return share >= LEAST_SUMS


def _drop_unassigned(path: Path, layout: Layout) -> Layout:
    """Leave out what MetaPhlAn and HUMAnN could not assign, which is no feature."""
    names = [name for name in layout.feature_ids if name in UNASSIGNED]
    if not names or len(names) == len(layout.feature_ids):
        return layout
    column_of = {name: column for column, name in enumerate(layout.feature_ids)}
    total_N = np.asarray(layout.counts.sum(axis=1)).ravel()
    shown = []
    for name in names:
        part_N = layout.counts[:, [column_of[name]]].toarray().ravel()
        share = float(np.mean(part_N[total_N > 0] / total_N[total_N > 0])) if total_N.any() else 0
        shown.append(f"{name} ({100 * share:.0f} % in the mean)")
    logger.warning(
        "%s: rows of what was not assigned are left out: %s; the others are read",
        path,
        ", ".join(shown),
    )
    return without_features(layout, names, "what was not assigned")


def without_features(layout: Layout, names: Collection[str], why: str) -> Layout:
    """Return a table without some features, which are listed as left out.

    Parameters
    ----------
    layout
        The table.
    names
        IDs of the features.
    why
        The reason that is listed.
    """
    if not names:
        return layout
    left = set(names)
    kept = [column for column, name in enumerate(layout.feature_ids) if name not in left]
    return replace(
        layout,
        feature_ids=[layout.feature_ids[column] for column in kept],
        counts=csr_array(layout.counts[:, kept]),
        left_out=[*layout.left_out, *(("feature", name, why) for name in names)],
    )
