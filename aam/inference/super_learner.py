"""A task's models and baselines, mixed, for other tables: baselines are fitted again to kept reads.

The directory holds `super_learner.json`, the labelled samples (`folds.tsv`, `view<v>.biom`), the
tree and the sequences of their features, the cross-validated predictions of the mixture, and the
fine-tuned models in `model`.

Shape suffixes: N samples that the baselines learn from, M other samples, F features, U ASVs of the
other table, C classes.
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from aam.data.folds import OBSERVED, read_folds
from aam.data.importing.sequences import load_sequences
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable, read_biom
from aam.data.tokens import TokenStore
from aam.data.trees.branches import branches, read_tree
from aam.data.vocabulary import tokenize
from aam.evaluate.baselines.problem import Problem
from aam.evaluate.baselines.registry import predict_baselines
from aam.evaluate.predictions import PROBABILITY, QUANTILE
from aam.evaluate.super_learner import FOLDS, FORMAT, MODEL, SEQUENCES, SETTINGS, TREE, Mixture
from aam.model.known_asvs import KnownAsvs
from aam.unifrac.in_batch import BatchDistances
from aam.util.atomic import read_json
from aam.util.errors import problem

logger = logging.getLogger(__name__)
LEAST_WEIGHT = 1e-7
"""Weight below which a method is left out."""


@dataclass(frozen=True, eq=False)
class SuperLearner:
    """The mixture of one model and the baselines of a task."""

    settings: Mapping[str, Any]
    """Content of `super_learner.json`."""
    folds: pd.DataFrame
    """Of the samples that are learned from."""
    views: Sequence[FeatureTable]
    """Their rarefied reads."""
    tree: Path
    sequences: Mapping[str, str]
    models: Path
    """The directory of the fine-tuned models."""

    @classmethod
    def load(cls, directory: Path) -> "SuperLearner | None":
        """Read a directory of the stage; None: it is none, an `InputError`: of another version."""
        if not (directory / SETTINGS).is_file():
            return None
        settings = read_json(directory / SETTINGS)
        if settings.get("format") != FORMAT:
            got, expected = f"format {settings.get('format')}", f"format {FORMAT}"
            raise problem(directory / SETTINGS, got, expected, "run its stage again")
        folds = read_folds(directory / FOLDS)
        number = settings["rarefaction"]["views"]
        return cls(
            settings,
            folds[folds["fold"] >= 0],
            [read_biom(directory / f"view{view}.biom") for view in range(number)],
            directory / TREE,
            load_sequences(directory / SEQUENCES),
            directory / MODEL,
        )

    def mixed(
        self,
        own: pd.DataFrame,
        table: FeatureTable,
        sequences: Mapping[str, str],
        threads: int,
    ) -> pd.DataFrame:
        """Return the model's predictions of other samples, mixed with those of the baselines.

        `own` is what `aam.inference.ensemble.predict_table` says of the table. Quantiles and the
        spread of the models, which are of the model alone, are left out.
        """
        alone = [name for name in own if str(name).startswith((QUANTILE, "sd"))]
        result = own.drop(columns=alone)
        rows = self._combined(table, sequences, list(own.index))
        for target, found in self.settings["mixtures"].items():
            mixture = _without_the_least(Mixture(found["weights"], found["temperatures"]))
            predicted_MC = self._predicted(own, rows, target, mixture, threads)
            mixed_MC = mixture.apply(predicted_MC)
            classes = self.settings["classes"]
            if classes:
                result[[PROBABILITY + name for name in classes]] = mixed_MC
                result["predicted"] = np.asarray(classes)[mixed_MC.argmax(axis=1)]
            else:
                result[f"predicted{_suffix(target)}"] = mixed_MC[:, 0]
        return result

    def _predicted(
        self, own: pd.DataFrame, rows: Problem, target: str, mixture: Mixture, threads: int
    ) -> dict[str, NDArray[np.float64]]:
        """Return what each method of a mixture says of the other samples, [M, C]."""
        classes, model = self.settings["classes"], self.settings["model"]
        shares = [PROBABILITY + name for name in classes]
        columns = shares or [f"predicted{_suffix(target)}"]
        observed = self.folds[OBSERVED + target if target else "observed"].to_numpy()
        known = observed.astype(np.str_ if classes else np.float64)
        asked = [name for name in mixture.weights if name != model]
        # The label of the other samples is nobody's to know: any stands in its place.
        filled = np.concatenate([known, np.repeat(known[:1], len(own))])
        task = dataclasses.replace(rows, target=filled, asked=asked)
        found = {model: own[columns].to_numpy(np.float64)}
        if asked:
            baselines = predict_baselines(task, threads, folds=[-1])
            for name, part in baselines.groupby("baseline"):
                found[str(name)] = part[shares or ["predicted"]].to_numpy(np.float64)
        return found

    def _combined(
        self, table: FeatureTable, sequences: Mapping[str, str], wanted: list[str]
    ) -> Problem:
        """Return the kept samples and the other ones, of fold -1, as the baselines take them."""
        features = self.views[0].feature_ids
        above, lengths = branches(read_tree(self.tree, features), features)
        measure = BatchDistances(("unweighted",), 1.0, above.astype(np.float64), lengths)
        drawn, place = self.settings["rarefaction"], self._features(table, sequences)
        samples, views = len(self.folds) + len(wanted), len(self.views)
        counts = csr_array((samples, len(features)))
        distances = np.zeros((samples, samples), np.float32)
        for view, kept in enumerate(self.views):
            other = rarefy(table, drawn["depth"], drawn["seed"], view)
            other = other.of_samples(pd.Index(other.sample_ids).get_indexer(pd.Index(wanted)))
            rows = pd.Index(kept.sample_ids).get_indexer(self.folds.index)
            reads_MF = _on_features(other, place, len(features))
            both = csr_array(vstack([kept.counts[rows], reads_MF]))
            counts = counts + both / views
            # Without any known ASV a sample has nothing in common with another.
            distances += np.nan_to_num(measure(both)["unweighted"], nan=1.0) / views
        fold = np.concatenate([self.folds["fold"].to_numpy(), np.full(len(wanted), -1)])
        settings = self.settings
        return Problem(
            kind=settings["kind"],
            target=np.array([]),
            classes=settings["classes"],
            fold=fold,
            group=np.array([*self.folds["group"], *[""] * len(wanted)], np.str_),
            counts=csr_array(counts),
            distances=distances,
            above=above,
            lengths=lengths,
            seed=settings["seed"],
            bounds=tuple(settings["bounds"]),
        )

    def _features(self, table: FeatureTable, sequences: Mapping[str, str]) -> dict[str, int]:
        """Return the place of the feature that each ASV of a table is, or is close to."""
        known, other = (
            _tokens(names, found)
            for names, found in (
                (self.views[0].feature_ids, self.sequences),
                (table.feature_ids, sequences),
            )
        )
        matched_U = KnownAsvs.of(known, np.arange(len(known.lengths))).matched(other)
        places = zip(table.feature_ids, matched_U.tolist(), strict=True)
        found = {name: place for name, place in places if place >= 0}
        logger.info(
            "the baselines know %d of %d ASVs, or one close by; the others are left out for them",
            *(len(found), len(matched_U)),
        )
        return found


def _tokens(names: Sequence[str], sequences: Mapping[str, str]) -> TokenStore:
    letters = [sequences[name] for name in names]
    tokens_US, length_U = tokenize(letters, max(map(len, letters)))
    return TokenStore(list(names), length_U, tokens_US)


def _on_features(table: FeatureTable, place: Mapping[str, int], features: int) -> csr_array:
    """Return the reads of a table's ASVs as those of the features that they stand for."""
    column_U = np.array([place.get(name, -1) for name in table.feature_ids])
    known_U = np.flatnonzero(column_U >= 0)
    shape = len(table.feature_ids), features
    ones = np.ones(len(known_U), np.int64)
    moved_UF = csr_array((ones, (known_U, column_U[known_U])), shape=shape)
    return csr_array(table.counts @ moved_UF)


def _without_the_least(mixture: Mixture) -> Mixture:
    """Leave out what has no weight: it need not be fitted."""
    kept = {name: value for name, value in mixture.weights.items() if value > LEAST_WEIGHT}
    return Mixture(kept, mixture.temperatures)


def _suffix(target: str) -> str:
    return f":{target}" if target else ""
