"""Fine-tuning fold by fold: every labelled sample is predicted by a model that never saw its label.

Shape suffixes: N samples of the store, L labelled ones, C columns or classes, Q quantiles, D width.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from aam.data.folds import TEST
from aam.data.target import QUANTILES
from aam.evaluate.predictions import PROBABILITY, QUANTILE, TARGET
from aam.inference.asv_cache import embed_asvs_cached, module_digest
from aam.inference.embed import embed_samples
from aam.inference.outputs import Outputs, Share, mean_outputs
from aam.tasks.finetune.fold_model import FoldModel, FrozenEmbeddings
from aam.tasks.finetune.recipe_mixture import recipe_mixture
from aam.tasks.finetune.recipes import affordable_recipes, recipe_settings
from aam.tasks.finetune.setup import FinetuneSetup
from aam.tasks.finetune.train_fold import trained
from aam.train.progress import Record

UNCHANGED = ("frozen", "kernel")
"""Recipes that leave the encoder as it is."""
Key = tuple[int, str, int]
"""Fold, recipe and number of a model."""


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The models of all folds of a task."""

    setup: FinetuneSetup

    @cached_property
    def recipes(self) -> list[str]:
        """What is trained in every fold: as the settings say, or what their budget allows."""
        settings = self.setup.settings
        if settings.encoder != "auto":
            return [settings.encoder]
        # From scratch nothing is learned yet that could be kept.
        return ["full"] if settings.start == "scratch" else affordable_recipes(self.setup)

    def models(self) -> list[Key]:
        """Return fold, recipe and number of every model."""
        return [
            (fold, recipe, number)
            for fold in self._folds()
            for recipe in self.recipes
            # Nothing of a kernel machine is drawn: a second one would be the same again.
            for number in range(1 if recipe == "kernel" else self.setup.settings.models)
        ]

    def train(self, models: Sequence[Key]) -> None:
        """Train some of the models, for a `run` that finds them finished."""
        for _, model in self._fold_models(models):
            trained(model)

    def run(self) -> "Finished":
        """Train all models; one that an earlier run finished is read, not trained."""
        own: dict[Key, Outputs] = {}
        test: dict[Key, Outputs] = {}
        history: list[Record] = []
        names, directories, digests, reference_ND = {}, {}, {}, None
        trained_on = self._trained_on()
        reference_key = self._reference_key()
        for key, model in self._fold_models(self.models()):
            predictor, records = trained(model)
            names[key] = model.name
            directories[model.name] = model.directory
            digests[model.name] = module_digest(predictor)
            about = dict(zip(("fold", "recipe", "model"), key, strict=True))
            history += [{**about, **one} for one in records]
            own[key] = model.outputs(predictor, self._rows(model.fold))
            if len(rows := self._rows(TEST)):
                test[key] = model.outputs(predictor, rows)
            if key == reference_key:
                exact = self.setup.devices.exact()
                reference_ND = model.embedded(predictor, trained_on, exact)
        assert reference_ND is not None, "a task has folds"
        alone = {
            recipe: self._joined(own, test, {key: Share() for key in own if key[1] == recipe})
            for recipe in self.recipes
        }
        shares, weights = self._shares(alone)
        return Finished(
            outputs=self._joined(own, test, shares),
            by_recipe=alone,
            weights=weights,
            history=history,
            models=directories,
            shares={names[key]: share for key, share in shares.items()},
            digests=digests,
            trained_on=[self.setup.store.sample_ids[sample] for sample in trained_on],
            reference_ND=reference_ND,
            reference_model=names[reference_key],
        )

    def _trained_on(self) -> NDArray[np.int64]:
        """Return the samples of the store that any model is trained on, ascending."""
        labelled = self.setup.labelled
        settings = self.setup.settings
        is_training_L = np.zeros(len(labelled.samples), bool)
        for fold in self._folds():
            is_training_L |= labelled.training(fold, settings.labels, settings.seed)
        return np.sort(labelled.samples[is_training_L])

    def _reference_key(self) -> Key:
        """Return the first model whose encoder stays as it was pretrained, or the first of all."""
        models = self.models()
        unchanged = [key for key in models if key[1] in UNCHANGED]
        return (unchanged or models)[0]

    def _folds(self) -> list[int]:
        return sorted(set(self.setup.labelled.fold.tolist()) - {TEST})

    def _rows(self, part: int) -> NDArray[np.intp]:
        return np.flatnonzero(self.setup.labelled.fold == part)

    def _fold_models(self, models: Sequence[Key]) -> Iterator[tuple[Key, FoldModel]]:
        given, frozen, embedded_fold = self.setup.settings, None, None
        for fold, recipe, number in models:
            # Of inductive folds each has an encoder of its own, else all have the same.
            if frozen is None or (given.inductive and fold != embedded_fold):
                frozen, embedded_fold = self._frozen(fold), fold
            settings = given.model_copy(update={"encoder": recipe})
            if given.encoder == "auto" and given.start == "pretrained":
                settings = recipe_settings(self.setup, fold, recipe)
            name = recipe if len(self.recipes) > 1 else ""
            setup, stay = replace(self.setup, settings=settings), frozen.kept_by(recipe)
            yield (fold, recipe, number), FoldModel(setup, fold, number, stay, name)

    def _frozen(self, fold: int) -> FrozenEmbeddings:
        """Embed once what the models of a fold do not change."""
        setup = self.setup
        if self.recipes == ["full"]:
            return FrozenEmbeddings()
        # Weights that are kept are pretrained ones, which the models of a fold have in common.
        encoder, devices = setup.make_encoder(fold, 0), setup.devices.exact()
        asv_UD = embed_asvs_cached(encoder, setup.tokens, devices, setup.asvs)
        if not {"frozen", "kernel"} & set(self.recipes):
            return FrozenEmbeddings(asv_UD)
        views = setup.store.views * len(setup.store.sample_ids)
        rows = np.arange(len(setup.store.row_view) if "frozen" in self.recipes else views)
        embedding_RD = embed_samples(encoder, setup.store, setup.tokens, rows, devices, asv_UD)
        return FrozenEmbeddings(asv_UD, embedding_RD)

    def _shares(
        self, alone: Mapping[str, Outputs]
    ) -> tuple[dict[Key, Share], dict[str, dict[int, float]]]:
        """Return the share of each model, and the weight of each recipe by fold and for `TEST`."""
        mixtures = {fold: recipe_mixture(self.setup, fold, alone) for fold in self._folds()}
        models, shares = self.models(), {}
        for fold, recipe, number in models:
            mixture = mixtures[fold]
            equals = sum(key[:2] == (fold, recipe) for key in models)
            weight, group = mixture.weights[recipe] / equals, f"fold{fold}-{recipe}"
            share = Share(weight, mixture.temperatures[recipe], group if equals > 1 else "")
            shares[fold, recipe, number] = share
        weights = {}
        for recipe in self.recipes:
            of_fold = {fold: mixture.weights[recipe] for fold, mixture in mixtures.items()}
            weights[recipe] = {**of_fold, TEST: float(np.mean([*of_fold.values()]))}
        return shares, weights

    def _joined(
        self, own: Mapping[Key, Outputs], test: Mapping[Key, Outputs], shares: Mapping[Key, Share]
    ) -> Outputs:
        """Return the outputs of all labelled samples, each the mean over its models."""
        parts = {
            fold: mean_outputs(*_of(own, {k: s for k, s in shares.items() if k[0] == fold}))
            for fold in self._folds()
        }
        if test:
            parts[TEST] = mean_outputs(*_of(test, shares))
        order = np.argsort(np.concatenate([self._rows(part) for part in parts]))
        quantiles = [mean.quantile_NCQ for mean in parts.values() if mean.quantile_NCQ is not None]
        return Outputs(
            point_NC=np.concatenate([mean.point_NC for mean in parts.values()])[order],
            quantile_NCQ=np.concatenate(quantiles)[order] if quantiles else None,
        )


