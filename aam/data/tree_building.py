"""A tree made from the sequences: MAFFT, FastTree, minimum variance rooting, outlier branches.

Shape suffixes: E branches, each named by the node below it.
"""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.data.outlier_branches import DROP, LARGEST_OUTLIER, LONG_BRANCH, MUCH_OF_TREE
from aam.data.trees import parse_newick, split_root
from aam.util.errors import first_names, problem
from aam.util.notes import CAUTION
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)
Floats = NDArray[np.float64]
_PROGRAMS = {"mafft": ("mafft",), "fasttree": ("fasttree", "FastTree")}


def root_by_variance(tree: TreeNode) -> TreeNode:
    """Root a tree, in place, where the distances from the root to the tips vary least.

    Minimum variance rooting (Mai, Sayyari and Mirarab 2017, doi:10.1371/journal.pone.0182238), in
    time linear in the number of nodes. Tips behind outlier branches, which are longer than
    `LONG_BRANCH` and separate at most a fraction `LARGEST_OUTLIER` of all tips from the others, are
    not counted: because of a single one, which mostly is an artefact, the root would lie far away
    from all others, and every distance between samples would be small.

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
    position_E, variance_E = _best_roots(tree, nodes)
    # The first of equals is taken, in an order that follows from the tree alone.
    best = int(np.argmin(variance_E))
    rooted = tree.root_at(nodes[best], above=float(position_E[best]), inplace=True)
    rooted.length = None
    return split_root(rooted)


def outlier_branches(tree: TreeNode) -> list[tuple[list[str], float]]:
    """Return the tips behind each outlier branch, and its length.

    Outlier branches are longer than `LONG_BRANCH`, and at most a fraction `LARGEST_OUTLIER` of the
    tips lies behind them. A root of two children divides one branch.

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
    most_tips = max(1, int(LARGEST_OUTLIER * sum(1 for _ in tree.tips())))
    outliers = []
    for node in tree.postorder():
        length = node.length or 0.0
        if node.parent is tree and len(tree.children) == 2:
            length = sum(child.length or 0.0 for child in tree.children)
        if length > LONG_BRANCH:
            names = [tip.name for tip in node.tips(include_self=True)]
            if len(names) <= most_tips:
                outliers.append((names, float(length)))
    return sorted(outliers, key=lambda branch: (-branch[1], branch[0]))


def warn_of_long_branches(tree: TreeNode) -> None:
    """Warn of the features behind outlier branches of a tree.

    Parameters
    ----------
    tree
        A tree whose tips are the features of a table.
    """
    long_branches = outlier_branches(tree)
    if not long_branches:
        return
    total = sum(node.length or 0.0 for node in tree.traverse())
    apart = sum(length for _, length in long_branches)
    names = list(dict.fromkeys(name for below, _ in long_branches for name in below))
    share = apart / total
    logger.warning(
        "%d of the ASVs lie behind branches longer than %g substitutions per site, which are "
        "%.1f %% of the tree: %s. UniFrac between samples with and without them grows by up to "
        "that much. If they are artefacts, leave them out: %s",
        len(names),
        LONG_BRANCH,
        100 * share,
        first_names(names, limit=3),
        DROP,
        extra=CAUTION if share >= MUCH_OF_TREE else {},
    )


