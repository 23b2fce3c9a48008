"""One rarefied view of the table."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from aam.data.rarefaction import rarefy
from aam.data.table import read_biom, write_biom
from aam.util.atomic import write_tsv
from aam.util.errors import problem

logger = logging.getLogger(__name__)


def rarefy_table(
    *,
    table: Path,
    tree: Path | None = None,
    depth: int,
    seed: int,
    view: int,
    table_out: Path,
    dropped_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Draw the same number of reads from every sample of a table.

    Parameters
    ----------
    table
        BIOM file of an imported table.
    tree
        Newick file with a tip for every ASV. Where it is given, ASVs behind long branches are left
        out before reads are drawn, if features are known by sequences.
    depth
        Reads to draw from each sample. Samples with fewer are dropped.
    seed
        Seed of the draws.
    view
        Number of the draw, from 0. Each number gives another draw of the same seed.
    table_out
        BIOM file to write, with the samples that are left and the ASVs that were drawn.
    dropped_out
        TSV file to write, with the dropped samples and their reads.
    provenance
        Metadata of the table that is written (`aam.util.digests`).

    Raises
    ------
    InputError
        No sample has enough reads, or every ASV is behind a long branch.
    """
    whole = read_biom(table)
    if tree is not None and not whole.facts.has_sequences:
        logger.warning(
            "no feature is left out behind a long branch: features without sequences have none "
            "whose length is known; set rarefaction.long_branches: keep"
        )
    elif tree is not None:
        # These are imported here: importing scikit-bio takes half of this stage's time, and few
        # tables need it.
        from aam.data.tree_building import LONG_BRANCH, outlier_branches
        from aam.data.trees import read_newick

        behind_long_branches: set[str] = set()
        for names, _ in outlier_branches(read_newick(tree)):
            behind_long_branches.update(names)
        if behind_long_branches.issuperset(whole.feature_ids):
            raise problem(
                tree,
                "a long branch above every feature",
                f"branches in substitutions per site, most of them shorter than {LONG_BRANCH}",
                "set rarefaction.long_branches: keep",
            )
        whole = whole.without_features(behind_long_branches)
        logger.info("%d features behind long branches left out", len(behind_long_branches))
    drawn = rarefy(whole, depth, seed, view)
    reads = pd.Series(whole.reads, index=pd.Index(whole.sample_ids, name="sample-id"))
    # Of amounts no sample is dropped, however small they are.
    is_dropped = ~reads.index.isin(drawn.sample_ids)
    dropped = pd.DataFrame({"reads": reads[is_dropped], "depth": depth})
    logger.info(
        "view %d at %d reads: %d of %d samples, %d of %d features",
        view,
        depth,
        len(drawn.sample_ids),
        len(whole.sample_ids),
        len(drawn.feature_ids),
        len(whole.feature_ids),
    )
    write_tsv(dropped_out, dropped, index=True)
    write_biom(table_out, drawn, provenance)
