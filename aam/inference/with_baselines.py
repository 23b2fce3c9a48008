"""A task's models and baselines, mixed, for other tables: baselines are fitted again to kept reads.

Without models it is the baselines alone that are mixed: see `aam.inference.first_answer`.

Shape suffixes: M other samples, C classes.
"""

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.sections.task import ON_DISTANCES
from aam.data.folds import OBSERVED, read_folds
from aam.data.table import FeatureTable, on_same_features, read_biom, write_biom
from aam.evaluate.baselines.problem import Problem, landmarks_of
from aam.evaluate.baselines.registry import predict_baselines
from aam.evaluate.mixture import Mixture
from aam.evaluate.predictions import (
    CROSS_VALIDATION,
    PROBABILITY,
    QUANTILE,
    TARGET,
    write_predictions,
)
from aam.evaluate.super_learner import (
    FOLDS,
    FORMAT,
    MODEL,
    SEQUENCES,
    SETTINGS,
    TREE,
    Learner,
    super_learner,
)
from aam.inference.kept_reads import KeptReads
from aam.inference.same_reads import Fingerprints
from aam.util.atomic import atomic_path, read_json, write_json
from aam.util.errors import problem
from aam.util.manifest import check_manifest, fitting, write_manifest

FINGERPRINTS = "fingerprints.safetensors"
"""File of a super learner without models: what recognizes the reads of its training samples."""
LEAST_WEIGHT = 1e-7
"""Weight below which a method is left out: it need not be fitted."""


def mix_targets(
    learners: Mapping[str, Mapping[str, Learner]], units: pd.Series
) -> tuple[dict[str, Mixture], pd.DataFrame]:
    """Mix the learners of every target.

    Parameters
    ----------
    learners
        By target ("" where there is one) and name. A learner that is alone is not mixed.
    units
        Which samples belong together, as `aam.data.folds.units_of` returns it.

    Returns
    -------
    tuple
        The mixture for other tables, by target, and the cross-validated predictions, with a column
        `target` where there are several.
    """
    mixtures: dict[str, Mixture] = {}
    parts = []
    for target, named in learners.items():
        if len(named) > 1:
            mixed = super_learner(named, units)
            mixture = mixed.mixture
            table = mixed.predictions
        else:
            mixture = Mixture.equal(list(named))
            table = next(iter(named.values())).predictions
        mixtures[target] = mixture
        parts.append(table.assign(**{TARGET: target}) if target else table)
    return mixtures, pd.concat(parts, ignore_index=True)


def write_super_learner(
    directory: Path,
    settings: Mapping[str, Any],
    predictions: pd.DataFrame,
    *,
    folds: Path,
    tree: Path,
    sequences: Path,
    views: Sequence[Path],
    models: Path | None = None,
    fingerprints: Fingerprints | None = None,
) -> None:
    """Write the directory that `SuperLearner.load` reads, atomically.

    Parameters
    ----------
    directory
        Folder to write.
    settings
        Content of `super_learner.json`: what the baselines and the rarefaction of another table
        take, the mixtures, and the name of the model, None where there is none.
    predictions
        The cross-validated ones of the mixture, which intervals are learned from.
    folds, tree, sequences, views
        Files of the study: those of the task's folds, of its tree and ASVs, and of its rarefied
        tables.
    models
        Directory of the fine-tuned models; None: baselines are mixed alone.
    fingerprints
        Reads of the training samples, which are recognized by them later. None: the models do it.
    """
    labelled = read_folds(folds)
    known = [*labelled.index[labelled["fold"] >= 0]]
    with atomic_path(directory) as partial:
        partial.mkdir()
        if models is not None:
            shutil.copytree(models, partial / MODEL)
        shutil.copyfile(folds, partial / FOLDS)
        shutil.copyfile(tree, partial / TREE)
        shutil.copyfile(sequences, partial / SEQUENCES)
        for view, reads in enumerate(on_same_features(map(read_biom, views), known)):
            write_biom(partial / f"view{view}.biom", reads, {})
        if fingerprints is not None:
            fingerprints.write(partial / FINGERPRINTS)
        write_predictions(partial / CROSS_VALIDATION, predictions)
        write_json(partial / SETTINGS, settings)
        write_manifest(partial)


