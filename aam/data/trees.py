"""Trees that stages exchange: their files (Newick), and their branches as a matrix.

Shape suffixes: N samples, F features, B branches.
"""

import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, get_index_dtype

from aam.data.table import FeatureTable
from aam.util.atomic import write_text
from aam.util.errors import count_names, problem
from aam.util.scikit_bio import TreeNode

_NO_SYNTAX = re.compile(r"'(?:[^']|'')*'|\[[^\]]*\]")
"""Quoted names and comments."""
_TWO_LENGTHS = re.compile(r":[^,();:]*:")
_QUOTED = frozenset(" \t(),:;[]'\"")


def read_newick(path: Path) -> TreeNode:
    """Read a tree of the package; underscores in names stay what they are.

    Parameters
    ----------
    path
        A file that `write_newick` wrote.
    """
    return parse_newick(path.read_text(encoding="utf-8"))


def parse_newick(text: str) -> TreeNode:
    """Parse Newick without turning underscores in names into spaces.

    scikit-bio's reader cannot read names of brackets, commas, colons or quotes alone.

    Parameters
    ----------
    text
        One tree in the Newick format.

    Raises
    ------
    ValueError
        There are two trees, or a branch has two lengths, which scikit-bio would take for one; or
        the text is not Newick.
    """
    bare = _NO_SYNTAX.sub("", text)
    if ";" in bare.strip().removesuffix(";"):
        raise ValueError("more than one tree")
    doubled = _TWO_LENGTHS.search(bare)
    if doubled is not None:
        raise ValueError(f"a branch of two lengths, {doubled[0]}")
    return TreeNode.read(
        io.StringIO(text), format="newick", verify=False, convert_underscores=False
    )


def split_root(tree: TreeNode) -> TreeNode:
    """Give a root of many children two: the first, and a branch of length zero to the others.

    Parameters
    ----------
    tree
        The tree, which is changed in place and returned.
    """
    if len(tree.children) > 2:
        first, *others = tree.children
        tree.children = [first]
        tree.append(TreeNode(length=0.0, children=others))
    return tree


def write_newick(path: Path, tree: TreeNode) -> None:
    """Write a tree atomically, lengths with all their digits, without names of inner nodes.

    Names of tips stand in quotes only where Newick demands it: scikit-bio's writer would quote
    names with underscores and turn spaces into underscores, which is other names to other readers.

    Parameters
    ----------
    path
        File to write.
    tree
        The tree, with a name at every tip.
    """
    text: dict[int, str] = {}
    for node in tree.postorder():
        inner = ",".join(text.pop(id(child)) for child in node.children)
        length = "" if node.length is None else f":{float(node.length)!r}"
        text[id(node)] = (f"({inner})" if node.children else _label(node.name)) + length
    write_text(path, text[id(tree)] + ";\n")


def _label(name: str) -> str:
    if _QUOTED.isdisjoint(name):
        return name
    return "'" + name.replace("'", "''") + "'"


def read_tree(path: Path, feature_ids: Sequence[str]) -> TreeNode:
    """Read a tree of the import stage, and keep what leads to some features, which are its tips.

    A length on the root itself is left out: `ssu` ignores it, scikit-bio would count it.

    Parameters
    ----------
    path
        Newick file of the package.
    feature_ids
        Features to keep; all are tips of the tree.
    """
    tree = read_newick(path)
    tips = {tip.name for tip in tree.tips()}
    missing = [name for name in feature_ids if name not in tips]
    assert not missing, f"{path} lacks {count_names('feature', missing)} of the table"
    if len(tips) > len(feature_ids):
        tree = tree.shear(feature_ids, prune=False)
    tree.length = None
    return tree


