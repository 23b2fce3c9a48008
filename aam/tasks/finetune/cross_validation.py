"""Fine-tuning fold by fold: every labelled sample is predicted by a model that never saw its label.

Shape suffixes: N samples of the store, L labelled samples, C columns or classes, Q quantiles, D
width.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from aam.data.folds import TEST
from aam.data.target import QUANTILES
from aam.evaluate.predictions import PROBABILITY, QUANTILE, TARGET
from aam.inference.asv_cache import embed_asvs_cached, module_digest
from aam.inference.embed import embed_samples
from aam.inference.outputs import Outputs, mean_outputs
from aam.tasks.finetune.fold_model import FoldModel, FrozenEmbeddings
from aam.tasks.finetune.recipes import Choice, choose, kept, possible_recipes
from aam.tasks.finetune.setup import FinetuneSetup
from aam.tasks.finetune.train_fold import trained
from aam.train.progress import Record


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The models of all folds of a task."""

    setup: FinetuneSetup

    def models(self) -> list[tuple[int, int]]:
        """Return fold and number of every model."""
        folds = sorted(set(self.setup.labelled.fold.tolist()) - {TEST})
        return [(fold, number) for fold in folds for number in range(self.setup.settings.models)]

    def train(self, models: Sequence[tuple[int, int]]) -> None:
        """Train some of the models, for a `run` that finds them finished."""
        for model, _ in self._fold_models(models):
            trained(model)

    def run(self) -> "Finished":
        """Train all models; one that an earlier run finished is read, not trained."""
        parts: dict[int, list[Outputs]] = defaultdict(list)
        history: list[Record] = []
        directories, digests, choices, reference_ND = {}, {}, {}, None
        for model, choice in self._fold_models(self.models()):
            choices[model.fold] = choice
            predictor, records = trained(model)
            directories[model.name] = model.directory
            digests[model.name] = module_digest(predictor)
            history += [{"fold": model.fold, "model": model.number, **one} for one in records]
            for part in (model.fold, TEST):
                rows = np.flatnonzero(self.setup.labelled.fold == part)
                if len(rows):
                    parts[part].append(model.outputs(predictor, rows))
            if reference_ND is None:
                reference_ND = model.training_embeddings(predictor)
        assert reference_ND is not None, "a task has folds"
        outputs = self._joined(parts)
        return Finished(outputs, history, directories, digests, choices, reference_ND)

    def _fold_models(self, models: Sequence[tuple[int, int]]) -> Iterator[tuple[FoldModel, Choice]]:
        frozen, embedded_fold = None, None
        for fold, number in models:
            # Of inductive folds each has an encoder of its own, else all have the same.
            if frozen is None or (self.setup.settings.inductive and fold != embedded_fold):
                frozen, embedded_fold = self._frozen(fold), fold
            choice = self._choice(fold, frozen)
            if number > 0 and choice.settings.encoder == "kernel":
                # Nothing of it is drawn: it would be the same again.
                continue
            setup = replace(self.setup, settings=choice.settings)
            stay = kept(frozen, choice.settings.encoder)
            yield FoldModel(setup, fold, number, stay), choice

    def _choice(self, fold: int, frozen: FrozenEmbeddings) -> Choice:
        """Return the settings of a fold: those given, or what is chosen inside of its samples."""
        settings = self.setup.settings
        if settings.encoder != "auto":
            return Choice(settings.encoder, settings, {})
        if settings.start == "scratch":
            # Nothing is learned yet that could be kept.
            return Choice("full", settings.model_copy(update={"encoder": "full"}), {})
        return choose(self.setup, fold, frozen)

    def _frozen(self, fold: int) -> FrozenEmbeddings:
        """Embed once what the models of a fold do not change."""
        setup, settings = self.setup, self.setup.settings
        if settings.encoder == "full" or settings.start == "scratch":
            return FrozenEmbeddings()
        # Weights that are kept are pretrained ones, which the models of a fold have in common.
        encoder, devices = setup.make_encoder(fold, 0), setup.devices.exact()
        asv_UD = embed_asvs_cached(encoder, setup.tokens, devices, setup.asvs)
        if settings.encoder == "partial":
            return FrozenEmbeddings(asv_UD)
        views = setup.store.views * len(setup.store.sample_ids)
        if settings.encoder == "auto" and "kernel" not in possible_recipes(setup):
            return FrozenEmbeddings(asv_UD)
        rows = np.arange(len(setup.store.row_view) if settings.encoder == "frozen" else views)
        embedding_RD = embed_samples(encoder, setup.store, setup.tokens, rows, devices, asv_UD)
        return FrozenEmbeddings(asv_UD, embedding_RD)

    def _joined(self, parts: Mapping[int, list[Outputs]]) -> Outputs:
        """Return the outputs of all labelled samples, each the mean over its models."""
        means = [mean_outputs(outputs) for outputs in parts.values()]
        fold = self.setup.labelled.fold
        order = np.argsort(np.concatenate([np.flatnonzero(fold == part) for part in parts]))
        quantiles = [mean.quantile_NCQ for mean in means if mean.quantile_NCQ is not None]
        return Outputs(
            point_NC=np.concatenate([mean.point_NC for mean in means])[order],
            quantile_NCQ=np.concatenate(quantiles)[order] if quantiles else None,
        )


@dataclass(frozen=True, eq=False)
class Finished:
    """What cross-validation leaves."""

    outputs: Outputs
    """Of each labelled sample, the mean over the models that never saw its label, and the views."""
    history: list[Record]
    """The training curves."""
    models: dict[str, Path]
    """Directory of each model by its name."""
    digests: dict[str, str]
    """What identifies the weights of each."""
    choices: dict[int, Choice]
    """The recipe of each fold."""
    reference_ND: torch.Tensor
    """Embeddings of the training samples by the first model, of view 0."""


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
