"""Fine-tuning fold by fold: every labelled sample is predicted by a model that never saw its label.

Where several recipes are mixed, or a super learner will mix the predictions with others, some more
models are trained: nested predictions, which the weights of a fold rest on, come from them.

Shape suffixes: N samples of the store, L labelled ones, R rows of the store, U ASVs, D width.
"""

import logging
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
from aam.model.encoder import set_dropout
from aam.model.heads import recalibrate_batch_norm, select_evenly
from aam.model.predictor import Predictor
from aam.model.store import is_whole, load_config, load_weights
from aam.tasks.finetune.fold_model import FoldModel, FrozenEmbeddings
from aam.tasks.finetune.kernel_head_fit import fit_kernel_head
from aam.tasks.finetune.parallel import ModelKey
from aam.tasks.finetune.recipe_mixture import MixedRecipes, RecipeMixer
from aam.tasks.finetune.recipes import affordable_recipes, nested_fits, recipe_settings
from aam.tasks.finetune.setup import FinetuneSetup
from aam.train.checkpoint import Checkpoints
from aam.train.loop import fit
from aam.train.precision import PrecisionChoice
from aam.train.progress import Progress, Record
from aam.util.atomic import read_json, write_json

logger = logging.getLogger(__name__)
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
        if settings.has_budget:
            return affordable_recipes(self.setup)
        # An encoder from scratch has learned nothing that could be kept.
        recipe = "full" if settings.recipe == "auto" else settings.recipe
        # A kernel head draws nothing: a second one would be the same.
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
                keys += [ModelKey(recipe, fold, number=number) for number in range(models)]
        for recipe, fits in self.inner_fits.items():
            keys += [ModelKey(recipe, self._fold_of(fit), without=fit.name) for fit in fits]
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
                outputs = model.outputs(predictor, model.inner.rows)
                collected.nested[key.recipe, model.inner.name] = outputs
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
            # Each inductive fold has an encoder of its own; other folds have the same.
            if embeddings is None or (self.setup.settings.inductive and key.fold != embedded_fold):
                embeddings = self._frozen(key.fold)
                embedded_fold = key.fold
            fits = {fit.name: fit for fit in self.inner_fits[key.recipe]}
            model = FoldModel(
                setup=self.setup,
                fold=key.fold,
                number=key.number,
                name=key.file_name(names_recipe=len(self.recipes) > 1),
                frozen=embeddings.kept_by(key.recipe),
                inner=fits[key.without] if key.without else None,
            )
            settings = self._settings(key.recipe, int(model.is_training.sum()))
            yield key, replace(model, setup=replace(self.setup, settings=settings))

    def _fold_of(self, fit: InnerFit) -> int:
        """Return the fold whose encoder the model of a nested fit starts from.

        An inductive encoder has not seen its own fold, which has to be one that the fit leaves out.
        """
        blocks = blocks_of_folds(self.setup.labelled.fold)
        return min(fold for fold in blocks if blocks[fold] == min(fit.predicted))

    def _settings(self, recipe: str, samples: int) -> Finetuning:
        """Return the settings of a model that is trained on so many samples."""
        settings = self.setup.settings
        if settings.has_budget:
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
        # A kernel head is fitted to views; a frozen encoder's head sees augmented rows, too.
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
    nested: dict[tuple[str, str], Outputs] = field(default_factory=dict)
    """What the models of nested fits predict for their rows, by recipe and name of the fit."""
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


def train_or_read(model: FoldModel) -> tuple[Predictor, list[Record]]:
    """Train a model; one that was finished before is read.

    Parameters
    ----------
    model
        Which of the models of a task this is.

    Returns
    -------
    predictor : Predictor
        The trained model.
    records : list of dict
        Its training curves.

    Raises
    ------
    InputError
        See `aam.train.loop.fit` and `fit_kernel_head`.
    """
    setup = model.setup
    fingerprint = f"{setup.fingerprint}-{model.name}"
    predictor = model.new_predictor()
    # The curves lie next to the model's folder: they hold times, by which the files of equal models
    # would differ.
    history = model.directory.with_name(f"{model.name}.json")
    finished = _finished_curves(model, history, fingerprint)
    if finished is not None:
        logger.info("%s is finished, and is read", model.name)
        PrecisionChoice(setup.devices).adopt(load_config(model.directory)["optimization"])
        load_weights(model.directory, predictor)
        return predictor, finished
    records = []
    optimization = None
    if setup.settings.recipe == "kernel":
        fit_kernel_head(model, predictor)
    else:
        progress = _fit_by_steps(model, predictor, fingerprint)
        records = progress.history
        optimization = progress.facts["optimization"]
    write_json(history, {"fingerprint": fingerprint, "records": records})
    facts = {"fold": model.fold, "fingerprint": fingerprint, "optimization": optimization}
    predictor.save(model.directory, {**setup.about, **facts})
    Checkpoints(setup.work / model.name, fingerprint).clear()
    return predictor, records


def _finished_curves(model: FoldModel, history: Path, fingerprint: str) -> list[Record] | None:
    """Return the curves of a model that an earlier run finished; None: there is none."""
    if not (is_whole(model.directory) and history.is_file()):
        return None
    written = read_json(history)
    is_same = load_config(model.directory)["fingerprint"] == fingerprint
    if not is_same or written.get("fingerprint") != fingerprint:
        return None
    records: list[Record] = written["records"]
    return records


def _fit_by_steps(model: FoldModel, predictor: Predictor, fingerprint: str) -> Progress:
    """Train a predictor step by step, from its last checkpoint where there is one."""
    setup = model.setup
    settings = model.setup.settings
    dataset = model.dataset(predictor)
    set_dropout(predictor, settings.dropout)
    log_dir = setup.runtime.log_dir
    progress = fit(
        predictor,
        dataset,
        settings,
        devices=setup.devices,
        options=setup.options,
        checkpoints=Checkpoints(setup.work / model.name, fingerprint),
        runtime=replace(setup.runtime, log_dir=log_dir and log_dir / model.name),
        name=f"fine-tuning, {model.name}",
    )
    some_RD = model.embedded(predictor, select_evenly(dataset.samples), setup.devices)
    recalibrate_batch_norm(predictor.head, some_RD)
    return progress
