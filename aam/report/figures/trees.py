"""Trees beside the rows of other panels."""

import itertools

from matplotlib.axes import Axes

from aam.report.figures.style import BLACK, GREY
from aam.util.scikit_bio import TreeNode


def draw_tree(axes: Axes, tree: TreeNode) -> None:
    """Draw tips at heights 0, 1, … and a branch in the middle of those that it divides into.

    Negative lengths count as 0.

    Parameters
    ----------
    axes
        Where to draw. Rows of another panel that shares its heights can name the tips.
    tree
        The tree; tips have the order of a walk in postorder.
    """
    end_by_node = _branch_ends(tree)
    right = max(end_by_node.values())
    height_by_node: dict[int, float] = {}
    tips = itertools.count()
    for node in tree.postorder():
        below = [height_by_node[id(child)] for child in (node.children or [])]
        height = (below[0] + below[-1]) / 2 if below else float(next(tips))
        height_by_node[id(node)] = height
        end = end_by_node[id(node)]
        start = end if node.parent is None else end_by_node[id(node.parent)]
        axes.plot([start, end], [height, height], color=BLACK, linewidth=0.9)
        if below:
            axes.plot([end, end], [below[0], below[-1]], color=BLACK, linewidth=0.9)
        else:
            # A dotted line leads to the name of the tip.
            axes.plot([end, right], [height, height], color=GREY, lw=0.6, ls=":")
    axes.set_xlim(-0.02 * right, 1.02 * right if right > 0 else 1)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("branch length")
    axes.set_title("Tree")


def _branch_ends(tree: TreeNode) -> dict[int, float]:
    """Return how far from the root the branch of each node ends, by the ID of the node."""
    end_by_node: dict[int, float] = {}
    for node in tree.preorder():
        if node.parent is None:
            end_by_node[id(node)] = 0.0
        else:
            length = max(node.length or 0.0, 0.0)
            end_by_node[id(node)] = end_by_node[id(node.parent)] + length
    return end_by_node
