"""Import the phylogeny, or make one."""

import logging

from aam.data.importing.tree import cut_to, load_tree
from aam.data.sequences import read_fasta
from aam.data.table import read_biom
from aam.data.trees.infer import build_tree
from aam.data.trees.newick import write_newick
from aam.data.trees.rooting import LONG, root_by_variance, set_apart
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.errors import first_names
from aam.util.scikit_bio import TreeNode

log = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Check the user's tree and cut it to the features, or build one from the sequences."""
    if "tree" in inputs:
        is_rooted = cfg["root"] == "given"
        given = load_tree(inputs["tree"], is_rooted=is_rooted)
        tips = given.count(tips=True)
        feature_ids = read_biom(inputs["table"]).feature_ids
        tree = cut_to(given, feature_ids, inputs["tree"])
        tree = tree if is_rooted else root_by_variance(tree)
        log.info("tree of %d tips, cut to the %d features of the table", tips, len(feature_ids))
    else:
        tree = build_tree(read_fasta(inputs["sequences"]), runtime.threads, runtime.work)
    _warn_of_long_branches(tree)
    write_newick(outputs["tree"], tree)


def _warn_of_long_branches(tree: TreeNode) -> None:
    found = set_apart(tree)
    if not found:
        return
    total = sum(node.length or 0.0 for node in tree.traverse())
    names = list(dict.fromkeys(name for names, _ in found for name in names))
    log.warning(
        "%d ASVs lie behind branches longer than %g substitutions per site, which are %.1f %% of "
        "the tree: %s. UniFrac between samples with and without them grows by up to that much. "
        "If they are artefacts, leave them out: rarefaction: {long_branches: drop}",
        *(len(names), LONG, 100 * sum(length for _, length in found) / total, first_names(names)),
    )
