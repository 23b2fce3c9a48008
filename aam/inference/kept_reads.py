"""Rarefied reads of samples that baselines learned from, and those of another table with them.

Shape suffixes: N samples, the kept ones and behind them M others; L that distances lead to, R
those whose distances are computed, F features, U ASVs of the other table, E branches.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from scipy.spatial.distance import cdist

from aam.config.baselines import compared_metric
from aam.data.lineages import match_lineages, read_ranks, spell_lineages
from aam.data.nouns import PLURALS
from aam.data.rarefaction import rarefy
from aam.data.sequences import read_fasta
from aam.data.table import FeatureTable, TableFacts, read_biom
from aam.data.trees import branches_of, read_tree
from aam.distances.in_batch import BatchDistances
from aam.learners.kept_mixture import FEATURES, SEQUENCES, TREE
from aam.reference_tree.gene_placement import NOWHERE, nearest_placed, place_in_genes
from aam.reference_tree.genes import GeneReference
from aam.reference_tree.nearest import KnownSequences, encode
from aam.util.atomic import read_json, write_json
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class KeptReads:
    """Tables of the same samples and features, one per view, and what tells features apart."""

    views: Sequence[FeatureTable]
    above: csr_array
    """1 where a branch of the tree lies above a feature, [F, E]; without a tree E is 0."""
    lengths: NDArray[np.float64]
    tree: TreeNode | None
    """The tree; None: the study has none."""
    texts: Mapping[str, str]
    """By feature: its sequence, or the words of its lineage (`aam.data.lineages`)."""
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

        Returns
        -------
        KeptReads
            One table per view.

        Raises
        ------
        InputError
            A file cannot be read.
        """
        numbers = range(rarefaction["views"])
        if (directory / FEATURES).is_file():
            return cls._without_samples(directory, rarefaction)
        views = [read_biom(directory / f"view{number}.biom") for number in numbers]
        features = views[0].feature_ids
        if views[0].facts.has_sequences:
            texts = read_fasta(directory / SEQUENCES)
        else:
            lineages = read_ranks(directory / "view0.biom")
            texts = spell_lineages(features, lineages, views[0].facts.noun)
        path = directory / TREE
        tree = read_tree(path, features) if path.is_file() else None
        above, lengths = branches_of(path if path.is_file() else None, features)
        return cls(views, above, lengths, tree, texts, rarefaction)

    @classmethod
    def _without_samples(cls, directory: Path, rarefaction: Mapping[str, Any]) -> "KeptReads":
        """Read a folder of `write_features`: its tables have no rows."""
        content = read_json(directory / FEATURES)
        texts = dict(content["texts"])
        features = list(texts)
        facts = TableFacts(**content["facts"])
        nothing = csr_array((0, len(features)), dtype=np.int64 if facts.is_counted else np.float64)
        views = [FeatureTable([], features, nothing, facts)] * rarefaction["views"]
        path = directory / TREE
        tree = read_tree(path, features) if path.is_file() else None
        above, lengths = branches_of(path if path.is_file() else None, features)
        return cls(views, above, lengths, tree, texts, rarefaction)

    def write_features(self, directory: Path) -> None:
        """Write what is known of the features, and nothing of samples.

        Parameters
        ----------
        directory
            A folder; the tree is not written.
        """
        texts = dict(zip(self.features, self.feature_texts, strict=True))
        write_json(directory / FEATURES, {"texts": texts, "facts": asdict(self.facts)})

    @property
    def features(self) -> list[str]:
        """IDs of the F features."""
        return self.views[0].feature_ids

    @property
    def facts(self) -> TableFacts:
        """What the kept tables hold and can do."""
        return self.views[0].facts

    @property
    def feature_texts(self) -> list[str]:
        """Sequences or words of the F features."""
        return [self.texts[name] for name in self.features]

    def draw(
        self, table: FeatureTable, feature_by_name: Mapping[str, int], wanted: Sequence[str]
    ) -> list[csr_array]:
        """Return the reads of samples of another table as those of the F features, of every view.

        Parameters
        ----------
        table
            Reads of the other samples, before rarefaction.
        feature_by_name
            What `nearest_features` returns for the table.
        wanted
            IDs of the samples, M of them.

        Returns
        -------
        list of scipy.sparse.csr_array
            [M, F] by view.
        """
        drawn = []
        for view in range(len(self.views)):
            other = rarefy(table, self.rarefaction["depth"], self.rarefaction["seed"], view)
            other = other.select_samples(pd.Index(other.sample_ids).get_indexer(pd.Index(wanted)))
            drawn.append(_feature_reads(other, feature_by_name, len(self.features)))
        return drawn

    def problem_fields(
        self,
        drawn: Sequence[csr_array],
        landmarks: NDArray[np.intp] | None = None,
        *,
        distances: bool,
    ) -> dict[str, Any]:
        """Return fields of a `Problem` of the kept samples and, behind them, of others.

        Parameters
        ----------
        drawn
            What `draw` returns for the other samples.
        landmarks
            Positions of kept samples: distances are to these; None: to all.
        distances
            Whether distances are computed.

        Returns
        -------
        dict
            `above`, `lengths`, `landmarks`, `counts`, `distances` and `is_counted`, as `Problem`
            describes them; distances are to the kept samples alone.
        """
        kept = len(self.views[0].sample_ids)
        samples = kept + drawn[0].shape[0]
        counts = csr_array((samples, len(self.features)))
        columns = np.arange(kept) if landmarks is None else landmarks
        distance_NL = np.zeros((samples, len(columns)) if distances else (0, 0), np.float32)
        for kept_table, reads_MF in zip(self.views, drawn, strict=True):
            reads_NF = csr_array(vstack([kept_table.counts, reads_MF]))
            counts = csr_array(counts + reads_NF / len(self.views))
            if distances:
                known_LF = csr_array(kept_table.counts[columns])
                distance_NL[columns] += self._distances(known_LF) / len(self.views)
                distance_NL[kept:] += self._distances_between(reads_MF, known_LF) / len(self.views)
        return {
            "above": self.above,
            "lengths": self.lengths,
            "landmarks": landmarks,
            "counts": counts,
            "distances": distance_NL,
            "is_counted": self.facts.is_counted,
        }

    def distances_to(
        self, kept: NDArray[np.intp], drawn: Sequence[csr_array]
    ) -> NDArray[np.float32]:
        """Return the mean distances of samples to some kept ones, [M, L].

        Parameters
        ----------
        kept
            Rows of the kept samples.
        drawn
            What `draw` returns for the other samples.
        """
        distance_ML = np.zeros((drawn[0].shape[0], len(kept)), np.float32)
        for view, reads_MF in zip(self.views, drawn, strict=True):
            known_LF = csr_array(view.counts[kept])
            distance_ML += self._distances_between(reads_MF, known_LF) / len(self.views)
        return distance_ML

    def _distances(self, reads_LF: csr_array) -> NDArray[np.float64]:
        """Return the distances of all pairs of some samples that baselines look at, [L, L]."""
        metric = compared_metric(self.above.shape[1] > 0)
        measure = BatchDistances((metric,), 1.0, self.above.astype(np.float64), self.lengths)
        with np.errstate(invalid="ignore"):
            distance_LL = measure(reads_LF)[metric]
        # Without any known ASV a sample has nothing in common with another.
        return np.nan_to_num(distance_LL, nan=1.0)

    def _distances_between(self, reads_MF: csr_array, reads_LF: csr_array) -> NDArray[np.float64]:
        """Return what `_distances` does of samples and others, [M, L]."""
        if not self.above.shape[1]:
            # SciPy's is NaN where neither sample has reads.
            distance_ML = cdist(reads_MF.toarray(), reads_LF.toarray(), "braycurtis")
            return np.nan_to_num(distance_ML, nan=1.0)
        has_ME = csr_array((reads_MF @ self.above) > 0).astype(np.float64)
        has_LE = csr_array((reads_LF @ self.above) > 0).astype(np.float64)
        shared_ML = has_ME @ (has_LE * self.lengths).T.toarray()
        either_ML = (has_ME @ self.lengths)[:, None] + has_LE @ self.lengths - shared_ML
        with np.errstate(invalid="ignore"):
            distance_ML = 1.0 - shared_ML / either_ML
        return np.nan_to_num(distance_ML, nan=1.0)

    def nearest_features(self, table: FeatureTable, texts: Mapping[str, str]) -> dict[str, int]:
        """Return the feature that each feature of another table is, or is near.

        Parameters
        ----------
        table
            Reads of the other samples.
        texts
            Of every feature of the table its sequence, or the words of its lineage.

        Returns
        -------
        dict
            Number of the kept feature by the name of the other one. Features that are not near any
            are absent: baselines leave their reads out. Without sequences it is the one of the same
            ID or lineage (`match_lineages`).
        """
        if not self.facts.has_sequences:
            return self._features_by_lineage(table, texts)
        kept = self.feature_texts
        length_bp = max(map(len, kept))
        other = [texts[name] for name in table.feature_ids]
        nearest = KnownSequences(encode(kept, length_bp)).nearest(encode(other, length_bp))
        rows = nearest.row_Q.tolist()
        feature_by_name = {}
        for name, row, is_near in zip(table.feature_ids, rows, nearest.is_near_Q, strict=True):
            if is_near:
                feature_by_name[name] = row
        logger.info(
            "the baselines know %d of %d ASVs, or one close by; the others are left out for them",
            len(feature_by_name),
            len(other),
        )
        return feature_by_name

    def features_in_genes(
        self,
        table: FeatureTable,
        texts: Mapping[str, str],
        reference: GeneReference,
        threads: int = 1,
    ) -> tuple[dict[str, int], dict[str, float]]:
        """Return the feature that lies nearest to each of another table in a tree of whole genes.

        Reads of other regions have no bases to compare, but places in one tree.

        Parameters
        ----------
        table, texts
            As for `nearest_features`.
        reference
            The tree.
        threads
            Processes that look for genes.

        Returns
        -------
        features : dict
            As `nearest_features` returns them; absent are those that no gene lies near.
        ways : dict
            Length of the way between both, in substitutions per site.
        """
        kept = place_in_genes(
            reference, {name: self.texts[name] for name in self.features}, threads
        )
        wanted = {name: texts[name] for name in table.feature_ids}
        number_Q, way_Q = nearest_placed(kept, place_in_genes(reference, wanted, threads))
        found = zip(wanted, number_Q.tolist(), way_Q.tolist(), strict=True)
        placed = {name: (number, way) for name, number, way in found if number != NOWHERE}
        return (
            {name: number for name, (number, _) in placed.items()},
            {name: way for name, (_, way) in placed.items()},
        )

    def _features_by_lineage(self, table: FeatureTable, texts: Mapping[str, str]) -> dict[str, int]:
        """Return the kept feature of the same ID or lineage as each feature of another table."""
        number = {name: position for position, name in enumerate(self.features)}
        kept = dict(zip(self.features, self.feature_texts, strict=True))
        other = {name: texts[name] for name in table.feature_ids}
        matched = match_lineages(kept, other, self.facts.noun)
        logger.info(
            "the baselines know %d of %d %s; the others are left out for them",
            len(matched),
            len(other),
            PLURALS[self.facts.noun],
        )
        return {name: number[same] for name, same in matched.items()}


def _feature_reads(
    table: FeatureTable, feature_by_name: Mapping[str, int], features: int
) -> csr_array:
    """Return the reads of a table's ASVs as those of the features that they stand for."""
    column_U = np.array([feature_by_name.get(name, -1) for name in table.feature_ids])
    matched_U = np.flatnonzero(column_U >= 0)
    ones_U = np.ones(len(matched_U), np.int64)
    shape = (len(column_U), features)
    feature_of_UF = csr_array((ones_U, (matched_U, column_U[matched_U])), shape=shape)
    return csr_array(table.counts @ feature_of_UF)