def _best_roots(tree: TreeNode, nodes: list[TreeNode]) -> tuple[Floats, Floats]:
    """Return where on each branch the root would lie best, and the variance there.

    A root at x above the lower node of a branch of length l has the distances d + x to the tips
    below and e + l - x to the others, with d the distances from the lower node and e those from the
    upper one. Their mean is a + b x and their mean square p + q x + x^2, so that the variance is a
    parabola in x.

    Parameters
    ----------
    tree
        The tree, rooted anywhere.
    nodes
        All other nodes, children before their parents; each stands for the branch above it.

    Returns
    -------
    position_E : numpy.ndarray
        Distance of the best root from the lower node.
    variance_E : numpy.ndarray
        Variance of the distances from this root to the counted tips; infinite where all of these
        are on one side.
    """
    number = {id(node): index for index, node in enumerate([*nodes, tree])}
    parent_E = np.array([number[id(node.parent)] for node in nodes])
    length_E = np.array([node.length or 0.0 for node in nodes])
    below = _sums_below(nodes, parent_E, length_E)
    outside = _sums_outside(below, parent_E, length_E)
    count_below_E, sum_below_E, square_below_E = below[:-1].T
    count_outside_E, sum_outside_E, square_outside_E = outside.T
    # The branch itself adds its length to the distance of each of the other tips.
    shift_E = count_outside_E * length_E
    tips = below[-1, 0]
    mean_E = (sum_below_E + sum_outside_E + shift_E) / tips
    mean_slope_E = (count_below_E - count_outside_E) / tips
    squares_E = square_below_E + square_outside_E + 2 * length_E * sum_outside_E
    mean_square_E = (squares_E + count_outside_E * length_E**2) / tips
    mean_square_slope_E = 2 * (sum_below_E - sum_outside_E - shift_E) / tips
    has_both_sides_E = (count_below_E > 0) & (count_outside_E > 0)
    # The slope of the variance is 0 there. With tips on both sides the divisor is positive; the
    # other branches are ruled out below.
    vertex_E = np.divide(
        2 * mean_E * mean_slope_E - mean_square_slope_E,
        2 * (1 - mean_slope_E**2),
        out=np.zeros_like(mean_E),
        where=has_both_sides_E,
    )
    position_E = np.clip(vertex_E, 0.0, length_E)
    best_square_E = mean_square_E + mean_square_slope_E * position_E + position_E**2
    best_mean_E = mean_E + mean_slope_E * position_E
    variance_E = best_square_E - best_mean_E**2
    return position_E, np.where(has_both_sides_E, variance_E, np.inf)


def _sums_below(nodes: list[TreeNode], parent_E: NDArray[np.intp], length_E: Floats) -> Floats:
    """Return number, sum and sum of squares of the distances from each node to the tips below it.

    Only counted tips matter. The last of the E + 1 rows is that of the root.
    """
    below = np.zeros((len(nodes) + 1, 3))
    below[:, 0] = _counted(nodes, length_E)
    for node, parent in enumerate(parent_E):
        below[parent] += _moved(below[node], length_E[node])
    return below


def _sums_outside(below: Floats, parent_E: NDArray[np.intp], length_E: Floats) -> Floats:
    """Return the same sums of the other tips, seen from the upper end of each branch, [E, 3].

    Those of all tips, seen from a node, are handed down from the root.
    """
    total = below.copy()
    outside = np.zeros((len(length_E), 3))
    for node in reversed(range(len(length_E))):
        outside[node] = total[parent_E[node]] - _moved(below[node], length_E[node])
        total[node] = below[node] + _moved(outside[node], length_E[node])
    return outside


def _counted(nodes: list[TreeNode], length_E: Floats) -> NDArray[np.bool_]:
    """Return which nodes, and the root behind them, are tips behind no outlier branch."""
    is_tip = np.array([*(node.is_tip() for node in nodes), False])
    tips = int(is_tip.sum())
    most_tips = max(1, int(LARGEST_OUTLIER * tips))
    is_counted = np.ones(tips, bool)
    # The tips below a node come right before it in this order, as many as it has.
    tips_before = np.cumsum(is_tip[:-1])
    tips_below = {id(node): 1 for node in nodes if node.is_tip()}
    for node, end, length in zip(nodes, tips_before, length_E, strict=True):
        if not node.is_tip():
            tips_below[id(node)] = sum(tips_below[id(child)] for child in node.children)
        size = tips_below[id(node)]
        if length > LONG_BRANCH and min(size, tips - size) <= most_tips:
            is_below = np.zeros(tips, bool)
            is_below[end - size : end] = True
            is_counted[is_below if size <= most_tips else ~is_below] = False
    # Where no two tips would be left, all count.
    is_tip[is_tip] = is_counted if is_counted.sum() > 1 else True
    return is_tip