def find_branches(
    tree: TreeNode, feature_ids: Sequence[str]
) -> tuple[csr_array, NDArray[np.float64]]:
    """Return which branches lie above which features, and how long they are.

    Parameters
    ----------
    tree
        A tree with the features at its tips.
    feature_ids
        The features, in the order of the rows.

    Returns
    -------
    membership : scipy.sparse.csr_array
        1 where branch b lies above feature f, int64 [F, B].
    lengths : numpy.ndarray
        Lengths of the branches, float64 [B]; a missing length counts as 0.
    """
    nodes = list(tree.postorder(include_self=False))
    above: dict[int, list[int]] = {id(tree): []}
    by_tip: dict[str, list[int]] = {}
    # In reverse postorder a node comes before its children, which extend its path from the root.
    for column, node in reversed(list(enumerate(nodes))):
        above[id(node)] = [*above[id(node.parent)], column]
        if node.is_tip():
            by_tip[node.name] = above.pop(id(node))
    paths = [by_tip[name] for name in feature_ids]
    offsets = np.cumsum([0, *map(len, paths)])
    # Products take the type of their factors' indices, and those of 64 bits would double the memory
    # of a large table.
    index = get_index_dtype(maxval=max(int(offsets[-1]), len(nodes)))
    columns = np.concatenate([np.asarray(path, dtype=index) for path in paths])
    membership = csr_array(
        (np.ones(len(columns), dtype=np.int64), columns, offsets.astype(index)),
        shape=(len(paths), len(nodes)),
    )
    return membership, np.array([node.length or 0.0 for node in nodes], dtype=np.float64)


def branches_of(
    path: Path | None, feature_ids: Sequence[str]
) -> tuple[csr_array, NDArray[np.float64]]:
    """Return the branches of a file as `find_branches` does; none where there is no tree.

    Parameters
    ----------
    path
        Newick file of the package; None: there is no tree.
    feature_ids
        The features, in the order of the rows.
    """
    if path is None:
        return csr_array((len(feature_ids), 0), dtype=np.int64), np.zeros(0)
    return find_branches(read_tree(path, feature_ids), feature_ids)


def branch_fractions(table: FeatureTable, tree: TreeNode) -> tuple[csr_array, NDArray[np.float64]]:
    """Return the fraction of each sample's reads below each branch.

    Parameters
    ----------
    table
        The reads.
    tree
        A tree with the table's features at its tips.

    Returns
    -------
    fractions : scipy.sparse.csr_array
        float64 [N, B].
    lengths : numpy.ndarray
        Lengths of the branches, float64 [B].
    """
    membership, lengths = find_branches(tree, table.feature_ids)
    return fractions_below(table.counts, table.reads, membership), lengths


def fractions_below(
    counts_NF: csr_array, reads_N: NDArray[np.float64], membership_FB: csr_array
) -> csr_array:
    """Return the fraction of each sample's reads below each branch.

    Parameters
    ----------
    counts_NF
        Reads of the features.
    reads_N
        Reads of the samples.
    membership_FB
        1 where a feature lies below a branch, as `find_branches` returns it.

    Returns
    -------
    scipy.sparse.csr_array
        float64 [N, B].
    """
    counts_NB = csr_array(counts_NF @ membership_FB)
    totals = np.repeat(reads_N, np.diff(counts_NB.indptr))
    fractions = counts_NB.data / totals
    return csr_array((fractions, counts_NB.indices, counts_NB.indptr), counts_NB.shape)


def check_lengths(
    sample_ids: Sequence[str], counts_NF: csr_array, height_F: NDArray[np.float64], where: Path
) -> None:
    """Check that no distance on a tree would be 0 / 0.

    Parameters
    ----------
    sample_ids
        IDs of the samples.
    counts_NF
        Their reads.
    height_F
        Distances from the root to the features.
    where
        File of the tree, for the message.

    Raises
    ------
    InputError
        Two samples or more have features on branches of length 0 alone.
    """
    flat = np.flatnonzero(counts_NF @ (height_F > 0) == 0)
    # A single such sample does no harm: its distance to any other has that one's branches to divide
    # by.
    if len(flat) > 1:
        samples = count_names("sample", [sample_ids[int(row)] for row in flat])
        actual = f"branches of length 0 only, above all features of {samples}"
        expected = "a positive length between the root and the features of every sample"
        hint = "repair the branch lengths, or leave these samples out"
        raise problem(where, actual, expected, hint)
