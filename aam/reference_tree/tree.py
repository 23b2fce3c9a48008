"""The tree of a reference, the places of any sequences in it, and the tree of these.

A file in the safetensors format holds it: `bases` [U, C], four a byte, and `length` [U] of the
known sequences in the order of the tree; of its nodes, which stand behind their parents, the root
first, `parent` [B] and `branch_length` [B]; and `tip` [U], the node of every sequence.

Shape suffixes: U known sequences, S positions, C bytes, B nodes, Q sequences to place, M nodes
that lead to these.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_array

from aam.reference_tree.nearest import (
    NEAR,
    UNKNOWN,
    KnownSequences,
    Nearest,
    decode,
    encode,
    pack,
    unpack,
)
from aam.reference_tree.reading import (
    AS_IS,
    FEW_NEAR,
    Reading,
    recognize_reading,
    share_near,
)
from aam.util.atomic import atomic_path_with_mode
from aam.util.errors import problem
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)
PER_DIFFERENCE = 0.54
"""Length of the branch to a placed sequence by the fraction of its bases that differ.

Half the distance in the tree of two such ASVs, in four studies of the corpus."""
ROOT = 0
"""Number of the root."""
PARTS = {
    "bases": np.dtype(np.uint8),
    "length": np.dtype(np.int16),
    "parent": np.dtype(np.int32),
    "branch_length": np.dtype(np.float32),
    "tip": np.dtype(np.int32),
}
"""Arrays of a file, with their types."""


@dataclass(frozen=True, eq=False)
class KnownTips:
    """The branches of a rooted tree, and where in it known sequences stand.

    Attributes
    ----------
    tip_U
        Node of each sequence.
    parent_B
        Parent of each node, which has a smaller number; that of the root is -1.
    length_B
        Length of the branch above each node, in substitutions per site; 0 for the root.
    """

    tip_U: NDArray[np.int32]
    parent_B: NDArray[np.int32]
    length_B: NDArray[np.float32]

    def tree_of(
        self, names: Sequence[str], row_Q: NDArray[np.int64], length_Q: NDArray[np.float64]
    ) -> TreeNode:
        """Return the tree of some sequences alone.

        A sequence lies below a known one, at the end of a branch of its own; with a branch of
        length 0 it stands for the known one. Nodes with a single child are left out and their
        lengths summed, except for the root: distances are those on the whole tree.

        Parameters
        ----------
        names
            Names of the sequences, which become those of the tips.
        row_Q
            The known sequence that each lies below.
        length_Q
            Length of the branch between both.

        Returns
        -------
        skbio.TreeNode
            Its tips are in the order of the reference, below one known sequence in that of `names`.
        """
        tips_at = self._tips_by_node(names, row_Q, length_Q)
        # The root is the first of these nodes, and no branch lies above it.
        node_M = self._with_ancestors(self.tip_U[np.unique(row_Q)])[1:]
        children_of: dict[int, list[TreeNode]] = {}
        # Nodes stand behind their parents: in reverse order, a node comes after all of its
        # children.
        for node in reversed(node_M.tolist()):
            # The children were collected in reverse order, too.
            inner = children_of.pop(node, [])[::-1]
            subtree = _join_nodes([*inner, *tips_at.get(node, [])], float(self.length_B[node]))
            parent = int(self.parent_B[node])
            children_of.setdefault(parent, []).append(subtree)
        return TreeNode(children=children_of.get(ROOT, [])[::-1])

    def _tips_by_node(
        self, names: Sequence[str], row_Q: NDArray[np.int64], length_Q: NDArray[np.float64]
    ) -> dict[int, list[TreeNode]]:
        """Return a tip for each sequence, by the node of the known one that it lies below."""
        tips_at: dict[int, list[TreeNode]] = {}
        for name, row, length in zip(names, row_Q.tolist(), length_Q.tolist(), strict=True):
            tips_at.setdefault(int(self.tip_U[row]), []).append(TreeNode(name, length=length))
        return tips_at

    def branch_matrix(self, row_Q: NDArray[np.int64]) -> csr_array:
        """Return which branches lie above the known sequences that some sequences lie below.

        Parameters
        ----------
        row_Q
            The known sequence that each lies below.

        Returns
        -------
        scipy.sparse.csr_array
            [Q, B], 1 where a branch lies above. Branches have the numbers of the nodes at their
            lower ends.
        """
        rows = []
        columns = []
        # All sequences climb one branch at a time; those that have arrived at the root drop out.
        row = np.arange(len(row_Q))
        node = self.tip_U[row_Q].astype(np.int64)
        while len(row):
            rows.append(row)
            columns.append(node)
            is_below_root = self.parent_B[node] > ROOT
            row = row[is_below_root]
            node = self.parent_B[node[is_below_root]].astype(np.int64)
        shape = (len(row_Q), len(self.parent_B))
        # The empty list serves a call without sequences.
        all_rows = np.concatenate([*rows, []]).astype(np.int64)
        all_columns = np.concatenate([*columns, []]).astype(np.int64)
        return csr_array((np.ones(len(all_rows)), (all_rows, all_columns)), shape=shape)

    def _with_ancestors(self, node_Q: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return some nodes and all that lie above them, ascending."""
        is_needed_B = np.zeros(len(self.parent_B), bool)
        front = np.unique(node_Q)
        while len(front):
            is_needed_B[front] = True
            parents = self.parent_B[front]
            front = np.unique(parents[parents >= 0])
            front = front[~is_needed_B[front]]
        return np.flatnonzero(is_needed_B)


