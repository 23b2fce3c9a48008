"""One model of a cross-validation: trained without the labels of a fold.

Letters: N samples of the store, L labelled samples, E encoded values of a target, R rows of the
store, U ASVs, F metadata columns, D width.
"""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aam.model.batch import TARGET
from aam.model.build import set_dropout
from aam.model.encoder import Encoder
from aam.model.fusion import Vocabulary
from aam.model.predictor import Predictor
from aam.model.store import is_whole, load_config, load_weights
from aam.model.target import Target
from aam.train.checkpoint import Checkpoints
from aam.train.devices import Devices
from aam.train.feed import AsvFeed, EmbeddingFeed, Feed
from aam.train.inference import embed_samples
from aam.train.loop import Pace, fit
from aam.train.outputs import Outputs, decoded, raw_outputs
from aam.train.progress import Record
from aam.train.statistics import settle, some_of
from aam.train.study import Study
from aam.train.thinning import thinning
from aam.util.atomic import read_json, write_json
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Known:
    """Embeddings that training leaves as they are.

    Attributes
    ----------
    asv_UD
        Of all ASVs of the token store, where the ASV level is not trained.
    embedding_RD
        Of all rows of the sample store, where nothing of the encoder is.
    """

    asv_UD: Tensor | None = None
    embedding_RD: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Member:
    """One of the models of a fold.

    Attributes
    ----------
    study
        What it shares with the others.
    fold, number
        The fold that it is trained without, and its number among the models of that fold.
    name
        Of its folder.
    known
        Embeddings that are at hand.
    """

    study: Study
    fold: int
    number: int
    name: str
    known: Known

    def trained(self, directory: Path, about: dict[str, Any]) -> tuple[Predictor, list[Record]]:
        """Return the trained model and its curves; one that was finished before is read."""
        study, settings = self.study, self.study.settings
        fingerprint = f"{study.fingerprint}-{self.name}"
        predictor = self._new()
        # Beside the model: it holds times, which would make every model's files differ.
        history = directory.with_name(f"{self.name}.json")
        if is_whole(directory) and history.is_file():
            known = read_json(history)
            if load_config(directory)["fingerprint"] == known.get("fingerprint") == fingerprint:
                logger.info("%s was finished before", self.name)
                load_weights(directory, predictor)
                return predictor, known["records"]
        feed = self._feed(predictor)
        set_dropout(predictor, settings.dropout)
        self._choose_trained(predictor.encoder)
        checkpoints = Checkpoints(study.work / self.name, fingerprint)
        progress = fit(
            predictor,
            feed,
            settings,
            devices=study.devices,
            options=study.options,
            checkpoints=checkpoints,
            pace=self._pace(),
            layer_decay=settings.layer_decay,
        )
        settle(predictor.head, self._embedded(predictor, some_of(feed.samples), study.devices))
        write_json(history, {"fingerprint": fingerprint, "records": progress.history})
        facts = {
            **about,
            "fold": self.fold,
            "fingerprint": fingerprint,
            "optimization": progress.report["optimization"],
        }
        predictor.save(directory, facts)
        checkpoints.clear()
        return predictor, progress.history

    def outputs(self, predictor: Predictor, labelled: NDArray[np.int64]) -> Outputs:
        """Return what the model says of some labelled samples, the mean of the store's views."""
        study = self.study
        store, samples = study.store, study.labelled.samples[labelled]
        rows_R = (np.arange(store.views)[:, None] * len(store.sample_ids) + samples).reshape(-1)
        category_NF = self._categories(predictor)
        output_RO = raw_outputs(
            predictor,
            store,
            study.tokens,
            rows_R,
            study.devices.exact(),
            embedding_RD=self._rows_known(rows_R),
            asv_UD=self.known.asv_UD,
            category_RF=None
            if category_NF is None
            else np.tile(category_NF[samples], (store.views, 1)),
        )
        by = self._scaled_by()
        by_R = None if by is None else [by[row] for row in labelled] * store.views
        return decoded(predictor.target, output_RO, store.views, by_R)

    def embeddings(self, predictor: Predictor) -> Tensor:
        """Return the embeddings of the samples that the model was trained on, of view 0."""
        rows_R = np.sort(self.study.labelled.samples[self._is_training])
        return self._embedded(predictor, rows_R, self.study.devices.exact())

    @property
    def _is_training(self) -> NDArray[np.bool_]:
        settings = self.study.settings
        return self.study.labelled.training(self.fold, settings.labels, settings.seed)

    def _seed(self, what: str) -> int:
        settings = self.study.settings
        further = (self.number,) if self.number else ()
        return seed_of(what, settings.seed, self.fold, *further)

    def _new(self) -> Predictor:
        task, settings, labelled = (
            self.study.task,
            self.study.settings,
            self.study.labelled,
        )
        target = Target.fit(
            task.kind,
            task.columns,
            labelled.observed_LC,
            self._is_training,
            loss=settings.loss,
            transform=task.transform,
            by=self._scaled_by(),
            bounds=task.bounds,
            classes=task.classes,
            class_weights=settings.class_weights,
            label_smoothing=settings.label_smoothing,
            asymmetry=settings.asymmetry,
        )
        vocabulary = None
        if task.condition:
            vocabulary = Vocabulary.fit(task.condition, self._told(), self._is_training)
        return Predictor(
            self.study.make_encoder(self.fold, self.number),
            target,
            head=settings.head,
            fusion=settings.fusion,
            vocabulary=vocabulary,
            count_weight=settings.count_weight,
            seed=self._seed("head"),
        )

    def _choose_trained(self, encoder: Encoder) -> None:
        settings = self.study.settings
        encoder.requires_grad_(settings.encoder == "full")
        if settings.encoder == "partial":
            for block in list(encoder.sample.blocks)[-settings.trained_layers :]:
                block.requires_grad_(True)
            encoder.sample.pooling.requires_grad_(True)

    def _feed(self, predictor: Predictor) -> Feed:
        study, settings, labelled = (
            self.study,
            self.study.settings,
            self.study.labelled,
        )
        encoded_LE = predictor.target.encode(labelled.observed_LC, self._scaled_by())
        value_NE = np.zeros((len(study.store.sample_ids), encoded_LE.shape[1]), np.float32)
        value_NE[labelled.samples] = encoded_LE
        seed = self._seed("fold")
        common: dict[str, Any] = {
            "store": study.store,
            "tokens": study.tokens,
            "samples": np.sort(labelled.samples[self._is_training]),
            "batch_size": settings.batch_size,
            "epochs": settings.epochs,
            "seed": seed,
            "values": {TARGET: value_NE},
            "category_NF": self._categories(predictor),
        }
        if self.known.embedding_RD is not None and not predictor.needs_asvs:
            return EmbeddingFeed(**common, embedding_RD=self.known.embedding_RD)
        common["thinning"] = thinning(settings.asv_dropout, settings.count_weight > 0, seed)
        if self.known.asv_UD is not None:
            return AsvFeed(**common, asv_UD=self.known.asv_UD)
        return Feed(**common)

    def _embedded(
        self, predictor: Predictor, rows_R: NDArray[np.int64], devices: Devices
    ) -> Tensor:
        at_hand = self._rows_known(rows_R)
        if at_hand is not None:
            return at_hand
        study, asv_UD = self.study, self.known.asv_UD
        return embed_samples(predictor.encoder, study.store, study.tokens, rows_R, devices, asv_UD)

    def _rows_known(self, rows_R: NDArray[np.int64]) -> Tensor | None:
        embedding_RD = self.known.embedding_RD
        return None if embedding_RD is None else embedding_RD[torch.from_numpy(rows_R)]

    def _told(self) -> NDArray[np.object_]:
        """Return the categories of the labelled samples that the model is told, [L, F]."""
        categories = self.study.labelled.categories
        return np.stack([categories[column] for column in self.study.task.condition], axis=1)

    def _categories(self, predictor: Predictor) -> NDArray[np.int64] | None:
        """Return the numbers of the categories of all samples of the store, [N, F]."""
        if predictor.vocabulary is None:
            return None
        told_LF = predictor.vocabulary.encode(self._told())
        samples = len(self.study.store.sample_ids)
        category_NF = np.zeros((samples, told_LF.shape[1]), np.int64)
        category_NF[self.study.labelled.samples] = told_LF
        return category_NF

    def _scaled_by(self) -> list[str] | None:
        column = self.study.task.transform_by
        return None if column is None else [*self.study.labelled.categories[column]]

    def _pace(self) -> Pace:
        pace = self.study.pace
        notes = pace.notes
        folder = None if notes.folder is None else notes.folder / self.name
        name = f"{pace.name}, {self.name}"
        return replace(pace, name=name, notes=replace(notes, folder=folder))
