"""A task's models and baselines, mixed, for other tables: baselines are fitted again to kept reads.

Without models it is the baselines alone that are mixed: see `aam.inference.task_predictor`.

Shape suffixes: M other samples, C classes.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.config.baselines import NEED_DISTANCES
from aam.data.folds import OBSERVED, read_folds
from aam.data.predictions import PROBABILITY, QUANTILE
from aam.data.table import FeatureTable
from aam.inference.kept_reads import KeptReads
from aam.learners.baselines.problem import Problem, draw_landmarks
from aam.learners.baselines.registry import predict_others
from aam.learners.kept_mixture import (
    FOLDS,
    MODEL,
    SETTINGS,
    read_clades,
    read_super_learner,
)
from aam.learners.mixture import Mixture
from aam.util.digests import fitting

LEAST_WEIGHT = 1e-7
"""Weight below which a method is left out: it need not be fitted."""


@dataclass(frozen=True, eq=False)
class SuperLearner:
    """The mixture of the baselines of a task, with one model or without."""

    settings: Mapping[str, Any]
    """Content of `super_learner.json`."""
    folds: pd.DataFrame
    """Folds of the samples that are learned from."""
    reads: KeptReads
    """Reads of these samples, in the same order."""
    models: Path | None
    """The directory of the fine-tuned models; None: the baselines are mixed alone."""
    clades: tuple[pd.DataFrame, pd.DataFrame] | None = None
    """Tables of the clades that the labels depend on, and of their features; None: there are none.
    """

    @classmethod
    def load(cls, directory: Path) -> "SuperLearner | None":
        """Read a directory of the stage.

        Parameters
        ----------
        directory
            The folder.

        Returns
        -------
        SuperLearner or None
            None: the folder is none of a super learner.

        Raises
        ------
        InputError
            Something is missing, damaged or of another version.
        """
        if not (directory / SETTINGS).is_file():
            return None
        hint = "copy the directory again, with all of its files"
        with fitting(directory, "a super learner", hint):
            settings = read_super_learner(directory)
            folds = read_folds(directory / FOLDS)
            folds = folds[folds["fold"] >= 0]
            reads = KeptReads.load(directory, settings["rarefaction"])
            models = None if settings["model"] is None else directory / MODEL
            clades = read_clades(directory)
        return cls(settings, folds, reads, models, clades)

    def mix(
        self,
        predictions: pd.DataFrame,
        table: FeatureTable,
        sequences: Mapping[str, str],
        threads: int,
    ) -> pd.DataFrame:
        """Mix the predictions of the models with those of the baselines.

        Parameters
        ----------
        predictions
            What the models predict, by sample ID.
        table, sequences
            Reads before rarefaction, and the sequence of every feature.
        threads
            Cores to use.

        Returns
        -------
        pandas.DataFrame
            The columns of `predictions` without `sd` and quantiles.
        """
        result = predictions.loc[
            :, [not str(name).startswith((QUANTILE, "sd")) for name in predictions]
        ].copy()
        features = self.reads.nearest_features(table, sequences)
        mixed = self.predict(table, features, list(predictions.index), threads, predictions)
        result[mixed.columns] = mixed
        return result

    def predict(
        self,
        table: FeatureTable,
        features: Mapping[str, int],
        sample_ids: Sequence[str],
        threads: int,
        predictions: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Predict samples of another table with the mixture.

        Parameters
        ----------
        table
            Reads before rarefaction.
        features
            What `KeptReads.nearest_features` returns for the table.
        sample_ids
            Samples to predict, all of them deep enough.
        threads
            Cores to use.
        predictions
            What the models predict for these samples, in this order; None where there are none.

        Returns
        -------
        pandas.DataFrame
            By sample ID `predicted`, of several targets `predicted:<target>`, and the probabilities
            of the classes.
        """
        result = pd.DataFrame(index=pd.Index(sample_ids, name="sample-id"))
        classes = self.settings["classes"]
        drawn = self.reads.draw(table, features, sample_ids)
        for target, mixed_MC in self.predict_reads(drawn, threads, predictions).items():
            if classes:
                result["predicted"] = np.asarray(classes)[mixed_MC.argmax(axis=1)]
                result[[PROBABILITY + name for name in classes]] = mixed_MC
            else:
                result[f"predicted{_suffix(target)}"] = mixed_MC[:, 0]
        return result

    def predict_reads(
        self,
        drawn: Sequence[csr_array],
        threads: int,
        predictions: pd.DataFrame | None = None,
    ) -> dict[str, NDArray[np.float64]]:
        """Predict reads of the known features with the mixture.

        Parameters
        ----------
        drawn
            What `KeptReads.draw` returns, of M samples.
        threads, predictions
            See `predict`.

        Returns
        -------
        dict
            By target, empty where there is one, numbers [M, 1] or probabilities [M, C].
        """
        mixtures = {}
        for target, plain in self.settings["mixtures"].items():
            weights = {name: w for name, w in plain["weights"].items() if w > LEAST_WEIGHT}
            mixtures[target] = Mixture(weights, plain["temperatures"])
        needed = any(NEED_DISTANCES & mixture.weights.keys() for mixture in mixtures.values())
        landmarks = draw_landmarks(len(self.folds), self.settings["seed"])
        rows = self._problem(self.reads.problem_fields(drawn, landmarks, distances=needed))
        return {
            target: mixture.apply(self._predicted(predictions, rows, target, mixture, threads))
            for target, mixture in mixtures.items()
        }

    def labels(self, target: str) -> NDArray[Any]:
        """Return the labels of the kept samples, numbers or names of classes.

        Parameters
        ----------
        target
            Name of the target; empty where there is one.
        """
        observed = self.folds[OBSERVED + target if target else "observed"].to_numpy()
        return observed.astype(np.str_ if self.settings["classes"] else np.float64)

    def _predicted(
        self,
        predictions: pd.DataFrame | None,
        rows: Problem,
        target: str,
        mixture: Mixture,
        threads: int,
    ) -> dict[str, NDArray[np.float64]]:
        """Return what each method of a mixture says of the other samples.

        Parameters
        ----------
        predictions
            What the models predict; None: there are none.
        rows
            The kept samples and, behind them, the other ones.
        target
            Name of the target; empty where there is one.
        mixture
            Weights of the methods. Those without a weight are not fitted.
        threads
            Cores to use.

        Returns
        -------
        dict
            Predictions [M, C] by method.
        """
        classes = self.settings["classes"]
        model = self.settings["model"]
        shares = [PROBABILITY + name for name in classes]
        columns = shares or [f"predicted{_suffix(target)}"]
        labels = self.labels(target)
        asked = [name for name in mixture.weights if name != model]
        # The labels of the other samples are not known: any label stands in their place.
        filled = np.concatenate([labels, np.repeat(labels[:1], len(rows.fold) - len(labels))])
        task = dataclasses.replace(rows, target=filled, asked=asked)
        predicted = {}
        if predictions is not None:
            predicted[model] = predictions[columns].to_numpy(np.float64)
        if asked:
            baselines = predict_others(task, threads)
            for name, part in baselines.groupby("baseline"):
                predicted[str(name)] = part[shares or ["predicted"]].to_numpy(np.float64)
        return predicted

    def _problem(self, reads: Mapping[str, Any]) -> Problem:
        """Return the kept samples and the other ones, of fold -1, as the baselines take them."""
        others = reads["counts"].shape[0] - len(self.folds)
        settings = self.settings
        return Problem(
            **{key: settings[key] for key in ("kind", "classes", "seed")},
            **reads,
            target=np.array([]),
            fold=np.concatenate([self.folds["fold"].to_numpy(), np.full(others, -1)]),
            group=np.array([*self.folds["group"], *[""] * others], np.str_),
            bounds=tuple(settings["bounds"]),
        )


def _suffix(target: str) -> str:
    return f":{target}" if target else ""
