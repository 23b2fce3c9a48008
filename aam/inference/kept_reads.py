"""Rarefied reads of samples that baselines learned from, and those of another table beside them.

Shape suffixes: N kept samples, M other ones, F features, U ASVs of the other table, E branches.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from aam.data.importing.sequences import load_sequences
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable, read_biom
from aam.data.trees.branches import branches, read_tree
from aam.evaluate.super_learner import SEQUENCES, TREE
from aam.reference_tree.bases import encode
from aam.reference_tree.nearest import KnownSequences
from aam.unifrac.in_batch import BatchDistances

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class KeptReads:
    """Tables of the same samples and features, one per view, and what tells features apart."""

    views: Sequence[FeatureTable]
    above: csr_array
    """1 where a branch of the tree lies above a feature, [F, E]."""
    lengths: NDArray[np.float64]
    sequences: Mapping[str, str]
    """By feature."""
    rarefaction: Mapping[str, Any]
    """Settings that another table is drawn by, too."""

    @classmethod
    def load(cls, directory: Path, rarefaction: Mapping[str, Any]) -> "KeptReads":
        """Read the files of the directory of a super learner.

        Parameters
        ----------
        directory
            The folder.
        rarefaction
            Settings that the kept samples were drawn by.

        Raises
        ------
        InputError
            A file cannot be read.
        """
        sequences = load_sequences(directory / SEQUENCES)
        numbers = range(rarefaction["views"])
        views = [read_biom(directory / f"view{number}.biom") for number in numbers]
        features = views[0].feature_ids
        above, lengths = branches(read_tree(directory / TREE, features), features)
        return cls(views, above, lengths, sequences, rarefaction)

    @property
    def features(self) -> list[str]:
        """IDs of the F features."""
        return self.views[0].feature_ids

    def problem_fields(
        self,
        table: FeatureTable,
        sequences: Mapping[str, str],
        wanted: Sequence[str],
        landmarks: NDArray[np.intp] | None = None,
        *,
        distances: bool,
    ) -> dict[str, Any]:
        """Return fields of a `Problem` of the kept samples and, behind them, of another table.

        Parameters
        ----------
        table
            Reads of the other samples, before rarefaction.
        sequences
            Sequence of every feature of the table.
        wanted
            IDs of the samples that are predicted.
        landmarks
            Positions of kept samples: distances are to these; None: to all.
        distances
            Whether distances are computed.

        Returns
        -------
        dict
            `above`, `lengths`, `landmarks`, `counts` and `distances`, as `Problem` describes them.
        """
        measure = BatchDistances(("unweighted",), 1.0, self.above.astype(np.float64), self.lengths)
        place = self._features(table, sequences)
        number = len(self.views[0].sample_ids) + len(wanted)
        counts = csr_array((number, len(self.features)))
        rows: Any = slice(None)
        if landmarks is not None:
            rows = np.concatenate([landmarks, np.arange(number - len(wanted), number)])
        columns = number if landmarks is None else len(landmarks)
        between = np.zeros((number, columns) if distances else (0, 0), np.float32)
        for view, kept in enumerate(self.views):
            other = rarefy(table, self.rarefaction["depth"], self.rarefaction["seed"], view)
            other = other.of_samples(pd.Index(other.sample_ids).get_indexer(pd.Index(wanted)))
            reads_MF = _on_features(other, place, len(self.features))
            both = csr_array(vstack([kept.counts, reads_MF]))
            counts = csr_array(counts + both / len(self.views))
            if distances:
                # Without any known ASV a sample has nothing in common with another.
                with np.errstate(invalid="ignore"):
                    found = np.nan_to_num(measure(csr_array(both[rows]))["unweighted"], nan=1.0)
                between[rows] += found[:, :columns] / len(self.views)
        tree = {"above": self.above, "lengths": self.lengths, "landmarks": landmarks}
        return tree | {"counts": counts, "distances": between}

    def _features(self, table: FeatureTable, sequences: Mapping[str, str]) -> dict[str, int]:
        """Return the place of the feature that each ASV of a table is, or is close to."""
        known = [self.sequences[name] for name in self.features]
        length_bp = max(map(len, known))
        other = [sequences[name] for name in table.feature_ids]
        nearest = KnownSequences(encode(known, length_bp)).nearest(encode(other, length_bp))
        places = zip(
            table.feature_ids, nearest.row_Q.tolist(), nearest.is_near_Q.tolist(), strict=True
        )
        found = {name: place for name, place, is_near in places if is_near}
        logger.info(
            "the baselines know %d of %d ASVs, or one close by; the others are left out for them",
            len(found),
            len(other),
        )
        return found


def _on_features(table: FeatureTable, row_by_name: Mapping[str, int], features: int) -> csr_array:
    """Return the reads of a table's ASVs as those of the features that they stand for."""
    column_U = np.array([row_by_name.get(name, -1) for name in table.feature_ids])
    known_U = np.flatnonzero(column_U >= 0)
    entries = np.ones(len(known_U), np.int64), (known_U, column_U[known_U])
    return csr_array(table.counts @ csr_array(entries, shape=(len(column_U), features)))
