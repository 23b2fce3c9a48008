"""Fine-tuning fold by fold: every labelled sample is predicted by a model that never saw its label.

Where several recipes are mixed, or a super learner will mix the predictions with others, some more
models are trained: nested predictions, which the weights of a fold rest on, come from them.

Shape suffixes: N samples of the store, L labelled ones, R rows of the store, U ASVs, D width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aam.config.sections.finetuning import Finetuning
from aam.data.folds import TEST
from aam.data.nested_folds import InnerFit, blocks_of_folds
from aam.inference.asv_cache import embed_asvs_cached, module_digest
from aam.inference.embed import embed_samples
from aam.inference.outputs import Outputs, Share
from aam.model.asv_encoders import Architecture
from aam.model.predictor import Predictor
from aam.tasks.finetune.fold_model import FoldModel, FrozenEmbeddings
from aam.tasks.finetune.parallel import ModelKey
from aam.tasks.finetune.recipe_mixture import MixedRecipes, RecipeMixer
from aam.tasks.finetune.recipes import affordable_recipes, nested_fits, recipe_settings
from aam.tasks.finetune.setup import FinetuneSetup
from aam.tasks.finetune.train_fold import train_or_read
from aam.train.progress import Record

UNCHANGED = ("frozen", "kernel")
"""Recipes that leave the encoder as it is."""


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The models of all folds of a task."""

    setup: FinetuneSetup

    @cached_property
    def networks(self) -> dict[str, int]:
        """Number of models per fold, by recipe: as the settings say, or what the budget allows."""
        settings = self.setup.settings
        if settings.recipe == "auto" and settings.start == "pretrained":
            return affordable_recipes(self.setup)
        # An encoder from scratch has learned nothing that could be kept.
        recipe = "full" if settings.recipe == "auto" else settings.recipe
        # A kernel machine draws nothing: a second one would be the same.
        return {recipe: 1 if recipe == "kernel" else settings.networks}

    @property
    def recipes(self) -> list[str]:
        """Names of the recipes that are trained in every fold."""
        return list(self.networks)

    @cached_property
    def inner_fits(self) -> dict[str, list[InnerFit]]:
        """The fits of the nested cross-validation by recipe; none where nothing is mixed."""
        if self.setup.is_mixed or len(self.recipes) > 1:
            return {recipe: nested_fits(self.setup, recipe) for recipe in self.recipes}
        return {recipe: [] for recipe in self.recipes}

    def models(self) -> list[ModelKey]:
        """Return the key of every model: those of the folds, then those of the nested fits.

        Nested fits have one model each, whatever the number of models of a fold.
        """
        keys = []
        for fold in self._folds():
            for recipe, models in self.networks.items():
                keys += [ModelKey(f"fold{fold}", recipe, number) for number in range(models)]
        for recipe, fits in self.inner_fits.items():
            keys += [ModelKey(f"without{fit.name}", recipe, 0) for fit in fits]
        return keys

    def train(self, models: Sequence[ModelKey]) -> None:
        """Train some of the models, for a `run` that finds them finished.

        Parameters
        ----------
        models
            Keys of these models, as `models` returns them.
        """
        for _, model in self._fold_models(models):
            train_or_read(model)

    def run(self) -> "Finished":
        """Train all models; one that an earlier run finished is read, not trained.

        Returns
        -------
        Finished
            Predictions, curves and directories of the models.

        Raises
        ------
        InputError
            See `aam.train.loop.fit`.
        """
        trained_on = self._trained_on()
        reference_key = self._reference_key()
        collected = _Collected()
        reference_ND = None
        for key, model in self._fold_models(self.models()):
            predictor, records = train_or_read(model)
            if model.inner is not None:
                collected.nested[key] = model.outputs(predictor, model.inner.rows)
                continue
            self._collect(collected, key, model, predictor, records)
            if key == reference_key:
                exact = self.setup.devices.exact()
                reference_ND = model.embedded(predictor, trained_on, exact)
        assert reference_ND is not None, "a task has folds"
        mixer = RecipeMixer(
            setup=self.setup,
            networks=self.networks,
            inner_fits=self.inner_fits,
            outer=collected.outer,
            test=collected.test,
            nested=collected.nested,
        )
        mixed = mixer.mix()
        names = collected.names
        return Finished(
            mixed=mixed,
            history=collected.history,
            models=collected.directories,
            shares={names[key]: share for key, share in mixed.shares.items()},
            digests=collected.digests,
            trained_on=[self.setup.store.sample_ids[sample] for sample in trained_on],
            reference_ND=reference_ND,
            reference_model=names[reference_key],
        )

    def _collect(
        self,
        collected: "_Collected",
        key: ModelKey,
        model: FoldModel,
        predictor: Predictor,
        records: Sequence[Record],
    ) -> None:
        """Add predictions, curves and directory of a trained model of a fold.

        Parameters
        ----------
        collected
            What it is added to.
        key
            Which of the models of the task this is.
        model
            The model.
        predictor
            The same, trained.
        records
            Its training curves.
        """
        collected.names[key] = model.name
        collected.directories[model.name] = model.directory
        collected.digests[model.name] = module_digest(predictor)
        about = {"fold": model.fold, "recipe": key.recipe, "model": key.number}
        collected.history += [{**about, **record} for record in records]
        collected.outer[key] = model.outputs(predictor, self._rows(model.fold))
        test_rows = self._rows(TEST)
        if len(test_rows):
            collected.test[key] = model.outputs(predictor, test_rows)

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

    def _rows(self, fold: int) -> NDArray[np.intp]:
        """Return the positions of a fold's samples among the labelled ones."""
        return np.flatnonzero(self.setup.labelled.fold == fold)

    def _fold_models(self, models: Sequence[ModelKey]) -> Iterator[tuple[ModelKey, FoldModel]]:
        """Yield each model, ready for training, with its key.

        Models that start from the same encoder share the embeddings that they leave as they are.
        """
        embeddings = None
        embedded_fold = None
        for key in models:
            fold, fit = self._find_fold(key)
            # Each inductive fold has an encoder of its own; other folds have the same.
            if embeddings is None or (self.setup.settings.inductive and fold != embedded_fold):
                embeddings = self._frozen(fold)
                embedded_fold = fold
            model = FoldModel(
                setup=self.setup,
                fold=fold,
                number=key.number,
                frozen=embeddings.kept_by(key.recipe),
                recipe=key.recipe if len(self.recipes) > 1 else "",
                inner=fit,
            )
            settings = self._settings(key.recipe, int(model.is_training.sum()))
            yield key, replace(model, setup=replace(self.setup, settings=settings))

    def _find_fold(self, key: ModelKey) -> tuple[int, InnerFit | None]:
        """Return the fold whose encoder a model starts from, and the model's nested fit, if any."""
        for fit in self.inner_fits[key.recipe]:
            if key.part == f"without{fit.name}":
                # An inductive encoder has not seen its own fold, which has to be one that the fit
                # leaves out.
                block = min(fit.predicted)
                blocks = blocks_of_folds(self.setup.labelled.fold)
                return min(fold for fold in blocks if blocks[fold] == block), fit
        return int(key.part.removeprefix("fold")), None

    def _settings(self, recipe: str, samples: int) -> Finetuning:
        """Return the settings of a model that is trained on so many samples."""
        settings = self.setup.settings
        if settings.recipe == "auto" and settings.start == "pretrained":
            return recipe_settings(self.setup, self._shape, recipe, samples)
        return settings.model_copy(update={"recipe": recipe})

    @cached_property
    def _shape(self) -> Architecture:
        return self.setup.make_encoder(self._folds()[0], 0).shape

    def _frozen(self, fold: int) -> FrozenEmbeddings:
        """Embed once what the models of a fold do not change."""
        setup = self.setup
        if self.recipes == ["full"]:
            return FrozenEmbeddings()
        # Weights that are kept are pretrained ones, which the models of a fold have in common.
        encoder = setup.make_encoder(fold, 0)
        devices = setup.devices.exact()
        asv_UD = embed_asvs_cached(encoder, setup.tokens, devices, setup.asvs)
        if not set(UNCHANGED) & set(self.recipes):
            return FrozenEmbeddings(asv_UD)
        # A kernel machine is fitted to views; a frozen encoder's head sees augmented rows, too.
        rows_of_views = setup.store.views * len(setup.store.sample_ids)
        all_rows = len(setup.store.row_view)
        rows = np.arange(all_rows if "frozen" in self.recipes else rows_of_views)
        embedding_RD = embed_samples(encoder, setup.store, setup.tokens, rows, devices, asv_UD)
        return FrozenEmbeddings(asv_UD, embedding_RD)


@dataclass(eq=False)
class _Collected:
    """What is collected from the models of a task while they are trained one after the other."""

    outer: dict[ModelKey, Outputs] = field(default_factory=dict)
    """What the models of a fold predict for the fold."""
    test: dict[ModelKey, Outputs] = field(default_factory=dict)
    """What they predict for the held-out test set."""
    nested: dict[ModelKey, Outputs] = field(default_factory=dict)
    """What the models of nested fits predict for their rows."""
    names: dict[ModelKey, str] = field(default_factory=dict)
    """Name of each model of the folds."""
    directories: dict[str, Path] = field(default_factory=dict)
    """Directory of each of these by its name."""
    digests: dict[str, str] = field(default_factory=dict)
    """What identifies the weights of each of these, by its name."""
    history: list[Record] = field(default_factory=list)
    """The training curves of all of these."""


@dataclass(frozen=True, eq=False)
class Finished:
    """What cross-validation returns: predictions, curves, and the trained models."""

    mixed: MixedRecipes
    """What the recipes predict, and what each counts for."""
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
    """Embeddings of the samples `trained_on` in view 0, by the encoder of `reference_model`."""
    reference_model: str
    """Name of a model whose encoder is the pretrained one, or of the first, where none is."""