@dataclass(frozen=True, eq=False)
class SuperLearner:
    """The mixture of the baselines of a task, with one model or without."""

    settings: Mapping[str, Any]
    """Content of `super_learner.json`."""
    folds: pd.DataFrame
    """Of the samples that are learned from."""
    reads: KeptReads
    """Theirs, in the same order."""
    models: Path | None
    """The directory of the fine-tuned models; None: the baselines are mixed alone."""

    @classmethod
    def load(cls, directory: Path) -> "SuperLearner | None":
        """Read a directory of the stage, or return None where it is none.

        An `InputError` says what is missing, damaged or of another version.
        """
        if not (directory / SETTINGS).is_file():
            return None
        hint = "copy the directory again, with all of its files"
        with fitting(directory, "a super learner", hint):
            settings = read_json(directory / SETTINGS)
            if settings["format"] != FORMAT:
                got, expected = f"format {settings['format']}", f"format {FORMAT}"
                raise problem(directory / SETTINGS, got, expected, "run its stage again")
            check_manifest(directory, hint)
            folds = read_folds(directory / FOLDS)
            folds = folds[folds["fold"] >= 0]
            reads = KeptReads.load(directory, settings["rarefaction"])
            models = None if settings["model"] is None else directory / MODEL
        return cls(settings, folds, reads, models)

    def mixed(
        self, own: pd.DataFrame, table: FeatureTable, sequences: Mapping[str, str], threads: int
    ) -> pd.DataFrame:
        """Return the predictions `own`, mixed with the baselines', without `sd` and quantiles."""
        result = own.loc[:, [not str(name).startswith((QUANTILE, "sd")) for name in own]].copy()
        mixed = self.predict(table, sequences, list(own.index), threads, own)
        result[mixed.columns] = mixed
        return result

    def predict(
        self,
        table: FeatureTable,
        sequences: Mapping[str, str],
        sample_ids: Sequence[str],
        threads: int,
        own: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Predict samples of another table with the mixture.

        Parameters
        ----------
        table, sequences
            Reads before rarefaction, and the sequence of every feature.
        sample_ids
            Samples to predict, all of them deep enough.
        threads
            Cores to use.
        own
            What the models predict for these samples, in this order; None where there are none.

        Returns
        -------
        pandas.DataFrame
            By sample ID `predicted`, of several targets `predicted:<target>`, and the probabilities
            of the classes.
        """
        result = pd.DataFrame(index=pd.Index(sample_ids, name="sample-id"))
        classes = self.settings["classes"]
        mixtures = {}
        for target, found in self.settings["mixtures"].items():
            kept = {name: one for name, one in found["weights"].items() if one > LEAST_WEIGHT}
            mixtures[target] = Mixture(kept, found["temperatures"])
        needed = any(ON_DISTANCES & mixture.weights.keys() for mixture in mixtures.values())
        landmarks = landmarks_of(len(self.folds), self.settings["seed"])
        reads = self.reads.beside(table, sequences, sample_ids, landmarks, distances=needed)
        rows = self._problem(reads)
        for target, mixture in mixtures.items():
            mixed_MC = mixture.apply(self._predicted(own, rows, target, mixture, threads))
            if classes:
                result["predicted"] = np.asarray(classes)[mixed_MC.argmax(axis=1)]
                result[[PROBABILITY + name for name in classes]] = mixed_MC
            else:
                result[f"predicted{_suffix(target)}"] = mixed_MC[:, 0]
        return result

    def _predicted(
        self,
        own: pd.DataFrame | None,
        rows: Problem,
        target: str,
        mixture: Mixture,
        threads: int,
    ) -> dict[str, NDArray[np.float64]]:
        """Return what each method of a mixture says of the other samples, [M, C]."""
        classes, model = self.settings["classes"], self.settings["model"]
        shares = [PROBABILITY + name for name in classes]
        columns = shares or [f"predicted{_suffix(target)}"]
        observed = self.folds[OBSERVED + target if target else "observed"].to_numpy()
        known = observed.astype(np.str_ if classes else np.float64)
        asked = [name for name in mixture.weights if name != model]
        # The label of the other samples is nobody's to know: any stands in its place.
        filled = np.concatenate([known, np.repeat(known[:1], len(rows.fold) - len(known))])
        task = dataclasses.replace(rows, target=filled, asked=asked)
        found = {} if own is None else {model: own[columns].to_numpy(np.float64)}
        if asked:
            baselines = predict_baselines(task, threads, folds=[-1])
            for name, part in baselines.groupby("baseline"):
                found[str(name)] = part[shares or ["predicted"]].to_numpy(np.float64)
        return found

    def _problem(self, reads: Mapping[str, Any]) -> Problem:
        """Return the kept samples and the other ones, of fold -1, as the baselines take them."""
        others, settings = reads["counts"].shape[0] - len(self.folds), self.settings
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
