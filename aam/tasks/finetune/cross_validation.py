"""Fine-tuning fold by fold: every labelled sample is predicted by a model that never saw its label.

Where several recipes are mixed, or a super learner will mix the predictions with others, some more
models are trained: nested predictions, which the weights of a fold rest on, come from them.

Shape suffixes: N samples of the store, L labelled ones, R rows of these, C columns or classes,
Q quantiles, D width.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from aam.data.folds import TEST
from aam.data.nested_folds import InnerFit, blocks_of_folds
from aam.data.target import QUANTILES
from aam.evaluate.mixture import Mixture
from aam.evaluate.predictions import DRAW, GROUP, PROBABILITY, QUANTILE, TARGET, UNNESTED
from aam.evaluate.super_learner import WITHOUT
from aam.inference.asv_cache import embed_asvs_cached, module_digest
from aam.inference.embed import embed_samples
from aam.inference.outputs import Outputs, Share, mean_outputs
from aam.model.asv_encoders import Architecture
from aam.tasks.finetune.fold_model import FoldModel, FrozenEmbeddings
from aam.tasks.finetune.parallel import ModelKey
from aam.tasks.finetune.recipe_mixture import recipe_mixture
from aam.tasks.finetune.recipes import affordable_recipes, nested_fits, recipe_settings
from aam.tasks.finetune.setup import FinetuneSetup
from aam.tasks.finetune.train_fold import trained
from aam.train.progress import Record

UNCHANGED = ("frozen", "kernel")
"""Recipes that leave the encoder as it is."""


@dataclass(frozen=True, eq=False)
class NestedOutputs:
    """What the weights of one block of folds are fitted to.

    Attributes
    ----------
    block
        Number of the block; see `aam.data.nested_folds`.
    is_row_L
        The labelled samples that all recipes predicted without the block and without themselves.
    by_recipe
        Outputs of all labelled samples, not a number outside of these rows.
    """

    block: int
    is_row_L: NDArray[np.bool_]
    by_recipe: Mapping[str, Outputs]


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The models of all folds of a task."""

    setup: FinetuneSetup

    @cached_property
    def networks(self) -> dict[str, int]:
        """Models per fold by recipe: as the settings say, or what their budget allows."""
        settings = self.setup.settings
        if settings.encoder == "auto" and settings.start == "pretrained":
            return affordable_recipes(self.setup)
        # From scratch nothing is learned yet that could be kept.
        encoder = "full" if settings.encoder == "auto" else settings.encoder
        # Nothing of a kernel machine is drawn: a second one would be the same again.
        return {encoder: 1 if encoder == "kernel" else settings.models}

    @property
    def recipes(self) -> list[str]:
        """What is trained in every fold."""
        return list(self.networks)

    @cached_property
    def inner_fits(self) -> dict[str, list[InnerFit]]:
        """The fits of the nested cross-validation by recipe; none where nothing is mixed."""
        is_mixed = self.setup.is_mixed or len(self.recipes) > 1
        return {
            recipe: nested_fits(self.setup, recipe) if is_mixed else [] for recipe in self.recipes
        }

    def models(self) -> list[ModelKey]:
        """Return the key of every model: those of the folds, then those of the nested fits.

        Nested fits have one model each, whatever the number of models of a fold.
        """
        keys = [
            ModelKey(f"fold{fold}", recipe, number)
            for fold in self._folds()
            for recipe, models in self.networks.items()
            for number in range(models)
        ]
        for recipe, fits in self.inner_fits.items():
            keys += [ModelKey(f"without{fit.name}", recipe, 0) for fit in fits]
        return keys

    def train(self, models: Sequence[ModelKey]) -> None:
        """Train some of the models, for a `run` that finds them finished."""
        for _, model in self._fold_models(models):
            trained(model)

    def run(self) -> "Finished":
        """Train all models; one that an earlier run finished is read, not trained."""
        outer: dict[ModelKey, Outputs] = {}
        test: dict[ModelKey, Outputs] = {}
        nested: dict[ModelKey, Outputs] = {}
        history: list[Record] = []
        names: dict[ModelKey, str] = {}
        directories: dict[str, Path] = {}
        digests: dict[str, str] = {}
        reference_ND = None
        trained_on = self._trained_on()
        reference_key = self._reference_key()
        for key, model in self._fold_models(self.models()):
            predictor, records = trained(model)
            if model.inner is not None:
                nested[key] = model.outputs(predictor, model.inner.rows)
                continue
            names[key] = model.name
            directories[model.name] = model.directory
            digests[model.name] = module_digest(predictor)
            about = {"fold": model.fold, "recipe": key.recipe, "model": key.number}
            history += [{**about, **record} for record in records]
            outer[key] = model.outputs(predictor, self._rows(model.fold))
            if len(rows := self._rows(TEST)):
                test[key] = model.outputs(predictor, rows)
            if key == reference_key:
                exact = self.setup.devices.exact()
                reference_ND = model.embedded(predictor, trained_on, exact)
        assert reference_ND is not None, "a task has folds"
        alone = {
            recipe: self._joined(outer, test, {key: Share() for key in outer if key[1] == recipe})
            for recipe in self.recipes
        }
        blocks = [self._nested_outputs(block, nested) for block in self._blocks()]
        by_fold = self._mixtures(alone, blocks)
        final = recipe_mixture(self.setup, self._is_training(TEST), alone)
        outputs = self._mixed(outer, test, by_fold, final)
        unnested = None
        if len(self.recipes) > 1:
            reused = {
                fold: recipe_mixture(self.setup, self._is_training(fold), alone)
                for fold in self._folds()
            }
            unnested = self._mixed(outer, test, reused, final)
        shares = self._shares(outer, dict.fromkeys(self._folds(), final))
        return Finished(
            outputs=outputs,
            unnested=unnested,
            draws=self._draws(outer, test, by_fold, final),
            nested=[
                (nested_of_block.block, nested_of_block.is_row_L, self._mix_nested(nested_of_block))
                for nested_of_block in blocks
            ],
            by_recipe=alone,
            weights={
                recipe: {
                    **{fold: mixture.weights[recipe] for fold, mixture in by_fold.items()},
                    TEST: final.weights[recipe],
                }
                for recipe in self.recipes
            },
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

    def _reference_key(self) -> ModelKey:
        """Return the first model whose encoder stays as it was pretrained, or the first of all."""
        models = self.models()
        unchanged = [key for key in models if key.recipe in UNCHANGED]
        # The models of the folds come first: those of nested fits are not kept.
        return (unchanged or models)[0]

    def _folds(self) -> list[int]:
        return sorted(set(self.setup.labelled.fold.tolist()) - {TEST})

    def _blocks(self) -> list[int]:
        if not any(self.inner_fits.values()):
            return []
        return sorted(set(blocks_of_folds(self.setup.labelled.fold).values()))

    def _rows(self, part: int) -> NDArray[np.intp]:
        return np.flatnonzero(self.setup.labelled.fold == part)

    def _is_training(self, fold: int) -> NDArray[np.bool_]:
        """Return the samples whose labels a fold's models may use; of `TEST`, all in any fold."""
        settings = self.setup.settings
        return self.setup.labelled.training(fold, settings.labels, settings.seed)

    def _fold_models(self, models: Sequence[ModelKey]) -> Iterator[tuple[ModelKey, FoldModel]]:
        setup = self.setup
        settings = setup.settings
        inner = {
            (recipe, f"without{fit.name}"): fit
            for recipe, fits in self.inner_fits.items()
            for fit in fits
        }
        # An inductive encoder is that of a fold which the fit has not seen.
        fold_of_block: dict[int, int] = {}
        for fold, block in blocks_of_folds(setup.labelled.fold).items():
            fold_of_block.setdefault(block, fold)
        embeddings = None
        embedded_fold = None
        for key in models:
            fit = inner.get((key.recipe, key.part))
            if fit is None:
                fold = int(key.part.removeprefix("fold"))
            else:
                fold = fold_of_block[min(fit.predicted)]
            # Of inductive folds each has an encoder of its own, else all have the same.
            if embeddings is None or (settings.inductive and fold != embedded_fold):
                embeddings = self._frozen(fold)
                embedded_fold = fold
            model = FoldModel(
                setup=setup,
                fold=fold,
                number=key.number,
                frozen=embeddings.kept_by(key.recipe),
                recipe=key.recipe if len(self.recipes) > 1 else "",
                inner=fit,
            )
            settings_of_model = settings.model_copy(update={"encoder": key.recipe})
            if settings.encoder == "auto" and settings.start == "pretrained":
                samples = int(model.is_training.sum())
                settings_of_model = recipe_settings(setup, self._shape, key.recipe, samples)
            yield key, replace(model, setup=replace(setup, settings=settings_of_model))

    @cached_property
    def _shape(self) -> Architecture:
        return self.setup.make_encoder(self._folds()[0], 0).shape

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

    def _nested_outputs(self, block: int, nested: Mapping[ModelKey, Outputs]) -> NestedOutputs:
        """Return the nested predictions for a block, of each recipe."""
        labels = len(self.setup.labelled.fold)
        is_row_L = np.ones(labels, np.bool_)
        by_recipe = {}
        for recipe, fits in self.inner_fits.items():
            is_predicted_L = np.zeros(labels, np.bool_)
            columns = next(iter(nested.values())).point_NC.shape[1]
            point_LC = np.full((labels, columns), np.nan)
            for fit in fits:
                rows = fit.predicted.get(block)
                if rows is None:
                    continue
                outputs = nested[ModelKey(f"without{fit.name}", recipe, 0)]
                point_LC[rows] = outputs.point_NC[np.searchsorted(fit.rows, rows)]
                is_predicted_L[rows] = True
            by_recipe[recipe] = Outputs(point_LC)
            is_row_L &= is_predicted_L
        return NestedOutputs(block, is_row_L, by_recipe)

    def _mix_nested(self, nested: NestedOutputs) -> Outputs:
        """Return the nested predictions of the mixture of recipes, for a super learner."""
        is_used_L = nested.is_row_L & self._is_training(TEST)
        mixture = recipe_mixture(self.setup, is_used_L, nested.by_recipe)
        outputs = [Outputs(one.point_NC[nested.is_row_L]) for one in nested.by_recipe.values()]
        shares = [Share(mixture.weights[name], mixture.temperatures[name]) for name in self.recipes]
        return mean_outputs(outputs, shares)

    def _mixtures(
        self, alone: Mapping[str, Outputs], blocks: Iterable[NestedOutputs]
    ) -> dict[int, Mixture]:
        """Return the mixture of each fold, fitted to predictions of models that never saw it."""
        nested_of_block = {nested.block: nested for nested in blocks}
        mixtures = {}
        for fold, block in blocks_of_folds(self.setup.labelled.fold).items():
            nested = nested_of_block.get(block)
            if nested is None:
                # A single recipe has the whole weight.
                is_used_L = np.zeros(len(self.setup.labelled.fold), np.bool_)
                mixtures[fold] = recipe_mixture(self.setup, is_used_L, alone)
            else:
                is_used_L = nested.is_row_L & self._is_training(fold)
                mixtures[fold] = recipe_mixture(self.setup, is_used_L, nested.by_recipe)
        return mixtures

    def _shares(
        self, models: Iterable[ModelKey], mixtures: Mapping[int, Mixture]
    ) -> dict[ModelKey, Share]:
        """Return what each model of the folds counts for."""
        keys = list(models)
        shares = {}
        for key in keys:
            mixture = mixtures[int(key.part.removeprefix("fold"))]
            equals = sum(other[:2] == key[:2] for other in keys)
            shares[key] = Share(
                weight=mixture.weights[key.recipe] / equals,
                temperature=mixture.temperatures[key.recipe],
                group=f"{key.part}-{key.recipe}" if equals > 1 else "",
            )
        return shares

    def _mixed(
        self,
        outer: Mapping[ModelKey, Outputs],
        test: Mapping[ModelKey, Outputs],
        by_fold: Mapping[int, Mixture],
        final: Mixture,
    ) -> Outputs:
        """Return outputs mixed by the weights of each fold, of the test set by the final ones."""
        shares = self._shares(outer, by_fold)
        final_shares = self._shares(outer, dict.fromkeys(self._folds(), final))
        return self._joined(outer, test, shares, final_shares)

    def _draws(
        self,
        outer: Mapping[ModelKey, Outputs],
        test: Mapping[ModelKey, Outputs],
        by_fold: Mapping[int, Mixture],
        final: Mixture,
    ) -> list[Outputs]:
        """Return the mixed outputs with one network of each recipe, for every draw of weights.

        There are as many draws as every recipe has networks; none where that is one.
        """
        numbers = [models for recipe, models in self.networks.items() if recipe != "kernel"]
        draws = []
        for number in range(min(numbers, default=1)):
            keys = [key for key in outer if key.recipe == "kernel" or key.number == number]
            models = {key: outer[key] for key in keys}
            models_of_test = {key: test[key] for key in keys if key in test}
            draws.append(self._mixed(models, models_of_test, by_fold, final))
        return draws if len(draws) > 1 else []

    def _joined(
        self,
        outer: Mapping[ModelKey, Outputs],
        test: Mapping[ModelKey, Outputs],
        shares: Mapping[ModelKey, Share],
        test_shares: Mapping[ModelKey, Share] | None = None,
    ) -> Outputs:
        """Return the outputs of all labelled samples, each the mean over its models."""
        parts = {}
        for fold in self._folds():
            of_fold = {key: one for key, one in shares.items() if key.part == f"fold{fold}"}
            parts[fold] = _mean(outer, of_fold)
        if test:
            parts[TEST] = _mean(test, shares if test_shares is None else test_shares)
        order = np.argsort(np.concatenate([self._rows(part) for part in parts]))
        quantiles = [mean.quantile_NCQ for mean in parts.values() if mean.quantile_NCQ is not None]
        return Outputs(
            point_NC=np.concatenate([mean.point_NC for mean in parts.values()])[order],
            quantile_NCQ=np.concatenate(quantiles)[order] if quantiles else None,
        )


def _mean(outputs: Mapping[ModelKey, Outputs], shares: Mapping[ModelKey, Share]) -> Outputs:
    return mean_outputs([outputs[key] for key in shares], [*shares.values()])


@dataclass(frozen=True, eq=False)
class Finished:
    """What cross-validation leaves."""

    outputs: Outputs
    """Outputs for each labelled sample, the mean of the views, mixed from models that never saw its
    label. No model behind the weights of a fold saw the fold."""
    unnested: Outputs | None
    """The same with weights that rest on models which saw the fold; None where nothing is mixed."""
    draws: list[Outputs]
    """The same with one network of each recipe in place of several; none where there is one."""
    nested: list[tuple[int, NDArray[np.bool_], Outputs]]
    """By block: which labelled samples are predicted without it, and what the mixture says."""
    by_recipe: dict[str, Outputs]
    """Outputs of the models of each recipe alone."""
    weights: dict[str, dict[int, float]]
    """What each recipe counts for in every fold, and in the held-out test set."""
    history: list[Record]
    """The training curves."""
    models: dict[str, Path]
    """Directory of each model of the folds by its name."""
    shares: dict[str, Share]
    """What each model counts for in predictions of other tables: fitted to all folds."""
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


def nested_table(setup: FinetuneSetup, finished: Finished) -> pd.DataFrame:
    """Return the nested predictions of the mixed recipes, with the block that they are `without`.

    The columns are `sample-id`, with several columns to predict `target`, `without`, and
    `predicted` or the probabilities.
    """
    parts = []
    for block, is_row_L, outputs in finished.nested:
        labels = len(is_row_L)
        point_LC = np.full((labels, outputs.point_NC.shape[1]), np.nan)
        point_LC[is_row_L] = outputs.point_NC
        table = prediction_table(setup, Outputs(point_LC))
        targets = len(table) // labels
        part = table[np.tile(is_row_L, targets)].drop(columns=["fold", "observed", GROUP])
        part.insert(1, WITHOUT, block)
        parts.append(part)
    if not parts:
        return pd.DataFrame({"sample-id": [], WITHOUT: [], "predicted": []})
    return pd.concat(parts, ignore_index=True)


def predictions_for_scores(setup: FinetuneSetup, finished: Finished) -> pd.DataFrame:
    """Return `prediction_table`, with what the report compares it with beside it.

    `unnested`: what mixed recipes predict with weights that rest on models which saw the fold.
    `draw:<number>`: what they predict with one network each, where there are several.
    """
    table = prediction_table(setup, finished.outputs)
    if finished.unnested is not None:
        table[UNNESTED] = prediction_table(setup, finished.unnested)["predicted"]
    for number, outputs in enumerate(finished.draws):
        table[f"{DRAW}{number}"] = prediction_table(setup, outputs)["predicted"]
    return table


def prediction_table(setup: FinetuneSetup, outputs: Outputs) -> pd.DataFrame:
    """Return the columns of `predictions.tsv`, samples in the order of the folds file."""
    task, labelled, point_LC = setup.task, setup.labelled, outputs.point_NC
    ids = [setup.store.sample_ids[sample] for sample in labelled.samples]
    base = pd.DataFrame({"sample-id": ids, "fold": labelled.fold, GROUP: labelled.units})
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
