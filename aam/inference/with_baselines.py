"""A task's models and baselines, mixed, for other tables: baselines lie there as plain arrays.

Without models it is the baselines alone that are mixed: see `aam.inference.task_predictor`.

Shape suffixes: M other samples, C classes.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.sparse import csr_array

from aam.data.folds import OBSERVED, read_folds
from aam.data.predictions import PROBABILITY, QUANTILE
from aam.data.table import FeatureTable
from aam.inference.kept_reads import KeptReads
from aam.learners.baselines.arrays import ComparedSamples, FittedMethod, read_methods, write_methods
from aam.learners.kept_mixture import (
    COMPARED,
    FOLDS,
    METHODS,
    MODEL,
    SETTINGS,
    TREE,
    read_clades,
    read_super_learner,
    write_arrays,
)
from aam.learners.mixture import Mixture
from aam.util.atomic import atomic_path, write_json
from aam.util.digests import fitting, write_manifest
from aam.util.errors import problem

LEAST_WEIGHT = 1e-7
"""Weight below which a method is left out: it need not be fitted."""


@dataclass(frozen=True, eq=False)
class SuperLearner:
    """The mixture of the baselines of a task, with one model or without."""

    settings: Mapping[str, Any]
    """Content of `super_learner.json`."""
    folds: pd.DataFrame | None
    """Folds of the samples that are learned from; None: the folder was shared without them."""
    reads: KeptReads
    """Reads of these samples, in the same order."""
    models: Path | None
    """The directory of the fine-tuned models; None: the baselines are mixed alone."""
    methods: Mapping[str, Mapping[str, FittedMethod]]
    """The fitted baselines by target and name; those without a weight are not there."""
    compared: NDArray[np.intp]
    """Rows of the kept samples that distances lead to: all, or landmarks."""
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
            folds = None
            if (directory / FOLDS).is_file():
                folds = read_folds(directory / FOLDS)
                folds = folds[folds["fold"] >= 0]
            reads = KeptReads.load(directory, settings["rarefaction"])
            models = None if settings["model"] is None else directory / MODEL
            arrays = load_file(directory / METHODS)
            methods = {
                target: read_methods(facts, _arrays_of(number, arrays))
                for number, (target, facts) in enumerate(sorted(settings["methods"].items()))
            }
            clades = read_clades(directory)
        return cls(settings, folds, reads, models, methods, arrays[COMPARED], clades)

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
        mixtures = used_mixtures(self.settings)
        samples = self._samples(drawn)
        mixed = {}
        for target, mixture in mixtures.items():
            predicted = {
                name: method.predict(samples) for name, method in self.methods[target].items()
            }
            if predictions is not None:
                shares = [PROBABILITY + name for name in self.settings["classes"]]
                columns = shares or [f"predicted{_suffix(target)}"]
                predicted[self.settings["model"]] = predictions[columns].to_numpy(np.float64)
            mixed[target] = mixture.apply(predicted)
        return mixed

    def share(self, directory: Path, folder: Path) -> None:
        """Write a folder that predicts without any sample of training.

        Methods that compare with training samples are left out, and the weights of the others are
        divided by their sum. Intervals, calibrated probabilities, explanations by clades and marks
        of samples that were in training need samples: there are none.

        Parameters
        ----------
        directory
            The folder that this was loaded from.
        folder
            Folder to write.

        Raises
        ------
        InputError
            Networks are among the methods, or a target has no method that does without samples.
        """
        if self.models is not None:
            raise problem(
                directory,
                "networks, which hold what they know of training samples",
                "a super learner of baselines alone",
                "share the folder answers/<task>/first/super_learner",
            )
        mixtures = {}
        facts = {}
        arrays: dict[str, NDArray[Any]] = {COMPARED: self.compared[:0]}
        for number, (target, methods) in enumerate(sorted(self.methods.items())):
            free = {name: own for name, own in methods.items() if not own.needs_samples}
            weights = {name: self.settings["mixtures"][target]["weights"][name] for name in free}
            if not free:
                raise problem(
                    directory,
                    f"{', '.join(methods)}: methods that all compare with training samples",
                    "one that does without them, such as extra_trees",
                    "name some as `baselines` of the task, and run it again; or ask all who are "
                    "in the study before you share the folder as it is",
                )
            total = sum(weights.values())
            temperatures = self.settings["mixtures"][target]["temperatures"]
            mixtures[target] = {
                "weights": {name: weight / total for name, weight in weights.items()},
                "temperatures": {name: temperatures[name] for name in free},
            }
            facts[target], own_arrays = write_methods(free)
            arrays |= {f"{number}/{name}": array for name, array in own_arrays.items()}
        settings = {**self.settings, "mixtures": mixtures, "methods": facts}
        with atomic_path(folder) as partial:
            partial.mkdir()
            self.reads.write_features(partial)
            if (directory / TREE).is_file():
                shutil.copyfile(directory / TREE, partial / TREE)
            write_arrays(partial / METHODS, arrays)
            write_json(partial / SETTINGS, settings)
            write_manifest(partial)

    def labels(self, target: str) -> NDArray[Any]:
        """Return the labels of the kept samples, numbers or names of classes.

        Parameters
        ----------
        target
            Name of the target; empty where there is one.
        """
        assert self.folds is not None, "shared without samples"
        return labels_of(self.folds, self.settings["classes"], target)

    def _samples(self, drawn: Sequence[csr_array]) -> ComparedSamples:
        """Return the reads of some samples, and what the methods compare them with."""
        methods = [method for named in self.methods.values() for method in named.values()]
        reads = self.reads
        views = [csr_array(view.counts) for view in reads.views]
        needs_reads = any(method.needs_reads for method in methods)
        needs_distances = any(method.needs_distances for method in methods)
        return ComparedSamples(
            counts=_mean(drawn),
            above=reads.above,
            lengths=reads.lengths,
            kept=_mean(views) if needs_reads else csr_array((0, len(reads.features))),
            distances=reads.distances_to(self.compared, drawn)
            if needs_distances
            else np.zeros((drawn[0].shape[0], 0), np.float32),
        )


def labels_of(folds: pd.DataFrame, classes: Sequence[str], target: str) -> NDArray[Any]:
    """Return the labels of samples, numbers or names of classes.

    Parameters
    ----------
    folds
        Folds of the samples.
    classes
        Names of the classes; none where numbers are predicted.
    target
        Name of the target; empty where there is one.
    """
    observed = folds[OBSERVED + target if target else "observed"].to_numpy()
    return observed.astype(np.str_ if classes else np.float64)


def used_mixtures(settings: Mapping[str, Any]) -> dict[str, Mixture]:
    """Return the mixtures by target, without methods that have no weight.

    Parameters
    ----------
    settings
        Content of `super_learner.json`.
    """
    mixtures = {}
    for target, plain in settings["mixtures"].items():
        weights = {name: w for name, w in plain["weights"].items() if w > LEAST_WEIGHT}
        mixtures[target] = Mixture(weights, plain["temperatures"])
    return mixtures


def _arrays_of(number: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of the methods of a target, by the names that these were written with."""
    start = f"{number}/"
    return {key.removeprefix(start): own for key, own in arrays.items() if key.startswith(start)}


def _mean(views: Sequence[csr_array]) -> csr_array:
    """Return the mean reads of all views."""
    counts = csr_array(views[0].shape)
    for reads_MF in views:
        counts = csr_array(counts + reads_MF / len(views))
    return counts


def _suffix(target: str) -> str:
    return f":{target}" if target else ""
