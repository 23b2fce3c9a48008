"""The root of a tree that was inferred without one.

Shape suffixes: E branches, each named by the node below it.
"""

import numpy as np
from numpy.typing import NDArray

from aam.data.trees.newick import split_root
from aam.util.scikit_bio import TreeNode

Floats = NDArray[np.float64]
LONG = 0.6
"""Substitutions per site of a branch that is out of all proportion in a tree of 16S: the limit by
which the corpus of `config/corpus.yaml` was cleaned."""
FEW = 0.01
"""Largest fraction of the tips that such a branch may set apart; one tip always may be."""


def root_by_variance(tree: TreeNode) -> TreeNode:
    """Root a tree, in place, where the distances from the root to the tips vary least.

    Minimum variance rooting (Mai, Sayyari and Mirarab 2017, doi:10.1371/journal.pone.0182238), in
    time linear in the number of nodes. Tips that a branch longer than `LONG` sets apart, at most a
    fraction `FEW` of all, are not counted: for one of them, mostly junk, the root would lie far
    away from all others, and every distance between samples would be small.

    Parameters
    ----------
    tree
        A tree with branch lengths, rooted anywhere.

    Returns
    -------
    TreeNode
        The same tree with a root of two children, one of length 0 where the root falls on a node.
    """
    tips = list(tree.tips())
    if len(tips) == 2:
        half = tips[0].distance(tips[1]) / 2
        return TreeNode(children=[TreeNode(tip.name, half) for tip in tips])
    nodes = [node for node in tree.postorder() if node is not tree]
    place_E, variance_E = _best_places(tree, nodes)
    # The first of equals, in an order that follows from the tree alone.
    best = int(np.argmin(variance_E))
    rooted = tree.root_at(nodes[best], above=float(place_E[best]), inplace=True)
    rooted.length = None
    return split_root(rooted)


def set_apart(tree: TreeNode) -> list[tuple[list[str], float]]:
    """Return the tips behind each branch out of all proportion, and its length.

    Those are branches longer than `LONG` that set apart at most a fraction `FEW` of the tips. A
    root of two children divides one branch.

    Parameters
    ----------
    tree
        A rooted tree with branch lengths.

    Returns
    -------
    list of tuple
        Names of the tips, and the length of the branch in substitutions per site; the longest
        branch first.
    """
    few = max(1, int(FEW * sum(1 for _ in tree.tips())))
    found = []
    for node in tree.postorder():
        length = node.length or 0.0
        if node.parent is tree and len(tree.children) == 2:
            length = sum(child.length or 0.0 for child in tree.children)
        if length > LONG:
            names = [tip.name for tip in node.tips(include_self=True)]
            if len(names) <= few:
                found.append((names, float(length)))
    return sorted(found, key=lambda branch: (-branch[1], branch[0]))


def _best_places(tree: TreeNode, nodes: list[TreeNode]) -> tuple[Floats, Floats]:
    """Return per branch the place of the root, above the lower node, and the variance there.

    With d the distances of the tips below from the lower node and e those of the others from the
    upper one, a root at x on a branch of length l has the distances d + x and e + l - x.
    """
    number = {id(node): place for place, node in enumerate([*nodes, tree])}
    above = np.array([number[id(node.parent)] for node in nodes])
    length_E = np.array([node.length or 0.0 for node in nodes])
    # Number, sum, and sum of squares of the distances of the counted tips below each node.
    below = np.zeros((len(nodes) + 1, 3))
    below[:, 0] = _counted(nodes, length_E)
    for node, parent in enumerate(above):
        below[parent] += _moved(below[node], length_E[node])
    total = below.copy()
    for node in reversed(range(len(nodes))):
        outside = total[above[node]] - _moved(below[node], length_E[node])
        total[node] = below[node] + _moved(outside, length_E[node])
    moved = np.stack([_moved(sums, x) for sums, x in zip(below, length_E, strict=False)])
    (n, d, dd), (m, e, ee) = below[:-1].T, (total[above] - moved).T
    # The mean is a + b x and the mean square p + q x + x^2.
    tips = below[-1, 0]
    a = (d + e + m * length_E) / tips
    b = (n - m) / tips
    p = (dd + ee + 2 * length_E * e + m * length_E**2) / tips
    q = 2 * (d - e - m * length_E) / tips
    inside = (n > 0) & (m > 0)
    x = np.divide(2 * a * b - q, 2 * (1 - b**2), out=np.zeros_like(a), where=inside)
    place_E = np.clip(x, 0.0, length_E)
    variance_E = p + q * place_E + place_E**2 - (a + b * place_E) ** 2
    return place_E, np.where(inside, variance_E, np.inf)


def _counted(nodes: list[TreeNode], length_E: Floats) -> NDArray[np.bool_]:
    """Return which nodes, and the root behind them, are tips that no long branch sets apart."""
    is_tip = np.array([*(node.is_tip() for node in nodes), False])
    last = np.cumsum(is_tip[:-1])
    # The tips below a node come right before it in this order, as many as it has.
    tips = {id(node): 1 for node in nodes if node.is_tip()}
    counted = np.ones(int(is_tip.sum()), bool)
    number = int(is_tip.sum())
    few = max(1, int(FEW * number))
    for node, end, length in zip(nodes, last, length_E, strict=True):
        own = tips.setdefault(id(node), sum(tips[id(child)] for child in node.children))
        if length > LONG and min(own, number - own) <= few:
            apart = np.zeros(number, bool)
            apart[end - own : end] = True
            counted[apart if own <= few else ~apart] = False
    is_tip[is_tip] = counted if counted.sum() > 1 else True
    return is_tip


def _moved(sums: Floats, length: float) -> Floats:
    """Return number, sum and sum of squares of distances that are longer by a length."""
    number, first, second = sums
    longer = first + number * length
    return np.array([number, longer, second + length * (first + longer)])
