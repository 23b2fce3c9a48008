"""One model of a cross-validation: trained without the labels of a fold, or of some more samples.

Shape suffixes: N samples of the store, L labelled samples, E encoded values of a target, R rows of
the store, U ASVs, F metadata columns, D width; T training samples.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aam.batches.dataset import AsvDataset, BatchDataset, EmbeddingDataset
from aam.batches.masking import AsvDropout
from aam.batches.words import check_kind, learn_words
from aam.data.nested_folds import InnerFit
from aam.data.target import Target
from aam.distributed.inference_device import InferenceDevice
from aam.inference.embed import embed_samples
from aam.inference.outputs import Outputs, decode_outputs, mean_reads, raw_outputs
from aam.model.batch import TARGET
from aam.model.fusion import Vocabulary
from aam.model.kernel_head import KernelShape
from aam.model.predictor import Predictor
from aam.tasks.finetune.setup import FinetuneSetup
from aam.util.seeds import seed_of

PREVALENCE = 0.01
"""Least fraction of the training samples with an ASV whose reads a kernel head looks at."""


@dataclass(frozen=True, eq=False)
class FrozenEmbeddings:
    """Embeddings that training leaves as they are."""

    asv_UD: Tensor | None = None
    """Embeddings of all ASVs of the token store, where the ASV level is not trained."""
    embedding_RD: Tensor | None = None
    """Embeddings of all rows of the sample store, where nothing of the encoder is trained."""

    def kept_by(self, recipe: str) -> "FrozenEmbeddings":
        """Return those that stay as they are in a training by this recipe."""
        if recipe == "full":
            return FrozenEmbeddings()
        return FrozenEmbeddings(self.asv_UD) if recipe == "partial" else self


@dataclass(frozen=True, eq=False)
class FoldModel:
    """One of the models of a fold, trained without the labels of the fold.

    Attributes
    ----------
    setup
        What the models of the task share, with the settings of this one.
    fold
        Number of the fold.
    number
        Number of the model, where several differ in their seeds alone.
    name
        Name of its folder.
    frozen
        Embeddings that its training leaves as they are.
    inner
        The fit of the nested cross-validation that this model is; None: it is one of the fold's.
    """

    setup: FinetuneSetup
    fold: int
    number: int
    name: str
    frozen: FrozenEmbeddings
    inner: InnerFit | None = None

    @property
    def directory(self) -> Path:
        """Folder of the trained model."""
        return self.setup.work / "finished" / self.name

    def new_predictor(self) -> Predictor:
        """Return the model before its training, with the target of its training samples."""
        task = self.setup.task
        settings = self.setup.settings
        labelled = self.setup.labelled
        target = Target.fit(
            task.kind,
            task.columns,
            labelled.observed_LC,
            self.is_training,
            loss=settings.loss,
            transform=task.transform,
            by=self.scaled_by,
            bounds=task.bounds,
            classes=task.classes,
            class_weights=settings.class_weights,
        )
        vocabulary = None
        if task.condition:
            vocabulary = Vocabulary.fit(task.condition, self._covariates(), self.is_training)
        encoder = self.setup.make_encoder(self.fold, self.number)
        check_kind(encoder, self.setup.tokens)
        if settings.from_scratch:
            samples = np.sort(labelled.samples[self.is_training])
            learn_words(encoder, self.setup.store, self.setup.tokens, samples)
        kernel = None
        if settings.recipe == "kernel":
            kernel = KernelShape(
                samples=int(self.is_training.sum()),
                asvs=len(self.prevalent_asvs),
                length_bp=encoder.shape.max_length_bp,
            )
        predictor = Predictor(
            encoder,
            target,
            vocabulary=vocabulary,
            kernel=kernel,
            seed=self._seed("head"),
        )
        encoder.requires_grad_(settings.recipe == "full")
        if settings.recipe == "partial":
            for block in list(encoder.sample.blocks)[-settings.trained_layers :]:
                block.requires_grad_(True)
            encoder.sample.pooling.requires_grad_(True)
        return predictor

    def dataset(self, predictor: Predictor) -> BatchDataset:
        """Return the batches that the model is trained on."""
        setup = self.setup
        settings = self.setup.settings
        labelled = self.setup.labelled
        encoded_LE = predictor.target.encode(labelled.observed_LC, self.scaled_by)
        value_NE = np.zeros((len(setup.store.sample_ids), encoded_LE.shape[1]), np.float32)
        value_NE[labelled.samples] = encoded_LE
        common: dict[str, Any] = {
            "store": setup.store,
            "tokens": setup.tokens,
            "samples": np.sort(labelled.samples[self.is_training]),
            "batch_size": settings.batch_size,
            "epochs": settings.epochs,
            "seed": self._seed("fold"),
            "values": {TARGET: value_NE},
            "category_NF": self._categories(predictor),
        }
        if self.frozen.embedding_RD is not None:
            return EmbeddingDataset(**common, embedding_RD=self.frozen.embedding_RD)
        if settings.asv_dropout:
            common["asv_dropout"] = AsvDropout(settings.asv_dropout, common["seed"])
        if self.frozen.asv_UD is not None:
            return AsvDataset(**common, asv_UD=self.frozen.asv_UD)
        return BatchDataset(**common)

    @cached_property
    def prevalent_asvs(self) -> NDArray[np.int64]:
        """Return the ASVs that enough training samples have, or those that most have."""
        setup = self.setup
        samples = setup.labelled.samples[self.is_training]
        reads_TU = mean_reads(setup.store, samples, len(setup.tokens.lengths))
        prevalence_U = np.diff(reads_TU.indptr) / len(samples)
        return np.flatnonzero(prevalence_U >= min(PREVALENCE, prevalence_U.max()))

    def outputs(self, predictor: Predictor, labelled: NDArray[np.int64]) -> Outputs:
        """Return what the model says of some labelled samples, the mean of the store's views.

        Parameters
        ----------
        predictor
            The trained model.
        labelled
            Positions among the labelled samples.

        Returns
        -------
        Outputs
            In the order of `labelled`.
        """
        setup = self.setup
        store = setup.store
        samples = setup.labelled.samples[labelled]
        rows_R = (np.arange(store.views)[:, None] * len(store.sample_ids) + samples).reshape(-1)
        category_NF = self._categories(predictor)
        category_RF = None
        if category_NF is not None:
            category_RF = np.tile(category_NF[samples], (store.views, 1))
        by = self.scaled_by
        output_RO = raw_outputs(
            predictor,
            store,
            setup.tokens,
            rows_R,
            setup.devices.exact(),
            embedding_RD=self._kept_embeddings(rows_R),
            asv_UD=self.frozen.asv_UD,
            category_RF=category_RF,
        )
        by_R = None if by is None else [by[row] for row in labelled] * store.views
        return decode_outputs(predictor.target, output_RO, store.views, by_R)

    def embedded(
        self, predictor: Predictor, rows_R: NDArray[np.int64], devices: InferenceDevice
    ) -> Tensor:
        """Return the embeddings of some rows of the store.

        Parameters
        ----------
        predictor
            The model.
        rows_R
            Rows of the store.
        devices
            Where embeddings are computed that are not known.

        Returns
        -------
        torch.Tensor
            [R, D] in fp32 on the host.
        """
        setup = self.setup
        kept_RD = self._kept_embeddings(rows_R)
        if kept_RD is not None:
            return kept_RD
        return embed_samples(
            predictor.encoder, setup.store, setup.tokens, rows_R, devices, self.frozen.asv_UD
        )

    def _kept_embeddings(self, rows_R: NDArray[np.int64]) -> Tensor | None:
        embedding_RD = self.frozen.embedding_RD
        return None if embedding_RD is None else embedding_RD[torch.from_numpy(rows_R)]

    @cached_property
    def is_training(self) -> NDArray[np.bool_]:
        """Which of the labelled samples the model is trained on, [L]."""
        if self.inner is not None:
            return self.inner.is_training_N
        settings = self.setup.settings
        return self.setup.labelled.training(self.fold, settings.labels, settings.seed)

    @cached_property
    def scaled_by(self) -> list[str] | None:
        """Category that chooses the scale of each labelled sample; None: there is one scale."""
        column = self.setup.task.transform_by
        return None if column is None else [*self.setup.labelled.categories[column]]

    def _seed(self, what: str) -> int:
        part = self.fold if self.inner is None else self.inner.name
        further = (self.number,) if self.number else ()
        return seed_of(what, self.setup.settings.seed, part, *further)

    def _covariates(self) -> NDArray[np.object_]:
        """Return the covariates of the labelled samples, text, [L, F]."""
        categories = self.setup.labelled.categories
        return np.stack([categories[column] for column in self.setup.task.condition], axis=1)

    def _categories(self, predictor: Predictor) -> NDArray[np.int64] | None:
        """Return the numbers of the covariates of all samples of the store, [N, F]."""
        if predictor.vocabulary is None:
            return None
        category_LF = predictor.vocabulary.encode(self._covariates())
        category_NF = np.zeros((len(self.setup.store.sample_ids), category_LF.shape[1]), np.int64)
        category_NF[self.setup.labelled.samples] = category_LF
        return category_NF
