"""Places and names of sequences in a reference of whole genes.

Shape suffixes: Q sequences.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.reference_tree.equals import Paths, choose_among_equals
from aam.reference_tree.genes import GeneReference, nearest_sequences
from aam.reference_tree.names import Name, name_sequences
from aam.reference_tree.search import MOST_EDITS
from aam.reference_tree.tree import PER_DIFFERENCE, ROOT
from aam.util.atomic import write_tsv
from aam.util.errors import count_names
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)
NOWHERE = -1
"""Number of the gene of a sequence that none lies near."""
FAR_BRANCH = 1.0
"""Length of the branch to a sequence that no gene lies near, in substitutions per site.

It is longer than `aam.data.outlier_branches.LONG_BRANCH`: what is done about those is done about
it, too."""


@dataclass(frozen=True, eq=False)
class GenePlacement:
    """Sequences placed in the tree of a reference of whole genes.

    Attributes
    ----------
    reference
        The reference.
    ids
        IDs of the Q sequences.
    row_Q
        The gene that each lies below; `NOWHERE` where none is near.
    distance_Q
        Differences per base between both; 1 where none is near.
    is_reversed_Q
        Whether the reverse complement of the sequence is what lies there.
    name_Q
        What each is called.
    """

    reference: GeneReference
    ids: Sequence[str]
    row_Q: NDArray[np.int64]
    distance_Q: NDArray[np.float64]
    is_reversed_Q: NDArray[np.bool_]
    name_Q: Sequence[Name]

    @property
    def is_near_Q(self) -> NDArray[np.bool_]:
        """Whether a gene lies near."""
        return self.row_Q != NOWHERE

    @property
    def length_Q(self) -> NDArray[np.float64]:
        """Lengths of the branches to the sequences."""
        return np.where(self.is_near_Q, PER_DIFFERENCE * self.distance_Q, FAR_BRANCH)

    def share_near(self, reads_Q: NDArray[np.number]) -> float:
        """Return the fraction of the reads that a gene lies near; 0 without reads.

        Parameters
        ----------
        reads_Q
            Reads of each sequence.
        """
        return float(reads_Q[self.is_near_Q].sum() / max(reads_Q.sum(), 1))

    def to_tree(self) -> TreeNode:
        """Return the tree of these sequences alone; those that no gene lies near hang at its root.

        Returns
        -------
        skbio.TreeNode
            With a tip for every sequence.
        """
        near = np.flatnonzero(self.is_near_Q)
        tree = self.reference.tips.tree_of(
            [self.ids[position] for position in near.tolist()],
            self.row_Q[near],
            self.length_Q[near],
        )
        tree.extend(TreeNode(name, length=FAR_BRANCH) for name in self._far)
        return tree

    def warn(self, reads_Q: NDArray[np.number]) -> None:
        """Name the sequences that no gene lies near, and say how many lie near reversed.

        Parameters
        ----------
        reads_Q
            Reads of each sequence.
        """
        if self._far:
            logger.warning(
                "%s of %d, with %.1f %% of the reads, differ in more than %.0f %% of their bases "
                "from every gene of the reference: they may be no 16S",
                count_names("sequence", self._far, limit=3),
                len(self.ids),
                100 * (1 - self.share_near(reads_Q)),
                100 * MOST_EDITS,
            )
        reversed_reads = reads_Q[self.is_reversed_Q & self.is_near_Q].sum()
        if reversed_reads > 0:
            logger.warning(
                "%.0f %% of the reads lie near as reverse complements: they are placed so",
                100 * reversed_reads / reads_Q.sum(),
            )

    def to_frame(self) -> pd.DataFrame:
        """Return a row per sequence.

        Returns
        -------
        pandas.DataFrame
            Index `feature-id`; columns `nearest` (name of the gene, empty where none is near),
            `distance` (differences per base), `branch_length` (of the branch to the sequence, in
            substitutions per site), `is_near`, `is_reversed`, `taxon` and `confidence`
            (`aam.reference_tree.names.Name`).
        """
        genes = self.reference.names
        columns = {
            "nearest": [genes[row] if row != NOWHERE else "" for row in self.row_Q.tolist()],
            "distance": self.distance_Q,
            "branch_length": self.length_Q,
            "is_near": self.is_near_Q,
            "is_reversed": self.is_reversed_Q,
            "taxon": [name.taxon for name in self.name_Q],
            "confidence": [name.confidence for name in self.name_Q],
        }
        return pd.DataFrame(columns, index=pd.Index(list(self.ids), name="feature-id"))

    def write(self, path: Path) -> None:
        """Write `to_frame` atomically as tab-separated text.

        Parameters
        ----------
        path
            File to write.
        """
        write_tsv(path, self.to_frame(), index=True, float_format="%.9g")

    @classmethod
    def read(cls, path: Path, reference: GeneReference) -> Self:
        """Read a file of `write`.

        Parameters
        ----------
        path
            The file.
        reference
            The reference that the sequences were placed in.
        """
        texts = dict.fromkeys(("feature-id", "nearest", "taxon"), str)
        frame = pd.read_csv(path, sep="\t", dtype=texts, keep_default_na=False)
        row_of = {name: row for row, name in enumerate(reference.names)} | {"": NOWHERE}
        named = zip(frame["taxon"], frame["confidence"], strict=True)
        return cls(
            reference=reference,
            ids=frame["feature-id"].tolist(),
            row_Q=np.array([row_of[name] for name in frame["nearest"]], np.int64),
            distance_Q=frame["distance"].to_numpy(np.float64),
            is_reversed_Q=frame["is_reversed"].to_numpy(bool),
            name_Q=[Name(taxon, confidence) for taxon, confidence in named],
        )

    @property
    def _far(self) -> list[str]:
        return [self.ids[position] for position in np.flatnonzero(~self.is_near_Q).tolist()]


def nearest_placed(
    known: GenePlacement, others: GenePlacement
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return which placed sequence lies nearest to each of others in the tree.

    Parameters
    ----------
    known
        Sequences of which one is looked for.
    others
        Q sequences that were placed in the same reference.

    Returns
    -------
    number_Q : numpy.ndarray
        Number of the nearest; `NOWHERE` where the sequence, or every known one, has no place. Of
        several equally near ones it is the first.
    distance_Q : numpy.ndarray
        Length of the way between both, in substitutions per site; infinite where there is none.
    """
    tips = known.reference.tips
    parent_B = tips.parent_B.tolist()
    length_B = tips.length_B.tolist()
    nearest_B = [NOWHERE] * len(parent_B)
    way_B = [np.inf] * len(parent_B)
    near = np.flatnonzero(known.is_near_Q)
    nodes = tips.tip_U[known.row_Q[near]].tolist()
    for number, node, length in zip(
        near.tolist(), nodes, known.length_Q[near].tolist(), strict=True
    ):
        if length < way_B[node]:
            way_B[node], nearest_B[node] = length, number

    def tell(one: int, other: int, branch: int) -> None:
        """Let a node know what lies nearest to its neighbour."""
        found = (way_B[one] + length_B[branch], nearest_B[one])
        if found < (way_B[other], nearest_B[other]):
            way_B[other], nearest_B[other] = found

    # On the way up to the root each node learns what lies below it; on the way down, all the rest.
    below_root = range(ROOT + 1, len(parent_B))
    for node in reversed(below_root):
        tell(node, parent_B[node], node)
    for node in below_root:
        tell(parent_B[node], node, node)
    place_Q = tips.tip_U[others.row_Q]
    number_Q = np.where(others.is_near_Q, np.array(nearest_B)[place_Q], NOWHERE)
    distance_Q = np.where(number_Q != NOWHERE, np.array(way_B)[place_Q] + others.length_Q, np.inf)
    return number_Q, distance_Q


def place_in_genes(
    reference: GeneReference, sequences: Mapping[str, str], threads: int = 1
) -> GenePlacement:
    """Place sequences in the tree of a reference, each below one of the genes nearest to it.

    Among equally near genes it is the one among most of the others
    (`aam.reference_tree.equals.choose_among_equals`). The branch to the sequence has the length
    `PER_DIFFERENCE` per differing base.

    Parameters
    ----------
    reference
        The reference.
    sequences
        By feature ID: nucleotides of any region, strand and length.
    threads
        Processes that work.

    Returns
    -------
    GenePlacement
        In the order of `sequences`.
    """
    hits = nearest_sequences(reference, [*sequences.values()], threads)
    found = (hits.offset_Q, hits.row_H, hits.distance_H)
    return GenePlacement(
        reference=reference,
        ids=[*sequences],
        row_Q=choose_among_equals(Paths(reference.tips), *found),
        distance_Q=hits.distance_Q,
        is_reversed_Q=hits.is_reversed_Q,
        name_Q=name_sequences(reference.lineages, *found),
    )
