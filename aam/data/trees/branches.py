"""The tree as the UniFrac engines need it, and its branches as a matrix."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.table import FeatureTable
from aam.util.errors import first_names, problem
from aam.util.scikit_bio import TreeNode


def read_tree(path: Path, feature_ids: Sequence[str]) -> TreeNode:
    """Read a rooted Newick tree and keep what leads to the features.

    Nodes with one child stay, so every tip keeps all branches up to the root. A length
    on the root itself is left out: `ssu` ignores it, scikit-bio would count it.

    Parameters
    ----------
    path
        The tree of the import stage.
    feature_ids
        Features of a table, all of them tips.

    Returns
    -------
    skbio.TreeNode
        The tips are the features.
    """
    tree = TreeNode.read(path, format="newick", convert_underscores=False)
    tips = {tip.name for tip in tree.tips()}
    missing = [name for name in feature_ids if name not in tips]
    assert not missing, f"{path} lacks {first_names(missing)} features of the table"
    if len(tips) > len(feature_ids):
        tree = sheared(tree, feature_ids)
    tree.length = None
    return tree


def sheared(tree: TreeNode, feature_ids: Sequence[str]) -> TreeNode:
    """Return the part of a tree that leads to some tips, every branch with its length."""
    return tree.shear(feature_ids, prune=False)


def subset(
    table: FeatureTable, tree: TreeNode, rows: NDArray[np.int64]
) -> tuple[FeatureTable, TreeNode]:
    """Return some samples, the features they have, and the part of the tree that leads to these.

    Parameters
    ----------
    table
        N samples.
    tree
        Its tips include the features of the table.
    rows
        Samples to keep, in the order to keep them.
    """
    part = samples_of(table, rows)
    return part, sheared(tree, part.feature_ids)


def samples_of(table: FeatureTable, rows: NDArray[np.int64]) -> FeatureTable:
    """Return some samples of a table, in the order of `rows`, and the features that they have."""
    counts = table.counts[rows]
    present = np.unique(counts.indices)
    counts = csr_array(counts[:, present])
    counts.sort_indices()
    feature_ids = [table.feature_ids[column] for column in present]
    return FeatureTable([table.sample_ids[row] for row in rows], feature_ids, counts)


def branches(tree: TreeNode, feature_ids: Sequence[str]) -> tuple[csr_array, NDArray[np.float64]]:
    """Return which branches lead from the root to each feature.

    Parameters
    ----------
    tree
        Its tips include the features.
    feature_ids
        F features.

    Returns
    -------
    membership
        1 where branch b lies above feature f, int64, [F, B].
    lengths
        Branch lengths, [B].
    """
    nodes = list(tree.postorder(include_self=False))
    position = {id(node): column for column, node in enumerate(nodes)}
    above: dict[int, list[int]] = {id(tree): []}
    by_tip: dict[str, list[int]] = {}
    for node in reversed(nodes):
        path = above[id(node.parent)] + [position[id(node)]]
        if node.is_tip():
            by_tip[node.name] = path
        else:
            above[id(node)] = path
    paths = [by_tip[name] for name in feature_ids]
    offsets = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
    columns = np.concatenate([np.asarray(path, dtype=np.int64) for path in paths])
    membership = csr_array(
        (np.ones(len(columns), dtype=np.int64), columns, offsets), shape=(len(paths), len(nodes))
    )
    lengths = np.array([node.length or 0.0 for node in nodes], dtype=np.float64)
    return membership, lengths


def branch_counts(table: FeatureTable, tree: TreeNode) -> tuple[csr_array, NDArray[np.float64]]:
    """Return the reads below every branch.

    Returns
    -------
    counts
        Reads of each sample below each branch, int64, [N, B].
    lengths
        Branch lengths, [B].
    """
    membership, lengths = branches(tree, table.feature_ids)
    return csr_array(table.counts @ membership), lengths


def check_lengths(table: FeatureTable, tree: TreeNode, where: Path) -> None:
    """Refuse a tree on which a distance between two samples would be 0 / 0.

    Parameters
    ----------
    table
        N samples.
    tree
        Its tips include the features of the table.
    where
        The file of the tree, for the message.

    Raises
    ------
    InputError
        If two or more samples have no branch of any length.
    """
    above: dict[int, float] = {id(tree): 0.0}
    by_tip: dict[str, float] = {}
    for node in tree.preorder(include_self=False):
        height = above[id(node.parent)] + (node.length or 0.0)
        if node.is_tip():
            by_tip[node.name] = height
        else:
            above[id(node)] = height
    heights = np.array([by_tip[name] for name in table.feature_ids])
    flat = np.flatnonzero(table.counts @ (heights > 0) == 0)
    if len(flat) > 1:
        names = first_names(table.sample_ids[row] for row in flat)
        raise problem(
            where,
            f"branches of length 0 only, above all features of samples {names}",
            "a positive length between the root and the features of every sample",
            "repair the branch lengths, or leave these samples out",
        )