def number_nodes(tree: TreeNode) -> tuple[list[str], KnownTips]:
    """Return the names of the tips of a tree, and its branches; nodes are numbered in preorder.

    Parameters
    ----------
    tree
        Rooted, with branch lengths.
    """
    number = {id(tree): ROOT}
    parents = [-1]
    lengths = [0.0]
    names = []
    tips = []
    for node in tree.preorder(include_self=False):
        number[id(node)] = len(parents)
        if node.is_tip():
            names.append(node.name)
            tips.append(len(parents))
        parents.append(number[id(node.parent)])
        lengths.append(node.length or 0.0)
    known_tips = KnownTips(
        tip_U=np.array(tips, np.int32),
        parent_B=np.array(parents, np.int32),
        length_B=np.array(lengths, np.float32),
    )
    return names, known_tips


@dataclass(frozen=True, eq=False)
class ReferenceTree(KnownTips):
    """Known sequences at the tips of a rooted tree.

    Attributes
    ----------
    bases_US
        The sequences, as `aam.reference_tree.nearest` encodes them.
    tip_U, parent_B, length_B
        As for `KnownTips`.
    """

    bases_US: NDArray[np.uint8]

    @classmethod
    def from_tree(cls, tree: TreeNode, length: int) -> Self:
        """Take in a tree whose tips are named by their sequences.

        Parameters
        ----------
        tree
            Rooted, with branch lengths.
        length
            Bases of a sequence that count; tips that are equal then are refused.

        Returns
        -------
        ReferenceTree
            Nodes are numbered in preorder.

        Raises
        ------
        ValueError
            Two tips have the same bases, or one has a base that is not A, C, G or T.
        """
        names, known_tips = number_nodes(tree)
        bases_US = encode(names, length)
        ends_U = (bases_US != UNKNOWN).sum(axis=1)
        if (bases_US[np.arange(length) < ends_U[:, None]] == UNKNOWN).any():
            raise ValueError("a tip has a base that is not A, C, G or T")
        if len(np.unique(bases_US, axis=0)) < len(bases_US):
            raise ValueError(f"two tips have the same first {length} bases")
        return cls(
            bases_US=bases_US,
            tip_U=known_tips.tip_U,
            parent_B=known_tips.parent_B,
            length_B=known_tips.length_B,
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of `write`.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        ReferenceTree
            In the order of the file.

        Raises
        ------
        InputError
            There is no such file, or it is damaged.
        """
        expected = "the tree of a reference"
        hint = "install the package again, or give another file"
        try:
            parts = load_file(path)
            if {name: part.dtype for name, part in parts.items()} != PARTS:
                raise problem(path, f"other arrays: {', '.join(sorted(parts))}", expected, hint)
            return cls(
                bases_US=unpack(parts["bases"], parts["length"]),
                tip_U=parts["tip"],
                parent_B=parts["parent"],
                length_B=parts["branch_length"],
            )
        except (OSError, SafetensorError) as error:
            raise problem(path, str(error), expected, hint) from error

    def write(self, path: Path) -> None:
        """Write the tree, atomically; the same tree gives the same bytes.

        Parameters
        ----------
        path
            File to write, in the safetensors format.
        """
        parts = {
            "bases": pack(self.bases_US),
            "length": (self.bases_US != UNKNOWN).sum(axis=1).astype(np.int16),
            "parent": self.parent_B,
            "branch_length": self.length_B,
            "tip": self.tip_U,
        }
        with atomic_path_with_mode(path) as partial:
            save_file(parts, partial)

    def without(self, is_left_out_U: NDArray[np.bool_]) -> "ReferenceTree":
        """Return the tree of the other sequences; branches to those left out alone are gone.

        Parameters
        ----------
        is_left_out_U
            Which of the known sequences are left out.

        Returns
        -------
        ReferenceTree
            Its nodes are numbered again, in the same order.
        """
        kept_U = np.flatnonzero(~is_left_out_U)
        node_M = self._with_ancestors(self.tip_U[kept_U])
        new_number_B = np.full(len(self.parent_B), -1, np.int32)
        new_number_B[node_M] = np.arange(len(node_M))
        parent_M = self.parent_B[node_M]
        return ReferenceTree(
            bases_US=self.bases_US[kept_U],
            tip_U=new_number_B[self.tip_U[kept_U]],
            parent_B=np.where(parent_M < 0, -1, new_number_B[parent_M]).astype(np.int32),
            length_B=self.length_B[node_M],
        )

    @property
    def length_bp(self) -> int:
        """Bases of a sequence that count."""
        return self.bases_US.shape[1]

    def sequences(self) -> list[str]:
        """Return the known sequences in the order of the tree."""
        return decode(self.bases_US)

    @cached_property
    def known_sequences(self) -> KnownSequences:
        """What finds the known sequence that another one is most like."""
        return KnownSequences(self.bases_US)


def _join_nodes(children: list[TreeNode], length: float) -> TreeNode:
    """Return a node above some others, or the only one with a longer branch."""
    if len(children) == 1:
        children[0].length += length
        return children[0]
    return TreeNode(children=children, length=length)


@dataclass(frozen=True, eq=False)
class Placement:
    """Sequences placed in a reference tree.

    Attributes
    ----------
    tree
        The reference.
    names
        Names of the Q sequences.
    nearest
        The known sequence that each is most like.
    reading
        How the sequences were read.
    """

    tree: ReferenceTree
    names: Sequence[str]
    nearest: Nearest
    reading: Reading

    @property
    def length_Q(self) -> NDArray[np.float64]:
        """Lengths of the branches to the sequences; 0 for known ones."""
        return PER_DIFFERENCE * self.nearest.distance_Q

    @property
    def row_Q(self) -> NDArray[np.int64]:
        """The known sequence that each lies below."""
        return self.nearest.row_Q

    @property
    def is_near_Q(self) -> NDArray[np.bool_]:
        """Whether a sequence lies near a known one."""
        return self.nearest.is_near_Q

    def to_tree(self) -> TreeNode:
        """Return the tree of these sequences alone: see `ReferenceTree.tree_of`."""
        return self.tree.tree_of(self.names, self.nearest.row_Q, self.length_Q)

    def to_frame(self) -> pd.DataFrame:
        """Return a row per sequence.

        Returns
        -------
        pandas.DataFrame
            Index `feature-id`; columns `nearest` (the known sequence), `differences`, `compared`
            (bases), `distance` (differences per base), `branch_length` (of the branch to the
            sequence alone, in substitutions per site), `is_near` and `is_aligned`.
        """
        known_sequences = self.tree.sequences()
        columns = {
            "nearest": [known_sequences[row] for row in self.nearest.row_Q],
            "differences": self.nearest.differences_Q,
            "compared": self.nearest.compared_Q,
            "distance": self.nearest.distance_Q,
            "branch_length": self.length_Q,
            "is_near": self.is_near_Q,
            "is_aligned": self.nearest.is_aligned_Q,
        }
        return pd.DataFrame(columns, index=pd.Index(list(self.names), name="feature-id"))


def place_sequences(
    tree: ReferenceTree, sequences: Mapping[str, str], reading: Reading = AS_IS
) -> Placement:
    """Place sequences in a reference tree, each next to the known one that it is most like.

    Parameters
    ----------
    tree
        The reference.
    sequences
        By name. Bases behind the longest known sequence have no part in the result.
    reading
        How to read them so that they begin where the known ones do; see `recognize_reading`.

    Returns
    -------
    Placement
        The sequences in the order that they were given in.
    """
    bases_QS = reading.encode(list(sequences.values()), tree.length_bp)
    nearest = tree.known_sequences.aligned(bases_QS, tree.known_sequences.nearest(bases_QS))
    return Placement(tree, list(sequences), nearest, reading)


def place_reads(
    tree: ReferenceTree, sequences: Mapping[str, str], reads_Q: NDArray[np.number]
) -> tuple[Placement, float]:
    """Place sequences, read in the way in which most reads lie near the reference, and say so.

    Parameters
    ----------
    tree
        The reference.
    sequences
        By feature ID, whole.
    reads_Q
        Reads of each, in the same order.

    Returns
    -------
    placement : Placement
        The sequences in the tree.
    near : float
        Fraction of the reads that lie near a known sequence.
    """
    texts = list(sequences.values())
    bases_QS = AS_IS.encode(texts, tree.length_bp)
    nearest = tree.known_sequences.nearest(bases_QS)
    other = None
    # This comes before any alignment, which would take a shift for lost bases.
    if texts and share_near(nearest, reads_Q) < FEW_NEAR:
        other = recognize_reading(tree.known_sequences, texts, reads_Q)
    if other is None:
        aligned = tree.known_sequences.aligned(bases_QS, nearest)
        placement = Placement(tree, list(sequences), aligned, AS_IS)
    else:
        placement = place_sequences(tree, sequences, other[0])
    near = share_near(placement.nearest, reads_Q)
    share = f"{near:.0%} of the reads lie within {NEAR:.0%} of a sequence of the reference"
    if near < FEW_NEAR:
        logger.warning("%s: another region, or a kind of sample that it does not have", share)
    elif placement.reading != AS_IS:
        logger.warning("%s if %s: they are placed so", share, placement.reading)
    else:
        logger.info("%s", share)
    return placement, near