def _moved(sums: Floats, length: float) -> Floats:
    """Return number, sum and sum of squares of distances that are longer by a length."""
    number, first, second = sums
    longer = first + number * length
    return np.array([number, longer, second + length * (first + longer)])


def build_tree(sequences: Mapping[str, str], threads: int, scratch: Path | None) -> TreeNode:
    """Align sequences, infer their tree by approximate maximum likelihood, and root it.

    MAFFT (Katoh and Standley 2013) chooses its strategy by the number of sequences; FastTree
    (Price et al. 2010) fits GTR with its CAT approximation. Equal sequences enter once and come
    out as tips of length zero.

    Parameters
    ----------
    sequences
        Sequence by feature ID.
    threads
        Threads of MAFFT; the tree does not depend on them.
    scratch
        Folder for temporary files; None: the system's.

    Raises
    ------
    InputError
        A program is not installed.
    RuntimeError
        A program failed.
    """
    distinct = sorted(set(sequences.values()))
    logger.info("building a tree of %d features, %d sequences", len(sequences), len(distinct))
    if len(distinct) > 1:
        tree = root_by_variance(_infer(distinct, threads, scratch))
    else:
        tree = TreeNode(children=[TreeNode("0", length=0.0)])
    return _with_features(tree, distinct, sequences)


def _infer(distinct: Sequence[str], threads: int, scratch: Path | None) -> TreeNode:
    """Return the unrooted tree of distinct sequences, whose positions name the tips."""
    mafft = _program("mafft")
    fasttree = _program("fasttree")
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        fasta = Path(folder) / "sequences.fasta"
        alignment = Path(folder) / "alignment.fasta"
        fasta.write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(distinct)))
        # `--threadit 0` keeps MAFFT from refining in parallel, where the result depends on timing.
        options = ["--auto", "--nuc", "--quiet", "--thread", str(threads), "--threadit", "0"]
        alignment.write_text(_output([mafft, *options, str(fasta)]))
        # FastTree has no option for threads: `_output` allows it one by the environment.
        return parse_newick(_output([fasttree, "-nt", "-gtr", "-quiet", str(alignment)]))


def _program(name: str) -> str:
    for spelling in _PROGRAMS[name]:
        program = shutil.which(spelling)
        if program is not None:
            return program
    raise problem(
        "configuration key datasets.<name>.tree",
        f"null, but the program '{name}' is not installed",
        "a tree, or the programs MAFFT and FastTree to make one",
        "install them: `apt install mafft fasttree` or `conda install -c bioconda mafft fasttree`",
    )


def _output(command: list[str]) -> str:
    """Run a program and return what it printed; its complaints become part of the error."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    logger.info("running %s", " ".join(command))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0 or not done.stdout:
        tail = "\n".join(done.stderr.splitlines()[-10:])
        raise RuntimeError(f"{command[0]} failed with exit code {done.returncode}:\n{tail}")
    return done.stdout


def _with_features(
    tree: TreeNode, distinct: Sequence[str], sequences: Mapping[str, str]
) -> TreeNode:
    """Replace the positions at the tips by the features that have the sequence."""
    features: dict[str, list[str]] = {text: [] for text in distinct}
    for name, text in sequences.items():
        features[text].append(name)
    # The list is made first: replacing tips by inner nodes changes what the iterator walks over.
    for tip in list(tree.tips()):
        names = features[distinct[int(tip.name)]]
        tip.name = names[0] if len(names) == 1 else None
        if len(names) > 1:
            tip.extend([TreeNode(name, length=0.0) for name in names])
    return tree
