"""A random phylogeny: a birth-death tree whose branches evolve at different rates."""

import numpy as np
from numpy.typing import NDArray

from aam.util.scikit_bio import TreeNode

DEATH = 0.5
"""Rate of extinction, relative to that of speciation."""
AGE = 7.0
"""Age of the root, in units of 1 / rate of speciation."""
DEPTH = 0.35
"""Mean distance of the tips from the root, in substitutions per site."""
CLOCK_SD = 0.4
"""Standard deviation of the logarithm of a branch's rate."""


def birth_death_tree(tips: int, rng: np.random.Generator) -> TreeNode:
    """Draw a rooted binary tree with positive branch lengths, in substitutions per site.

    The reconstructed tree of a birth-death process is a coalescent point process: the ages of
    the splits between neighbouring tips are independent draws of one distribution (Lambert and
    Stadler 2013, doi:10.1016/j.tpb.2013.10.002). The lengths are then multiplied by log-normal
    rates. The root has none, and tips have no names.

    Parameters
    ----------
    tips
        Number of tips, at least 2.
    rng
        Source of the draws.
    """
    # P(age > a) = 1 / (1 + (exp(r a) - 1) / r), truncated at the age of the root, is inverted.
    rate = 1.0 - DEATH
    oldest = 1.0 - 1.0 / (1.0 + np.expm1(rate * AGE) / rate)
    drawn = rng.uniform(0.0, oldest, size=tips - 1)
    ages = np.log1p(rate * drawn / (1.0 - drawn)) / rate
    root = coalescent_tree(ages)
    nodes = list(root.preorder(include_self=False))
    rates = np.exp(rng.normal(-0.5 * CLOCK_SD**2, CLOCK_SD, size=len(nodes)))
    scale = DEPTH / ages.max()
    for node, factor in zip(nodes, rates, strict=True):
        node.length = float(node.length * factor * scale)
    return root


def coalescent_tree(ages: NDArray[np.float64]) -> TreeNode:
    """Return the tree of a coalescent point process.

    Parameters
    ----------
    ages
        Age at which neighbours i and i + 1 split, [tips - 1]; tips have age 0.
    """
    open_nodes: list[tuple[TreeNode, float]] = [(TreeNode(), 0.0)]
    open_splits: list[float] = []
    for age in [*ages.tolist(), np.inf]:
        while open_splits and open_splits[-1] <= age:
            split = open_splits.pop()
            parent = TreeNode()
            children = [open_nodes.pop(), open_nodes.pop()]
            for node, node_age in reversed(children):
                node.length = split - node_age
                parent.append(node)
            open_nodes.append((parent, split))
        open_splits.append(age)
        open_nodes.append((TreeNode(), 0.0))
    return open_nodes[0][0]
