"""A tree made from lineages: one unit of length a rank."""

from collections.abc import Mapping, Sequence

from aam.data.trees import split_root
from aam.util.scikit_bio import TreeNode


def build_lineage_tree(
    lineages: Mapping[str, Sequence[str]], feature_ids: Sequence[str]
) -> TreeNode:
    """Return a tree whose inner nodes are taxa, with every feature at a tip.

    Each rank is a branch of length 1. A feature that is itself the last taxon of its lineage, a
    genus of a table of genera for instance, is that node; any other one hangs below its last taxon,
    at a distance of 1. Features without a lineage hang below the root.

    Parameters
    ----------
    lineages
        Taxa of features by ID, the highest rank first.
    feature_ids
        All features of the table.
    """
    above: dict[tuple[str, ...], int] = {}
    for name in feature_ids:
        ranks = tuple(lineages.get(name, ()))
        for depth in range(len(ranks)):
            above[ranks[: depth + 1]] = above.get(ranks[: depth + 1], 0) + 1
    root = TreeNode()
    nodes: dict[tuple[str, ...], TreeNode] = {(): root}
    for name in feature_ids:
        ranks = tuple(lineages.get(name, ()))
        # A taxon that no other feature is of, and none is below, is the feature itself.
        path = ranks[:-1] if ranks and above[ranks] == 1 else ranks
        for depth in range(len(path)):
            taxon = path[: depth + 1]
            if taxon not in nodes:
                nodes[taxon] = TreeNode(length=1.0)
                nodes[taxon[:-1]].append(nodes[taxon])
        nodes[path].append(TreeNode(name=name, length=1.0))
    root.prune()
    # Pruned above a lone feature, the tree is its tip.
    return split_root(TreeNode(children=[root]) if root.is_tip() else root)