def _of(
    outputs: Mapping[Key, Outputs], shares: Mapping[Key, Share]
) -> tuple[list[Outputs], list[Share]]:
    return [outputs[key] for key in shares], [*shares.values()]


@dataclass(frozen=True, eq=False)
class Finished:
    """What cross-validation leaves."""

    outputs: Outputs
    """Of each labelled sample, mixed of the models that never saw its label, mean of the views."""
    by_recipe: dict[str, Outputs]
    """The same of the models of each recipe alone."""
    weights: dict[str, dict[int, float]]
    """What each recipe counts for in every fold, and in the held-out test set."""
    history: list[Record]
    """The training curves."""
    models: dict[str, Path]
    """Directory of each model by its name."""
    shares: dict[str, Share]
    """What each model counts for."""
    digests: dict[str, str]
    """What identifies the weights of each."""
    trained_on: list[str]
    """IDs of the samples that any model was trained on."""
    reference_ND: torch.Tensor
    """Embeddings of their view 0, by the encoder of `reference_model`."""
    reference_model: str
    """Name of a model whose encoder is the pretrained one, or of the first, where none is."""


def recipe_table(setup: FinetuneSetup, finished: Finished) -> pd.DataFrame:
    """Return `prediction_table` of every recipe alone, with the columns `recipe` and `weight`."""
    parts = []
    for recipe, outputs in finished.by_recipe.items():
        table = prediction_table(setup, outputs)
        table.insert(0, "recipe", recipe)
        table.insert(1, "weight", table["fold"].map(finished.weights[recipe]))
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def prediction_table(setup: FinetuneSetup, outputs: Outputs) -> pd.DataFrame:
    """Return the columns of `predictions.tsv`, samples in the order of the folds file."""
    task, labelled, point_LC = setup.task, setup.labelled, outputs.point_NC
    ids = [setup.store.sample_ids[sample] for sample in labelled.samples]
    base = pd.DataFrame({"sample-id": ids, "fold": labelled.fold})
    if task.kind != "regression":
        observed = labelled.observed_LC[:, 0]
        classes = np.array(task.classes or sorted(set(observed)))
        probabilities = {PROBABILITY + str(name): point_LC[:, i] for i, name in enumerate(classes)}
        return base.assign(
            observed=observed, predicted=classes[point_LC.argmax(axis=1)], **probabilities
        )
    parts = []
    for place, column in enumerate(task.columns):
        part = base.assign(observed=labelled.observed_LC[:, place], predicted=point_LC[:, place])
        if outputs.quantile_NCQ is not None:
            for q, value_L in zip(QUANTILES, outputs.quantile_NCQ[:, place].T, strict=True):
                part[f"{QUANTILE}{q:g}"] = value_L
        if len(task.columns) > 1:
            part.insert(1, TARGET, column)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
